"""What changed from one run to another: every k, where the curves cross, each problem.

Every figure is after minus before on the same problems, with the interval of
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
    """max@k or pass@k after minus before at one k, with its 95 % interval."""

    k: int
    before: float
    after: float
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
    """One run against the first: every k, and where the curves cross."""

    before: str
    after: str
    problems: int
    changes: tuple[Change, ...]
    crossing: Crossing | None


Move = Literal["lost", "gained", "solved", "never"]


@dataclass(frozen=True)
class Moved:
    """One problem before and after. chance: of so few successes after, had nothing changed."""

    problem: str
    before: float
    after: float
    move: Move
    chance: float


def effect(before: Stored, after: Stored) -> Effect:
    """What changed from one run to another, at every k."""
    rewards = {before.name: before.rewards, after.name: after.rewards}
    found = compare(rewards, metric="max", correction="none")
    means = {
        name: [cell.value for cell in cells]
        for name, cells in zip(found.table.rows, found.table.cells, strict=True)
    }
    changes = tuple(
        Change(
            k=pair.k,
            before=means[before.name][i],
            after=means[after.name][i],
            value=-pair.difference.value,  # a pair is first minus second
            low=-pair.difference.high,
            high=-pair.difference.low,
            p=pair.difference.p,
        )
        for i, pair in enumerate(found.pairs)
    )
    return Effect(
        before=before.name,
        after=after.name,
        problems=len(before.rewards),
        changes=changes,
        crossing=crossing(before.rows, [after.rewards[problem] for problem in before.rewards]),
    )


def crossing(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> Crossing | None:
    """Where the sign of after minus before changes for the last time, if it ever does.

    Between two values of k the curves are taken as straight on a log scale. With success always
    before and a half of the time after, nothing crosses:

    >>> crossing([np.ones(4)] * 5, [np.array([0.0, 1.0, 0.0, 1.0])] * 5) is None
    True
    """
    n = min(len(row) for row in [*before, *after])
    ks = sorted({round(float(k)) for k in np.geomspace(1, n, _DENSE)})
    gap_PK = scores(after, ks) - scores(before, ks)
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
        before = np.flatnonzero(signs_K == -signs_K[ends[-1]])
        if len(before):
            last = before[-1]
            after = ends[ends > last][0]
            share = gap_K[last] / (gap_K[last] - gap_K[after])
            out[r] = np.exp(np.log(ks[last]) * (1 - share) + np.log(ks[after]) * share)
    return out


def moved(problem: str, before: RunData, after: RunData) -> Moved:
    """What became of a problem. The chance is Fisher's exact test, one-sided."""
    n, m = len(before.samples[problem]), len(after.samples[problem])
    a = sum(sample.passed for sample in before.samples[problem])
    b = sum(sample.passed for sample in after.samples[problem])
    move: Move = "solved" if a and b else "lost" if a else "gained" if b else "never"
    fewer = (a, n, b, m) if a / n >= b / m else (b, m, a, n)
    return Moved(problem, a / n, b / m, move, _chance(*fewer))


def _chance(many: int, n: int, few: int, m: int) -> float:
    """P(at most `few` of all successes fall to the m samples), if they fall anywhere alike.

    >>> round(_chance(many=3, n=10, few=0, m=10), 4)  # C(10, 3) / C(20, 3)
    0.1053
    """
    total = many + few
    ways = sum(comb(m, i) * comb(n, total - i) for i in range(max(0, total - n), few + 1))
    return ways / comb(n + m, total)
