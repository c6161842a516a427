"""Find problems whose own solution fails its tests, or nearly: right answers would fail as well."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxk.records import Problem, Status, Verdict
from maxk.verify import Verifier

BROKEN = Path(__file__).with_name("broken.json")  # made with `maxk data verify NAME --out`
QUARTER = 0.25  # of the CPU limit of a test: a right answer may well take four times as long
_PASSES = "passes in"


@dataclass(frozen=True)
class Failure:
    """A problem whose reference fails: how many tests, and how the first of them."""

    id: str
    failed: int
    tests: int
    status: str
    reason: str

    @property
    def how(self) -> str:
        return f"{self.failed} of {self.tests} tests, {self.status}"

    def __str__(self) -> str:
        reason = " ".join(self.reason.split())  # what was got may have lines
        why = f"{self.status}, {reason}" if reason else self.status
        return f"{self.id}: {self.failed} of {self.tests} tests, {why}"


@dataclass(frozen=True)
class Slow:
    """A problem whose reference passes, and takes so much CPU time for one test."""

    id: str
    seconds: float
    limit: float

    @property
    def how(self) -> str:
        return f"{_PASSES} {self.seconds:.1f} of {self.limit:g} s"

    def __str__(self) -> str:
        return f"{self.id}: {self.how}, more than a quarter of the CPU limit of a test"


def verify_references(
    problems: Sequence[Problem],
    verifier: Verifier,
    most_tests: int | None = None,
    done: Callable[[int, Verdict], None] | None = None,
) -> tuple[list[Failure], list[Slow]]:
    """The problems whose reference does not pass, and those whose reference is slow.

    Problems without a reference are left out. most_tests: judge by the first so many tests only.
    """
    having = [problem for problem in problems if problem.reference is not None]
    jobs = [(p.reference or "", p.tests[:most_tests] if most_tests else p.tests) for p in having]
    failures, slow_ones = [], []
    limit = verifier.limits.cpu_seconds
    for problem, verdict in zip(having, verifier.judge(jobs, done), strict=True):
        bad = [test for test in verdict.tests if test.status is not Status.PASSED]
        if bad:
            numbers = len(bad), len(verdict.tests)
            failures.append(Failure(problem.id, *numbers, bad[0].status.value, bad[0].reason))
        elif (longest := max((t.seconds for t in verdict.tests), default=0.0)) > QUARTER * limit:
            slow_ones.append(Slow(problem.id, longest, limit))
    return failures, slow_ones


def broken(name: str) -> Mapping[str, str]:
    """Ids of a data set's problems whose reference is known to fail, and how."""
    return {own: how for own, how in _known(name).items() if not how.startswith(_PASSES)}


def slow(name: str) -> Mapping[str, str]:
    """Ids of those whose reference passes and takes more than a quarter of the default limit."""
    return {own: how for own, how in _known(name).items() if how.startswith(_PASSES)}


def _known(name: str) -> dict[str, str]:
    return json.loads(BROKEN.read_text()).get(name, {})
