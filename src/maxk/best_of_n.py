"""Best-of-N for one problem: sample, judge, and return the best program.

problem = load("starter", "all")[0]
solution = solve(problem, make("Qwen/Qwen2.5-Coder-0.5B-Instruct"), n=64)
print(solution.program)
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

from maxk.evaluate.diversity import normalise
from maxk.grade import program_for
from maxk.records import Problem, Status, Verdict
from maxk.sample.base import Sampler, Sampling
from maxk.sample.run import requests_of
from maxk.verify import Verifier

FIRST_WAVE = 8  # samples; every further wave is as large as all before it


@dataclass(frozen=True)
class Solution:
    """The best of the samples, and what it took."""

    program: str
    verdict: Verdict
    samples: int  # drawn; fewer than n if one passed everything
    tokens: int
    seconds: float
    agreeing: int  # samples with this program, up to names and layout
    judged_by: Literal["tests", "examples"]  # examples: there were no others

    @property
    def solved(self) -> bool:
        return self.verdict.passed


@dataclass(frozen=True)
class _Tried:
    program: str
    verdict: Verdict

    @property
    def answer(self) -> tuple[bool, ...]:
        """What is seen of a program's behaviour: which tests it passes."""
        return tuple(test.status is Status.PASSED for test in self.verdict.tests)


def solve(
    problem: Problem,
    sampler: Sampler,
    n: int,
    settings: Sampling | None = None,
    verifier: Verifier | None = None,
    progress: Callable[[int, Verdict], None] | None = None,
    prompt_variants: Sequence[str] = (),
) -> Solution:
    """The best of up to n programs for a problem.

    Samples are drawn in waves and judged by the problem's tests, or by its examples if it has no
    others; it ends with the first program that passes all of them. Of several equally good ones the
    most frequent is taken: first by which tests they pass, then by what they are up to names and
    layout. progress is called after every wave with the samples so far and the best verdict.
    prompt_variants: sentences for the end of the prompt, as in `maxk.sample.sample`.
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1")
    tests, judged_by = list(problem.tests), "tests"
    if not tests or tests == list(problem.examples):
        tests, judged_by = list(problem.examples), "examples"
    if not tests:
        raise ValueError(f"{problem.id} has neither tests nor examples to tell programs apart by")
    begun, tokens, drawn = time.monotonic(), 0, 0
    tried: list[_Tried] = []
    with Verifier() if verifier is None else nullcontext(verifier) as judge:
        for wave in waves(n):
            requests = requests_of(problem, wave, prompt_variants)
            programs = []
            for completion in sampler.sample(requests, settings or Sampling()):
                tokens += completion.tokens or 0
                drawn += 1
                program = program_for(problem, completion.text)
                if program.strip():
                    programs.append(program)
            verdicts = judge.judge([(program, tests) for program in programs])
            tried += map(_Tried, programs, verdicts)
            if tried:
                best = max(tried, key=lambda each: each.verdict.fraction)
                if progress is not None:
                    progress(drawn, best.verdict)
                if best.verdict.passed:
                    break
    if not tried:
        raise ValueError(f"none of {drawn} completions for {problem.id} holds a program")
    chosen, agreeing = most_agreed(tried)
    return Solution(
        program=chosen.program,
        verdict=chosen.verdict,
        samples=drawn,
        tokens=tokens,
        seconds=time.monotonic() - begun,
        agreeing=agreeing,
        judged_by="tests" if judged_by == "tests" else "examples",
    )


def waves(n: int) -> Iterator[tuple[int, ...]]:
    """Numbers of samples, few at first: an easy problem needs no more.

    >>> [len(wave) for wave in waves(50)]
    [8, 8, 16, 18]
    """
    done = 0
    while done < n:
        size = min(max(done, FIRST_WAVE), n - done)
        yield tuple(range(done, done + size))
        done += size


def most_agreed(tried: list[_Tried]) -> tuple[_Tried, int]:
    """Of the best ones, the one that most samples agree with, and how many do."""
    top = max(each.verdict.fraction for each in tried)
    best = [each for each in tried if each.verdict.fraction == top]
    answer, _ = Counter(each.answer for each in best).most_common(1)[0]
    same = [each for each in best if each.answer == answer]
    forms = [normalise(each.program) for each in same]
    form, count = Counter(forms).most_common(1)[0]
    return same[forms.index(form)], count
