"""`grade`: one verdict for a completion, however many of them hold the same program."""

import threading

import pytest

from maxk.grade import Graded, grade, grade_programs
from maxk.grade.grading import verdict_counts
from maxk.records import CallTest, Problem, StdinTest
from maxk.verify import Limits, Verifier

DOUBLE = "print(2 * int(input()))"
WRONG = "print(3 * int(input()))"


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2, limits=Limits(cpu_seconds=1.0, wall_seconds=5.0)) as made:
        yield made


class Watched:
    """A verifier that notes the programs it was given."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier, self.programs = verifier, []

    def judge(self, jobs, done):
        self.programs += [program for program, _ in jobs]
        return self.verifier.judge(jobs, done)


def fenced(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```\nDone."


def test_a_completion_is_graded_by_the_program_in_it(verifier):
    problem = Problem("p", "s", [StdinTest("3", "6"), StdinTest("0", "0")])
    right, half, none = grade([(problem, fenced(p)) for p in (DOUBLE, WRONG, "")], verifier)
    assert (right.program, right.status, right.reward(), right.same_as) == (
        *(DOUBLE, "passed", 1.0),
        None,
    )
    assert (half.status, half.reward(), half.reward("binary")) == ("wrong answer", 0.5, 0.0)
    assert none == Graded(None, None, None)
    assert (none.status, none.reward(), none.reward("binary")) == ("no program", 0.0, 0.0)


def test_equal_programs_are_judged_once_and_each_keeps_its_own_text(verifier):
    problem = Problem("p", "s", [StdinTest("3", "6")])
    other = Problem("q", "s", [StdinTest("3", "9")])
    commented = f"# twice\n{DOUBLE}"
    watched = Watched(verifier)
    pairs = [(problem, DOUBLE), (other, DOUBLE), (problem, ""), (problem, commented)]
    graded = grade_programs(pairs, watched)  # pyright: ignore[reportArgumentType]
    assert watched.programs == [DOUBLE, DOUBLE], "once for each problem"
    assert [each.same_as for each in graded] == [None, None, None, 0]
    assert [each.reward() for each in graded] == [1.0, 0.0, 0.0, 1.0]
    assert graded[3].program == commented
    assert graded[3].verdict is graded[0].verdict


def test_the_preamble_is_part_of_the_program_and_the_entry_point_finds_it(verifier):
    tests = [CallTest("area", (2.0,), 12.566370614359172)]
    problem = Problem("p", "s", tests, entry_point="area", preamble="from math import pi\n")
    text = fenced("print('an example of its use, which is the longer of the blocks')")
    text += "\n" + fenced("def area(r):\n    return pi * r * r")
    [graded] = grade([(problem, text)], verifier)
    assert graded.program == "from math import pi\n\ndef area(r):\n    return pi * r * r"
    assert graded.reward() == 1.0


def test_every_completion_is_told_once_by_one_thread_at_a_time(verifier):
    problem = Problem("p", "s", [StdinTest("3", "6")])
    texts = [DOUBLE, "", WRONG, f"{DOUBLE}  # again", f"x = 1\n{DOUBLE}"]
    told, lock = {}, threading.Lock()

    def on_done(place: int, graded: Graded) -> None:
        assert lock.acquire(blocking=False), "two threads at once"
        assert place not in told
        told[place] = graded
        lock.release()

    graded = grade([(problem, text and fenced(text)) for text in texts], verifier, on_done)
    assert told == dict(enumerate(graded))


def test_shares_of_statuses_are_of_tests_and_of_completions_without_a_program(verifier):
    problem = Problem("p", "s", [StdinTest("3", "6"), StdinTest("0", "0")])
    counts = verdict_counts(grade([(problem, t) for t in (DOUBLE, WRONG, "", "")], verifier))
    assert counts["passed"] == 3 / 4
    assert counts["wrong_answer"] == 1 / 4
    assert counts["no_program"] == 2 / 4
    assert verdict_counts([])["no_program"] == 0
