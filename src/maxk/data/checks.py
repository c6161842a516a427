"""Split a published check function into one test for each assert, for partial rewards.

HumanEval and LeetCode publish one function `check(candidate)` per problem. As one test it is all or
nothing; the reward of the paper is a fraction. A program passes the whole if and only if it passes
all the parts, so pass@k does not change.
"""

import ast
import copy
import warnings
from collections.abc import Sequence


def split_check(code: str, call: str) -> list[str]:
    """The code once for every assert of `check`, with the other asserts taken out, and the call.

    What else the function does stays where it is; a loop or branch with asserts inside counts as
    one. Code without such a function, or with one assert, stays whole.

    >>> code = "def check(f):\\n    x = 2\\n    assert f(x)\\n    assert f(3)"
    >>> print(split_check(code, "check(g)")[1])
    def check(f):
        x = 2
        assert f(3)
    check(g)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old code is no news
        tree = ast.parse(code)
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    asserting = [i for i, step in enumerate(checks[-1].body) if _asserts(step)] if checks else []
    if len(asserting) < 2:
        return [f"{code.rstrip()}\n{call}"]
    parts = []
    for kept in asserting:
        part = copy.copy(checks[-1])
        part.body = _without(part.body, {*asserting} - {kept})
        body = [part if node is checks[-1] else node for node in tree.body]
        parts.append(f"{ast.unparse(ast.Module(body, []))}\n{call}")
    return parts


def _asserts(step: ast.stmt) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(step))


def _without(steps: Sequence[ast.stmt], taken: set[int]) -> list[ast.stmt]:
    return [step for i, step in enumerate(steps) if i not in taken]
