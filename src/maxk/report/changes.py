"""Changes against the base model: every k, where the curves cross, each problem.

Every difference is the other run minus the base model on the same problems, with the interval of
`maxk.evaluate.compare`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np

from maxk.evaluate import compare, scores
from maxk.evaluate.bootstrap import resampled_means
from maxk.evaluate.read import Stored
from maxk.report.gather import RunData

_ROUNDING = 1e-12  # differences below it are none
_RESAMPLES = 2_000  # for where curves cross, which needs one curve per resample
_DENSE = 64  # values of k between 1 and n at which two curves are compared


@dataclass(frozen=True)
class Change:
    """max@k or pass@k of another run minus the base model at one k, with its 95 % interval."""

    k: int
    base: float
    other: float
    value: float
    low: float
    high: float
    p: float

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """1 or -1 where the interval leaves out 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True)
class Crossing:
    """The k at which one curve overtakes the other for good, and an interval over problems.

    share: of the resampled benchmarks, how many have a crossing at all. back: whether the one that
    is ahead in the end was also ahead at first.
    """

    k: float
    low: float
    high: float
    share: float
    back: bool


@dataclass(frozen=True)
class Effect:
    """One run against the base model: every k, and where the curves cross."""

    base: str
    other: str
    problems: int
    changes: tuple[Change, ...]
    crossing: Crossing | None


Move = Literal["lost", "gained", "solved", "never"]


@dataclass(frozen=True)
class Moved:
    """One problem with two runs. chance: of so few successes in one of them by chance alone."""

    problem: str
    base: float
    other: float
    move: Move
    chance: float


def effect(base: Stored, other: Stored) -> Effect:
    """The change from the base model to another run, at every k."""
    rewards = {base.name: base.rewards, other.name: other.rewards}
    found = compare(rewards, metric="max", correction="none")
    means = {
        name: [cell.value for cell in cells]
        for name, cells in zip(found.table.rows, found.table.cells, strict=True)
    }
    changes = tuple(
        Change(
            k=pair.k,
            base=means[base.name][i],
            other=means[other.name][i],
            value=-pair.difference.value,  # a pair is first minus second
            low=-pair.difference.high,
            high=-pair.difference.low,
            p=pair.difference.p,
        )
        for i, pair in enumerate(found.pairs)
    )
    return Effect(
        base=base.name,
        other=other.name,
        problems=len(base.rewards),
        changes=changes,
        crossing=crossing(base.rows, [other.rewards[problem] for problem in base.rewards]),
    )


def crossing(base: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> Crossing | None:
    """Where the sign of other minus base changes for the last time, if it ever does.

    Between two values of k the curves are straight on a log scale. A base model that always passes
    and another run that passes half of the time have no crossing:

    >>> crossing([np.ones(4)] * 5, [np.array([0.0, 1.0, 0.0, 1.0])] * 5) is None
    True
    """
    n = min(len(row) for row in [*base, *other])
    ks = sorted({round(float(k)) for k in np.geomspace(1, n, _DENSE)})
    gap_PK = scores(other, ks) - scores(base, ks)
    gap_K = gap_PK.mean(0)
    found = _crossings(gap_K[None], np.array(ks))[0]
    if np.isnan(found):
        return None
    drawn = _crossings(resampled_means(gap_PK, _RESAMPLES, seed=0), np.array(ks))
    crossed = drawn[~np.isnan(drawn)]
    low, high = np.percentile(crossed, [2.5, 97.5]) if len(crossed) else (found, found)
    signs = _signs(gap_K)
    back = signs[signs != 0][0] == signs[signs != 0][-1]
    return Crossing(float(found), float(low), float(high), len(crossed) / len(drawn), bool(back))


def _signs(gap: np.ndarray) -> np.ndarray:
    """Of differences; rounding errors count as none."""
    return np.where(np.abs(gap) < _ROUNDING, 0, np.sign(gap))


def _crossings(gap_RK: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Per row, the k of the last change of sign; NaN where there is none."""
    out = np.full(len(gap_RK), np.nan)
    signs_RK = _signs(gap_RK)
    for r, (gap_K, signs_K) in enumerate(zip(gap_RK, signs_RK, strict=True)):
        ends = np.flatnonzero(signs_K)
        if not len(ends):
            continue
        earlier = np.flatnonzero(signs_K == -signs_K[ends[-1]])
        if len(earlier):
            last = earlier[-1]
            later = ends[ends > last][0]
            share = gap_K[last] / (gap_K[last] - gap_K[later])
            out[r] = np.exp(np.log(ks[last]) * (1 - share) + np.log(ks[later]) * share)
    return out


def moved(problem: str, base: RunData, other: RunData) -> Moved:
    """How a problem moved from base to other. The chance is Fisher's exact test, one-sided."""
    n, m = len(base.samples[problem]), len(other.samples[problem])
    a = sum(sample.passed for sample in base.samples[problem])
    b = sum(sample.passed for sample in other.samples[problem])
    move: Move = "solved" if a and b else "lost" if a else "gained" if b else "never"
    fewer = (a, n, b, m) if a / n >= b / m else (b, m, a, n)
    return Moved(problem, a / n, b / m, move, _chance(*fewer))


def _chance(many: int, n: int, few: int, m: int) -> float:
    """P(at most `few` of all successes fall to the m samples), if all places are equally likely.

    >>> round(_chance(many=3, n=10, few=0, m=10), 4)  # C(10, 3) / C(20, 3)
    0.1053
    """
    total = many + few
    cases = sum(comb(m, i) * comb(n, total - i) for i in range(max(0, total - n), few + 1))
    return cases / comb(n + m, total)
