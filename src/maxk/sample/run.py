"""Fill a run with completions, and grade them as they come."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxk.grade.run import ungraded
from maxk.grade.worker import Grader
from maxk.prompts import hinted, messages
from maxk.records import Completion, Problem
from maxk.sample.base import Request, Sampler, Settings
from maxk.store.run import Run
from maxk.store.tables import completions_table, pairs_of, write_problems
from maxk.verify import VerifierSettings


@dataclass
class Progress:
    """How far a run is."""

    total: int  # completions in the end
    there: int = 0  # from before
    new: int = 0
    tokens: int = 0  # of the new ones
    graded: int = 0  # now
    reward: float = 0.0  # sum over those
    started: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        return self.there + self.new

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / max(time.monotonic() - self.started, 1e-9)

    def count_graded(self, completions: int, reward: float) -> None:
        self.graded += completions
        self.reward += reward


def sample(
    problems: Sequence[Problem],
    sampler: Sampler,
    run: Run,
    n: int,
    settings: Settings,
    *,
    hints: Sequence[str] = (),
    grading: VerifierSettings | None = None,
    progress: Callable[[Progress], None] | None = None,
    note: Mapping[str, Any] | None = None,
    part_rows: int = 1024,
    part_seconds: float = 20.0,
) -> Progress:
    """Draw the samples 0 to n - 1 of every problem that the run does not have yet.

    With `grading` they are graded as they come, into the table "verdicts", and so are those of
    earlier that were not. Completions are written every `part_rows` or `part_seconds`, and when the
    run is stopped; calling again goes on from there. hints: sentences for the end of the prompt, to
    be taken in turn: sample i has hint i modulo their number, and an empty one leaves the prompt as
    it is. progress: called after every completion, and while verdicts are waited for. note: for the
    run's environment.jsonl, beside the machine.
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1")
    with run.locked(), contextlib.ExitStack() as stack:
        run.note_environment(**(note or {}))
        write_problems(run, problems)
        there = pairs_of(run)
        state = Progress(n * len(problems), len(there))
        requests = missing(problems, n, there, hints)
        show = (lambda: progress(state)) if progress is not None else (lambda: None)
        grader = None
        if grading is not None:
            grader = stack.enter_context(Grader(run, grading, "verdicts", state.count_graded))
            for part in ungraded(run, "verdicts"):
                grader.put(part)
        parts = _Parts(run, grader, part_rows, part_seconds)
        try:
            for completion in sampler.sample(requests, settings) if requests else ():
                parts.add(completion)
                state.new += 1
                state.tokens += completion.tokens or 0
                show()
        finally:  # Ctrl-C too: what was sampled is kept
            parts.flush()
        if grader is not None:
            grader.finish(show)
    return state


def missing(
    problems: Sequence[Problem],
    n: int,
    there: set[tuple[str, int]],
    hints: Sequence[str] = (),
) -> list[Request]:
    """What is left to sample."""
    return [
        request
        for problem in problems
        for request in requests_of(
            problem, [i for i in range(n) if (problem.id, i) not in there], hints
        )
    ]


def requests_of(
    problem: Problem, samples: Iterable[int], hints: Sequence[str] = ()
) -> list[Request]:
    """A request for each hint that samples have: sample i has hint i modulo their number.

    >>> [r.samples for r in requests_of(Problem("a", "Double it.", ()), [3, 4, 5, 6], ["A", "B"])]
    [(4, 6), (3, 5)]
    """
    hints = hints or ("",)
    turns: dict[int, list[int]] = {turn: [] for turn in range(len(hints))}
    for i in samples:
        turns[i % len(hints)].append(i)
    return [
        Request(problem.id, hinted(messages(problem), hints[turn]), tuple(own))
        for turn, own in turns.items()
        if own
    ]


class _Parts:
    """Completions on their way to disk."""

    def __init__(self, run: Run, grader: Grader | None, rows: int, seconds: float) -> None:
        self.run, self.grader, self.rows, self.seconds = run, grader, rows, seconds
        self.waiting: list[Completion] = []
        self.last = time.monotonic()
        names = run.parts("completions")
        self.number = int(names[-1]) + 1 if names else 0

    def add(self, completion: Completion) -> None:
        self.waiting.append(completion)
        if len(self.waiting) >= self.rows or time.monotonic() - self.last >= self.seconds:
            self.flush()

    def flush(self) -> None:
        if not self.waiting:
            return
        # Interrupted after the write this is done once more, into the same part.
        part = f"{self.number:06d}"
        self.run.write("completions", part, completions_table(self.waiting))
        self.waiting, self.last = [], time.monotonic()
        self.number += 1
        if self.grader is not None:
            self.grader.put(part)
