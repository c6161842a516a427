"""MBPP turned to stdin and stdout: arguments come on stdin, the result goes to stdout.

The paper says it was done and not how. Here, so that the text can be read back without doubt:

- a number, a bool (True, False) or a string: a line with it, the string without quotes
- a list or tuple of these: a line with them, separated by spaces
- a list of lists of these: a line with their number, then a line each

The result is printed the same way, a list of lists without the line for its number. Anything else
(dicts, sets, deeper lists, strings with line breaks, strings with spaces inside lists) has no such
form, and the problem is dropped; so are problems whose tests are not all of the form
`assert f(arguments) == result`, or differ in the kinds of their arguments. Every problem that is
kept has been proven by running its reference, wrapped to read and print this way, on every test.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from maxk.data.base import Account
from maxk.data.functions import parsed
from maxk.records import AssertTest, Problem, StdinTest, Test
from maxk.verify import Verifier

_NAMES = {"int": "an integer", "float": "a number", "bool": "True or False", "str": "a string"}
_PLURALS = {"int": "integers", "float": "numbers", "bool": "True or False each", "str": "words"}


class NoFormError(ValueError):
    """A value or a test that has no form on stdin."""


def to_stdin(problems: Iterable[Problem], verifier: Verifier, account: Account) -> list[Problem]:
    """The problems in stdin form, those whose wrapped reference passes every test."""
    turned = []
    for problem in problems:
        try:
            turned.append(stdin_problem(problem))
        except NoFormError as error:
            account.drop(f"no stdin form: {error}")
    verdicts = verifier.judge([(p.reference or "", p.tests) for p in turned])
    kept = []
    for problem, verdict in zip(turned, verdicts, strict=True):
        if verdict.passed:
            kept.append(problem)
        else:
            account.drop("the reference, wrapped, does not pass")
    return kept


def stdin_problem(problem: Problem) -> Problem:
    """One problem in stdin form; not proven yet."""
    if problem.entry_point is None or problem.reference is None:
        raise NoFormError("no function or no reference")
    calls = [call_of(test, problem.entry_point) for test in problem.tests]
    kinds = [merged([kind_of(args[i]) for args, _ in calls]) for i in range(len(calls[0][0]))]
    result = merged([kind_of(value) for _, value in calls])
    tests = [StdinTest(shown_all(args), shown(value), **close(result)) for args, value in calls]
    examples = tests[: len(problem.examples)]
    return replace(
        problem,
        id=f"{problem.id}/stdin",
        statement=f"{problem.statement.strip()}\n\n{description(kinds, result)}",
        tests=tuple(tests),
        entry_point=None,
        reference=wrapped(problem.reference, problem.entry_point, kinds),
        examples=tuple(examples),
    )


def call_of(test: Test, function: str) -> tuple[tuple[Any, ...], Any]:
    """Arguments and result of `assert f(arguments) == result`."""
    if not isinstance(test, AssertTest):
        raise NoFormError("a test that is no assert")
    body = parsed(test.code).body
    statement = body[-1]
    if not isinstance(statement, ast.Assert) or len(body) != 1:
        raise NoFormError("a test with more than an assert")
    compare = statement.test
    if not (
        isinstance(compare, ast.Compare)
        and len(compare.ops) == 1
        and isinstance(compare.ops[0], ast.Eq)
        and isinstance(compare.left, ast.Call)
        and isinstance(compare.left.func, ast.Name)
        and compare.left.func.id == function
        and not compare.left.keywords
    ):
        raise NoFormError("a test that is not f(arguments) == result")
    try:
        args = tuple(ast.literal_eval(arg) for arg in compare.left.args)
        return args, ast.literal_eval(compare.comparators[0])
    except ValueError:
        raise NoFormError("arguments or result are not literals") from None


# --- values as text ------------------------------------------------------------------------------
# A kind is "int", "float", "bool", "str", "[int]", "[[int]]", ...; "[]" and "[[]]" for empty ones.


def kind_of(value: Any) -> str:
    """The kind of a value, or NoFormError."""
    if type(value) in (int, float, bool):
        return type(value).__name__
    if type(value) is str:
        if re.search(r"[\r\n]", value) or value != value.strip() or not value:
            raise NoFormError("a string that is empty or has blanks at its ends")
        return "str"
    if type(value) in (list, tuple):
        inner = merged([kind_of(item) for item in value])
        if inner.startswith("[["):
            raise NoFormError("lists in lists in lists")
        if inner == "str" and any(re.search(r"\s", item) for item in value):
            raise NoFormError("a list of strings with blanks inside")
        return f"[{inner}]"
    raise NoFormError(f"a {type(value).__name__}")


def merged(kinds: Sequence[str]) -> str:
    """The kind that all of these can be read as: integers are numbers, an empty list any list."""
    found = set(kinds)
    if len(found) > 1:
        depths = {len(kind) - len(kind.lstrip("[")) for kind in found}
        names = {kind.strip("[]") for kind in found} - {""}
        if len(depths) != 1 or len(names - {"int", "float"}) > (0 if len(names) > 1 else 1):
            raise NoFormError("tests with arguments or results of different kinds")
        depth, name = depths.pop(), "float" if len(names) > 1 else names.pop()
        return "[" * depth + name + "]" * depth
    return found.pop() if found else ""


def shown_all(args: Sequence[Any]) -> str:
    """The arguments as the program's stdin."""
    return "".join(f"{shown(arg, counted=True)}\n" for arg in args)


