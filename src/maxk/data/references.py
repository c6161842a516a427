"""Find problems whose own solution fails its tests: no right answer could pass them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxk.records import Problem, Status, Verdict
from maxk.verify import Verifier

BROKEN = Path(__file__).with_name("broken.json")  # made with `maxk data verify NAME --out`


@dataclass(frozen=True)
class Failure:
    """A problem whose reference fails: how many tests, and how the first of them."""

    id: str
    failed: int
    tests: int
    status: str
    reason: str

    def __str__(self) -> str:
        reason = " ".join(self.reason.split())  # what was got may have lines
        why = f"{self.status}, {reason}" if reason else self.status
        return f"{self.id}: {self.failed} of {self.tests} tests, {why}"


def verify_references(
    problems: Sequence[Problem],
    verifier: Verifier,
    most_tests: int | None = None,
    done: Callable[[int, Verdict], None] | None = None,
) -> list[Failure]:
    """The problems whose reference does not pass; those without a reference are left out.

    most_tests: judge by the first so many tests only.
    """
    having = [problem for problem in problems if problem.reference is not None]
    jobs = [(p.reference or "", p.tests[:most_tests] if most_tests else p.tests) for p in having]
    failures = []
    for problem, verdict in zip(having, verifier.judge(jobs, done), strict=True):
        bad = [test for test in verdict.tests if test.status is not Status.PASSED]
        if bad:
            numbers = len(bad), len(verdict.tests)
            failures.append(Failure(problem.id, *numbers, bad[0].status.value, bad[0].reason))
    return failures


def broken(name: str) -> Mapping[str, str]:
    """Ids of a data set's problems whose reference is known to fail, and how."""
    return json.loads(BROKEN.read_text()).get(name, {})
