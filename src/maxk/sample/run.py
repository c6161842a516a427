"""Sample completions into a run, with streaming verification."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxk.grade.run import ungraded
from maxk.grade.worker import Grader
from maxk.prompts import messages, with_variant
from maxk.records import Completion, Problem, total_tokens
from maxk.sample.base import Request, Sampler, Sampling
from maxk.store.run import Run
from maxk.store.tables import completions_table, pairs_of, write_problems
from maxk.verify import VerifierSettings


@dataclass
class Progress:
    """How many completions a run has, and how fast they come."""

    total: int  # completions of the whole run
    earlier: int = 0  # already there at the start
    new: int = 0
    tokens: int | None = 0  # of the new ones; None where the back end does not say
    graded: int = 0  # since the start
    reward: float = 0.0  # sum over the graded ones
    started: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        return self.earlier + self.new

    @property
    def rate(self) -> str:
        """Tokens a second, or completions where the number of tokens is unknown."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        if self.tokens is None:
            return f"{self.new / seconds:.1f} completions/s"
        return f"{self.tokens / seconds:,.0f} tokens/s"

    def count_graded(self, completions: int, reward: float) -> None:
        self.graded += completions
        self.reward += reward


def sample(
    problems: Sequence[Problem],
    sampler: Sampler,
    run: Run,
    n: int,
    settings: Sampling,
    *,
    prompt_variants: Sequence[str] = (),
    grading: VerifierSettings | None = None,
    progress: Callable[[Progress], None] | None = None,
    note: Mapping[str, Any] | None = None,
    part_rows: int = 1024,
    part_seconds: float = 20.0,
) -> Progress:
    """Draw the samples 0 to n - 1 of every problem, except those that the run already has.

    With `grading` they are graded while sampling goes on (streaming verification), into the table
    "verdicts", and earlier completions without a verdict are graded too. Completions are written
    every `part_rows` or `part_seconds`, and when the run is stopped; another call continues there.
    prompt_variants: sentences for the end of the prompt; sample i has variant i modulo their
    number, and an empty one leaves the prompt unchanged. progress: called after every completion,
    and while waiting for verdicts. note: more for the run's environment.jsonl.
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1")
    with run.locked(), contextlib.ExitStack() as stack:
        run.note_environment(**(note or {}))
        write_problems(run, problems)
        there = pairs_of(run)
        state = Progress(n * len(problems), len(there))
        requests = missing(problems, n, there, prompt_variants)
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
                state.tokens = total_tokens((state.tokens, completion.tokens))
                show()
        finally:  # also after Ctrl-C, so that no completion is lost
            parts.flush()
        if grader is not None:
            grader.finish(show)
    return state


def missing(
    problems: Sequence[Problem],
    n: int,
    there: set[tuple[str, int]],
    prompt_variants: Sequence[str] = (),
) -> list[Request]:
    """Requests for the samples that the run does not have."""
    return [
        request
        for problem in problems
        for request in requests_of(
            problem, [i for i in range(n) if (problem.id, i) not in there], prompt_variants
        )
    ]


def requests_of(
    problem: Problem, samples: Iterable[int], prompt_variants: Sequence[str] = ()
) -> list[Request]:
    """A request for each prompt variant in use: sample i has variant i modulo their number.

    >>> [r.samples for r in requests_of(Problem("a", "Double it.", ()), [3, 4, 5, 6], ["A", "B"])]
    [(4, 6), (3, 5)]
    """
    variants = prompt_variants or ("",)
    samples_of: dict[int, list[int]] = {number: [] for number in range(len(variants))}
    for i in samples:
        samples_of[i % len(variants)].append(i)
    return [
        Request(problem.id, with_variant(messages(problem), variants[number]), tuple(chosen))
        for number, chosen in samples_of.items()
        if chosen
    ]


class _Parts:
    """Completions that wait to be written, part by part."""

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
        # If interrupted after the write, the same part is written once more.
        part = f"{self.number:06d}"
        self.run.write("completions", part, completions_table(self.waiting))
        self.waiting, self.last = [], time.monotonic()
        self.number += 1
        if self.grader is not None:
            self.grader.put(part)
