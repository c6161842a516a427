"""Best-of-N for one problem: sample, grade, and return the best program.

problem = load("starter", "all")[0]
solution = solve(problem, make("Qwen/Qwen2.5-Coder-0.5B-Instruct"), n=64)
print(solution.program)
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from maxk.evaluate.diversity import normalise
from maxk.grade import Graded, grade
from maxk.records import Problem, Status, Verdict, total_tokens
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
    tokens: int | None  # None where the back end did not say how many
    seconds: float
    agreeing: int  # samples with this program, up to names and layout
    judged_by: Literal["tests", "examples"]  # examples: there were no others

    @property
    def solved(self) -> bool:
        return self.verdict.passed


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
    asked = replace(problem, tests=tests)
    begun, drawn = time.monotonic(), 0
    tokens: list[int | None] = []
    tried: list[tuple[str, Verdict]] = []  # programs
    with Verifier() if verifier is None else nullcontext(verifier) as judge:
        for wave in waves(n):
            requests = requests_of(problem, wave, prompt_variants)
            texts = []
            for completion in sampler.sample(requests, settings or Sampling()):
                tokens.append(completion.tokens)
                drawn += 1
                texts.append(completion.text)
            tried += with_verdicts(grade([(asked, text) for text in texts], judge))
            if tried:
                best = max((verdict for _, verdict in tried), key=lambda each: each.fraction)
                if progress is not None:
                    progress(drawn, best)
                if best.passed:
                    break
    if not tried:
        raise ValueError(f"none of {drawn} completions for {problem.id} holds a program")
    program, verdict, agreeing = most_agreed(tried)
    return Solution(
        program=program,
        verdict=verdict,
        samples=drawn,
        tokens=total_tokens(tokens),
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


def with_verdicts(graded: Sequence[Graded]) -> Iterator[tuple[str, Verdict]]:
    """The programs that were found, each with its verdict."""
    for each in graded:
        if each.program is not None and each.verdict is not None:
            yield each.program, each.verdict


def most_agreed(tried: Sequence[tuple[str, Verdict]]) -> tuple[str, Verdict, int]:
    """Of the best programs the one that most samples agree with, and how many do."""
    top = max(verdict.fraction for _, verdict in tried)
    best = [(program, verdict) for program, verdict in tried if verdict.fraction == top]
    answer, _ = Counter(passed_tests(verdict) for _, verdict in best).most_common(1)[0]
    agreeing = [each for each in best if passed_tests(each[1]) == answer]
    forms = [normalise(program) for program, _ in agreeing]
    form, count = Counter(forms).most_common(1)[0]
    return *agreeing[forms.index(form)], count


def passed_tests(verdict: Verdict) -> tuple[bool, ...]:
    """What is seen of a program's behaviour: which tests it passes."""
    return tuple(test.status is Status.PASSED for test in verdict.tests)