def shown(value: Any, counted: bool = False) -> str:
    if type(value) not in (list, tuple):
        return str(value)
    if any(type(item) in (list, tuple) for item in value):
        rows = [" ".join(map(str, row)) for row in value]
        return "\n".join([str(len(rows)), *rows] if counted else rows)
    return " ".join(map(str, value))


def close(kind: str) -> dict[str, Any]:
    """Numbers with a fraction are compared as numbers, as they are among functions."""
    return {"tolerance": 1e-6} if kind.strip("[]") == "float" else {}


def wrapped(reference: str, function: str, kinds: Sequence[str]) -> str:
    """The reference as a program that reads its arguments and prints its result."""
    return f"""{reference.rstrip()}


def _read(kind):
    if kind.startswith("[["):
        return [_items(kind.strip("[]")) for _ in range(int(input()))]
    if kind.startswith("["):
        return _items(kind.strip("[]"))
    return _value(kind, input())


def _items(kind):
    return [_value(kind, word) for word in input().split()]


def _value(kind, word):
    if kind == "bool":
        return word == "True"
    if kind == "float":
        return float(word) if set(word) & set(".enif") else int(word)
    return int(word) if kind == "int" else word


def _print(value):
    if isinstance(value, (list, tuple)) and any(isinstance(x, (list, tuple)) for x in value):
        for row in value:
            print(*row)
    elif isinstance(value, (list, tuple)):
        print(*value)
    else:
        print(value)


_print({function}(*[_read(kind) for kind in {list(kinds)!r}]))
"""


def description(kinds: Sequence[str], result: str) -> str:
    """Input and output in words."""
    lines = [f"{i}. {_in_words(kind)}" for i, kind in enumerate(kinds, 1)]
    given = f"the arguments, each beginning on a new line: {'; '.join(lines)}" if kinds else "none"
    return f"Input: {given}.\nOutput: {_in_words(result, counted=False)}."


def _in_words(kind: str, counted: bool = True) -> str:
    name = kind.strip("[]")
    if not kind.startswith("["):
        return _NAMES[name]
    items = f"{_PLURALS.get(name, 'values')} separated by spaces"
    if not kind.startswith("[["):
        return f"a line of {items}"
    return (
        f"the number of rows, then a line of {items} for each"
        if counted
        else (f"for each row a line of {items}")
    )
