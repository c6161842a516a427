"""MBPP on stdin and stdout: what can be read back is turned, the rest is dropped with a reason."""

import os
from pathlib import Path

import pytest

from experiments.published.stdin_form import (
    NoFormError,
    call_of,
    kind_of,
    merged,
    shown_all,
    stdin_problem,
    to_stdin,
)
from maxk.data import load
from maxk.data.base import Account
from maxk.records import AssertTest, Problem, StdinTest
from maxk.verify import Verifier

REAL = os.environ.get("MAXK_REAL_DATA")


def problem(code: str, *asserts: str, examples: int = 0) -> Problem:
    tests = tuple(AssertTest(line, "f") for line in asserts)
    return Problem("p", "Do it.", tests, "f", code, examples=tests[:examples])


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2) as running:
        yield running


def test_arguments_come_on_lines_and_the_result_goes_to_stdout(verifier):
    both = problem(
        "def f(rows, n, name):\n    return [[n, *row] for row in rows] if name == 'add me' else []",
        "assert f([[1, 2], [3]], 7, 'add me') == [[7, 1, 2], [7, 3]]",
        "assert f(((4, 5),), -1, 'add me') == [[-1, 4, 5]]",
        examples=1,
    )
    (turned,) = to_stdin([both], verifier, Account())
    assert turned.tests == (
        StdinTest("2\n1 2\n3\n7\nadd me\n", "7 1 2\n7 3"),
        StdinTest("1\n4 5\n-1\nadd me\n", "-1 4 5"),
    )
    assert turned.examples == turned.tests[:1]
    assert turned.entry_point is None
    assert (
        "1. the number of rows, then a line of integers separated by spaces for each"
        in turned.statement
    )
    assert "Output: for each row a line of integers separated by spaces." in turned.statement


def test_numbers_with_a_fraction_are_compared_as_numbers(verifier):
    (turned,) = to_stdin(
        [
            problem(
                "def f(x): return x / 3", "assert f(1) == 0.3333333333333333", "assert f(6.0) == 2"
            )
        ],
        verifier,
        Account(),
    )
    assert {getattr(test, "tolerance", None) for test in turned.tests} == {1e-6}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("assert f({1: 2}) == 1", "a dict"),
        ("assert f({1, 2}) == 1", "a set"),
        ("assert f(None) == 1", "a NoneType"),
        ("assert f([[[1]]]) == 1", "lists in lists in lists"),
        ("assert f('') == 1", "a string that is empty"),
        ("assert f(' a') == 1", "blanks at its ends"),
        ("assert f('a\\nb') == 1", "a string"),
        ("assert f(['a b']) == 1", "strings with blanks inside"),
        ("assert f([1, 'a']) == 1", "different kinds"),
        ("assert f(x) == 1", "not literals"),
        ("assert f(1) > 1", "not f(arguments) == result"),
        ("assert f(n=1) == 1", "not f(arguments) == result"),
        ("assert g(1) == 1", "not f(arguments) == result"),
        ("x = 1\nassert f(1) == 1", "more than an assert"),
    ],
)
def test_what_has_no_form_is_refused_with_the_reason(line, reason):
    with pytest.raises(NoFormError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        stdin_problem(problem("def f(x): return 1", line))


def test_kinds_of_all_tests_are_read_the_same_way():
    assert merged(["int", "float"]) == "float"
    assert merged(["[int]", "[]"]) == "[int]"
    assert merged(["[[int]]", "[[float]]", "[[]]"]) == "[[float]]"
    for different in (["int", "str"], ["int", "[int]"], ["[]", "[[int]]"], ["bool", "int"]):
        with pytest.raises(NoFormError, match="different kinds"):
            merged(different)
    assert kind_of([True, False]) == "[bool]"
    assert shown_all([[], [[]], True]) == "\n1\n\nTrue\n"
    assert call_of(AssertTest("assert f(-1, (2,)) == [3]"), "f") == ((-1, (2,)), [3])


def test_a_reference_that_does_not_survive_the_way_is_dropped_with_a_count(verifier):
    # It tells a tuple from a list, which stdin does not.
    picky = problem("def f(x): return isinstance(x, tuple)", "assert f((1, 2)) == True")
    account = Account()
    assert to_stdin([picky], verifier, account) == []
    assert account.dropped == {"the reference, wrapped, does not pass": 1}


@pytest.mark.skipif(REAL is None, reason="set MAXK_REAL_DATA to the folder with the real files")
def test_most_of_mbpp_has_a_proven_stdin_form(verifier):
    account = Account()
    problems = load("mbpp", "test", Path(REAL or "") / "mbpp" / "mbpp.jsonl")
    kept = to_stdin(problems, verifier, account)
    assert len(kept) + account.dropped.total() == len(problems)
    assert len(kept) >= 400
