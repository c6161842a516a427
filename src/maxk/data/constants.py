"""Tests that test nothing, and programs that do not look at their task.

A test that never uses what the program provides passes for every program: of HumanEval's 1,181
tests 48 are `assert True`. Loaders leave such tests out. What is left is measured by programs that
answer the same to everything: a problem where one of them earns much says little about a model.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from maxk.data.base import Account, LazyTests
from maxk.records import AssertTest, Problem, Status, Test, Verdict
from maxk.verify import Verifier
from maxk.verify.names import declared

MUCH = 0.5  # of a problem's tests
RAISE = "raises an exception"
_ANSWERS = {
    "returns None": "None",
    "returns True": "True",
    "returns 0": "0",
    "returns an empty text": "''",
    "returns its first argument": "[*args, *named.values(), None][0]",
}
_PRINTED = {
    "prints nothing": "pass",
    "prints True": "print(True)",
    "prints 0": "print(0)",
    "prints an empty line": "print()",
    "prints its first line": "print(input())",
}

PROGRAMS = 1 + len(_ANSWERS)


def asks_nothing(test: AssertTest) -> bool:
    """Whether test code never uses what the program provides, so that any program passes it.

    >>> asks_nothing(AssertTest("def check(candidate):\\n    assert True\\ncheck(f)", "f"))
    True
    >>> asks_nothing(AssertTest("def check(candidate):\\n    assert candidate(1)\\ncheck(f)", "f"))
    False
    """
    if "candidate(" in test.code:  # most of what is published, and parsing takes longer
        return False
    try:
        names = {name for name in (declared(test).function, *declared(test).classes) if name}
        tree = ast.parse(test.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # that is reported elsewhere
    used = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names}
    checks = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in checks:
            check = checks[call.func.id]
            for given, parameter in zip(call.args, check.args.args, strict=False):
                if not _loads(check, parameter.arg):
                    used -= {id(node) for node in ast.walk(given)}
    return not used


def _loads(check: ast.FunctionDef, name: str) -> bool:
    inside = (node for step in check.body for node in ast.walk(step))
    return any(isinstance(node, ast.Name) and node.id == name for node in inside)


def with_tests_that_ask(problem: Problem, account: Account) -> Problem | None:
    """The problem without the tests that any program passes; None if no other is left."""
    if isinstance(problem.tests, LazyTests):  # they are calls and texts
        return problem
    tests = _asking(problem.tests)
    out = len(problem.tests) - len(tests)
    if not out:
        return problem
    account.noted["tests left out: any program passes them"] += out
    if not tests:
        return account.drop("any program passes its tests")
    return replace(problem, tests=tuple(tests), examples=tuple(_asking(problem.examples)))


def _asking(tests: Sequence[Test]) -> list[Test]:
    return [test for test in tests if not (isinstance(test, AssertTest) and asks_nothing(test))]


@dataclass(frozen=True)
class Earned:
    """What a program that does not look at its task earns: so many of a problem's tests."""

    id: str
    what: str
    passed: int
    tests: int

    def __str__(self) -> str:
        return f"{self.id}: a program that {self.what} passes {self.passed} of {self.tests} tests"


def constant_programs(problem: Problem) -> dict[str, str]:
    """Programs that do the same whatever they are asked, by what they do.

    >>> from maxk.records import Problem
    >>> print(constant_programs(Problem("x", "", (), entry_point="f"))["returns 0"])
    def f(*args, **named):
        return 0
    """
    if problem.entry_point is None:
        return {RAISE: "raise ValueError", **_PRINTED}
    first, *rest = problem.entry_point.replace("()", "").split(".")
    opening = f"def {first}(*args, **named):\n    "
    if rest:
        opening = f"class {first}:\n    def {rest[0]}(self, *args, **named):\n        "
    answers = {what: f"return {value}" for what, value in _ANSWERS.items()}
    return {what: opening + does for what, does in {RAISE: "raise ValueError", **answers}.items()}


def judge_constants(
    problems: Sequence[Problem],
    verifier: Verifier,
    most_tests: int | None = None,
    done: Callable[[int, Verdict], None] | None = None,
) -> list[Earned]:
    """What every such program earns on every problem; most_tests: of the first so many tests."""
    asked, jobs = [], []
    for problem in problems:
        tests = problem.tests[:most_tests] if most_tests else problem.tests
        for what, program in constant_programs(problem).items():
            asked.append((problem.id, what))
            jobs.append((problem.complete(program), tests))
    earned = []
    for (name, what), verdict in zip(asked, verifier.judge(jobs, done), strict=True):
        passed = sum(test.status is Status.PASSED for test in verdict.tests)
        earned.append(Earned(name, what, passed, len(verdict.tests)))
    return earned
