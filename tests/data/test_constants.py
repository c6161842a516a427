"""Tests that any program passes are left out, and programs that look at nothing are measured."""

import os
from pathlib import Path

import pytest

from maxk.data import load, load_with_account
from maxk.data.base import Account
from maxk.data.constants import (
    PROGRAMS,
    RAISE,
    Earned,
    asks_nothing,
    constant_programs,
    judge_constants,
    with_tests_that_ask,
)
from maxk.records import AssertTest, CallTest, Problem, Status, StdinTest
from maxk.verify import Verifier
from tests.data import published

REAL = os.environ.get("MAXK_REAL_DATA")


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as running:
        yield running


NOTHING = {
    "assert True": "assert True",
    "no use of the candidate": "def check(candidate):\n    assert True, 'fine'\ncheck(f)",
    "a variable alone": "def check(c):\n    x = 3\n    assert x == 3\ncheck(f)",
    "a name in a text": "assert 'f(1)' == 'f(1)'",
    "two parameters": "def check(a, b):\n    assert b == 2\ncheck(f, 2)",
}
SOMETHING = {
    "a call": "assert f(1) == 1",
    "a candidate": "def check(candidate):\n    assert candidate(1) == 1\ncheck(f)",
    "another name": "def check(c):\n    for i in range(3):\n        assert c(i) == i\ncheck(f)",
    "two parameters": "def check(a, b):\n    assert a(1) == b\ncheck(f, 1)",
    "an alias": "g = f\nassert g(1) == 1",
    "handed on": "def one(c): assert c(1) == 1\ndef check(c): one(c)\ncheck(f)",
}


@pytest.mark.parametrize("name", NOTHING)
def test_code_that_never_uses_the_program_asks_nothing(name, verifier):
    test = AssertTest(NOTHING[name], "f")
    assert asks_nothing(test)
    (verdict,) = verifier.judge([("def f(x): raise ValueError", [test])])
    assert verdict.passed, "so it should be left out"


@pytest.mark.parametrize("name", SOMETHING)
def test_code_that_uses_the_program_asks_something(name, verifier):
    test = AssertTest(SOMETHING[name], "f")
    assert not asks_nothing(test)
    (verdict,) = verifier.judge([("def f(x): raise ValueError", [test])])
    assert not verdict.passed


def test_a_method_and_a_class_are_uses():
    assert not asks_nothing(AssertTest("def check(c):\n    assert c(1)\ncheck(S().f)", "S().f"))
    assert asks_nothing(AssertTest("def check(c):\n    assert 1\ncheck(S().f)", "S().f"))
    assert not asks_nothing(AssertTest("s = Stack()\ns.push(1)", None, ("Stack",)))


def test_tests_that_ask_nothing_are_left_out_and_counted(tmp_path):
    row = published.humaneval(0)
    row["test"] += "    assert True, 'for debugging'\n"
    path = published.write_jsonl(tmp_path / "HumanEval.jsonl", [row])
    problems, account = load_with_account("humaneval", "test", path)
    assert account.noted == {"tests left out: any program passes them": 1}
    assert all("assert True" not in getattr(test, "code", "") for test in problems[0].tests)


def test_a_problem_of_such_tests_alone_is_dropped_and_counted():
    account = Account()
    problem = Problem("p", "?", (AssertTest("assert True", "f"),), entry_point="f")
    assert with_tests_that_ask(problem, account) is None
    assert account.dropped == {"any program passes its tests": 1}


def test_constants_earn_what_they_should(verifier):
    problems = [
        Problem("calls", "?", (CallTest("f", (3,), 3), CallTest("f", (0,), True, equality="python"),
                CallTest("f", ("",), "")), entry_point="f"),
        Problem("method", "?", (AssertTest("assert S().g(x=5) == 5", "S().g"),), "S().g"),
        Problem("stdin", "?", (StdinTest("a\nb\n", "a"), StdinTest("", ""))),
    ]  # fmt: skip
    earned = judge_constants(problems, verifier)
    assert len(earned) == PROGRAMS * len(problems)
    found = {(e.id, e.what): e.passed for e in earned if e.passed}
    assert found == {
        ("calls", "returns True"): 1,
        ("calls", "returns an empty text"): 1,
        ("calls", "returns its first argument"): 2,
        ("method", "returns its first argument"): 1,
        ("stdin", "prints nothing"): 1,
        ("stdin", "prints an empty line"): 1,
        ("stdin", "prints its first line"): 1,
    }
    assert str(Earned("p", RAISE, 1, 2)) == (
        "p: a program that raises an exception passes 1 of 2 tests"
    )


@pytest.mark.parametrize(
    ("name", "split"),
    [("starter", "all"), pytest.param("pocket", "test", marks=pytest.mark.slow)],
)
def test_no_problem_that_comes_with_maxk_gives_a_program_that_raises_anything(
    name, split, verifier
):
    problems = load(name, split)[:150]
    jobs = [(p.complete(constant_programs(p)[RAISE]), p.tests[:3]) for p in problems]
    verdicts = verifier.judge(jobs)
    assert {p.id for p, v in zip(problems, verdicts, strict=True) if v.fraction} == set()


@pytest.mark.skipif(REAL is None, reason="MAXK_REAL_DATA is not set")
@pytest.mark.parametrize(
    ("name", "split", "file", "left_out"),
    [
        ("humaneval", "test", "humaneval", 48),
        ("mbpp", "test", "mbpp/mbpp.jsonl", 0),
        ("leetcode", "test", "leetcode", 0),
    ],
)
def test_no_published_problem_gives_a_program_that_raises_anything(name, split, file, left_out):
    problems, account = load_with_account(name, split, Path(REAL or ".") / file)
    assert sum(account.noted[text] for text in account.noted if "left out" in text) == left_out
    jobs = [(p.complete(constant_programs(p)[RAISE]), p.tests) for p in problems]
    with Verifier(workers=2) as verifier:
        verdicts = verifier.judge(jobs)
    passed = [
        (problem.id, test)
        for problem, verdict in zip(problems, verdicts, strict=True)
        for test, result in zip(problem.tests, verdict.tests, strict=True)
        if result.status is Status.PASSED
    ]
    assert passed == []
