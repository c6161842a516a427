"""`grade`: completions in, verdicts out. Whatever grades completions in maxk calls this.

A completion is searched for its program once. Programs for the same tests that differ in comments
and empty lines alone are judged once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxk.grade.dedup import key_of
from maxk.grade.extract import program_for
from maxk.records import Problem, RewardKind, Status, Verdict
from maxk.verify import Verifier

NO_PROGRAM = "no program"


@dataclass(frozen=True)
class Graded:
    """One completion after grading. Without a program it has no verdict, and its reward is 0.

    `program` is the text that is judged, behind the problem's preamble if it has one. `same_as` is
    the place of the earlier program whose verdict this is: they differ in comments alone.
    """

    program: str | None = None
    verdict: Verdict | None = None
    same_as: int | None = None

    @property
    def status(self) -> str:
        """`passed`, `no program`, or the most telling status of the tests."""
        return NO_PROGRAM if self.verdict is None else self.verdict.status

    def reward(self, kind: RewardKind = "continuous") -> float:
        """The fraction of tests passed, or 1 for all of them and 0 otherwise."""
        return 0.0 if self.verdict is None else self.verdict.reward(kind)


OnDone = Callable[[int, Graded], None]  # the place of a completion, and what became of it


def grade(
    pairs: Sequence[tuple[Problem, str]], verifier: Verifier, on_done: OnDone | None = None
) -> list[Graded]:
    """Grade completions: a `Graded` for every (problem, completion), in order.

    on_done: called with the place of a pair and its result as soon as there is one, by one thread
    at a time.

    >>> from maxk.records import StdinTest
    >>> double = Problem("double", "Double the number.", [StdinTest("3", "6")])
    >>> answer = "```python\\nprint(2 * int(input()))\\n```"
    >>> with Verifier(workers=1) as verifier:
    ...     right, none = grade([(double, answer), (double, "")], verifier)
    >>> right.reward(), none.reward(), none.status
    (1.0, 0.0, 'no program')
    """
    programs = [(problem, program_for(problem, completion)) for problem, completion in pairs]
    return grade_programs(programs, verifier, on_done)


def grade_programs(
    pairs: Sequence[tuple[Problem, str]], verifier: Verifier, on_done: OnDone | None = None
) -> list[Graded]:
    """The same for programs that were found before: (problem, whole program).

    Problems count as the same if their `tests` are one object.
    """
    graded = [Graded()] * len(pairs)
    places: dict[tuple[int, tuple[bool, str]], list[int]] = {}  # of equal programs
    for i, (problem, program) in enumerate(pairs):
        if program.strip():
            places.setdefault((id(problem.tests), key_of(program)), []).append(i)
        elif on_done is not None:
            on_done(i, graded[i])
    groups = list(places.values())

    def judged(job: int, verdict: Verdict) -> None:
        first = groups[job][0]
        for i in groups[job]:
            graded[i] = Graded(pairs[i][1], verdict, None if i == first else first)
            if on_done is not None:
                on_done(i, graded[i])

    firsts = [pairs[group[0]] for group in groups]
    verifier.judge([(program, problem.tests) for problem, program in firsts], judged)
    return graded


def verdict_counts(graded: Sequence[Graded]) -> dict[str, float]:
    """The share of all tests with each status, and of completions without a program."""
    statuses = [t.status for g in graded if g.verdict is not None for t in g.verdict.tests]
    total = max(len(statuses), 1)
    shares = {s.value.replace(" ", "_"): statuses.count(s) / total for s in Status}
    without = sum(each.program is None for each in graded)
    shares["no_program"] = without / max(len(graded), 1)
    return shares
