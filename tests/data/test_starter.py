"""The bundled problems: enough of them, and every reference earns all of its tests."""

import pytest

from maxk.data import check, load
from maxk.data.references import verify_references
from maxk.data.registry import DATASETS
from maxk.records import CallTest, StdinTest
from maxk.verify import Limits, Verifier

PROBLEMS = load("starter", "all")


@pytest.fixture(scope="module")
def verifier():
    with Verifier(limits=Limits(cpu_seconds=2)) as running:
        yield running


def test_there_are_at_least_120_with_12_tests_each_of_both_kinds():
    assert len(PROBLEMS) >= 120
    assert min(len(problem.tests) for problem in PROBLEMS) >= 12
    kinds = {type(test) for problem in PROBLEMS for test in problem.tests}
    assert kinds == {StdinTest, CallTest}


def test_the_file_has_no_faults():
    bundled = DATASETS["starter"].bundled
    assert bundled is not None
    assert check(bundled) == []


def test_every_reference_passes_every_test(verifier):
    assert verify_references(PROBLEMS, verifier) == ([], [])
    assert all(problem.reference for problem in PROBLEMS)


def test_no_constant_answer_earns_much():
    for problem in PROBLEMS:
        answers = [
            repr(getattr(t, "output", None) or getattr(t, "expected", None)) for t in problem.tests
        ]
        most = max(answers.count(answer) for answer in answers)
        assert most <= len(answers) * 2 / 3, problem.id


def test_examples_are_shown_and_the_rest_is_hidden():
    for problem in PROBLEMS:
        assert len(problem.examples) == 2
        assert problem.examples == tuple(problem.tests[:2])


def test_the_judge_tells_a_wrong_program_from_a_right_one(verifier):
    jobs = [("print(0)", p.tests) for p in PROBLEMS if p.entry_point is None]
    assert not any(verdict.passed for verdict in verifier.judge(jobs))
