"""Test code that says no more than what a call returns.

Most published tests have one of these forms, with literals for all arguments and the answer:

    assert f(2, x=[3]) == 5

    def check(candidate):
        assert candidate(2, x=[3]) == 5
    check(f)

They need no process that runs test code: the judge has the program make the call, and compares.
"""

import ast
import builtins
from typing import Any, NamedTuple

from maxk.records import AssertTest


class Call(NamedTuple):
    """function(*args, **named) == expected"""

    function: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    expected: Any


def as_call(test: AssertTest) -> Call | None:
    """The call that the test code is about; None if it says anything else.

    >>> as_call(AssertTest("assert f(2, x=[3]) == 5"))
    Call(function='f', args=(2,), named={'x': [3]}, expected=5)
    >>> as_call(AssertTest("def check(c):\\n    assert c(1) == {2}\\ncheck(Solution().g)")).function
    'Solution().g'
    >>> as_call(AssertTest("assert abs(f(2)) == 5"))
    """
    try:
        lines = ast.parse(test.code).body
        constants = {name for line in lines for name in named_constant(line)}
        lines = [line for line in lines if not named_constant(line)]
        match lines:
            case [ast.Assert(test=said)]:
                return call_of(said, None, None, constants, test.function)
            case [
                ast.FunctionDef(
                    name=check,
                    args=ast.arguments(
                        args=[ast.arg(arg=candidate)], posonlyargs=[], kwonlyargs=[], defaults=[]
                    ),
                    body=[ast.Assert(test=said)],
                    decorator_list=[],
                ),
                ast.Expr(value=ast.Call(func=ast.Name(id=called), args=[given], keywords=[])),
            ] if called == check:
                return call_of(said, candidate, given, constants, test.function)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass  # it is no literal, or not even Python
    return None


def named_constant(line: ast.stmt) -> list[str]:
    """The names that a line gives to a literal, if that is all it does."""
    if not isinstance(line, ast.Assign) or not is_literal(line.value):
        return []
    return [target.id for target in line.targets if isinstance(target, ast.Name)]


def is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def call_of(
    said: ast.expr,
    candidate: str | None,
    given: ast.expr | None,
    constants: set[str],
    own: str | None,
) -> Call | None:
    """candidate, given: the parameter of a check function, and what is given for it. own: a name
    that is the program's although Python has one like it."""
    match said:
        case ast.Compare(
            left=ast.Call(func=asked, args=args, keywords=named),
            ops=[ast.Eq()],
            comparators=[expected],
        ):
            pass
        case _:
            return None
    if given is not None:
        if not isinstance(asked, ast.Name) or asked.id != candidate:
            return None
        asked = given
    match asked:
        case ast.Name(id=first):
            function = first
        case ast.Attribute(
            value=ast.Call(func=ast.Name(id=first), args=[], keywords=[]), attr=method
        ):
            function = f"{first}().{method}"
        case _:
            return None
    if first in constants or (hasattr(builtins, first) and first != own):
        return None
    if any(each.arg is None for each in named):
        return None
    return Call(
        function,
        tuple(map(ast.literal_eval, args)),
        {str(each.arg): ast.literal_eval(each.value) for each in named},
        ast.literal_eval(expected),
    )
