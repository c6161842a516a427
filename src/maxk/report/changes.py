"""Changes against the base model: every k, where the curves cross, each problem.

Every difference is the other method minus the base model on the same problems, with the interval of
`maxk.evaluate.compare`. What is said of a k that was found by looking comes from its band, which
holds for all k together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np

from maxk.evaluate import RunDifference, compare_runs, replicates
from maxk.evaluate.evaluation import equal_counts
from maxk.evaluate.read import Stored
from maxk.evaluate.samples import check_ks
from maxk.report.gather import RunData

_ROUNDING = 1e-12  # differences below it are none
_DENSE = 64  # values of k between 1 and n at which two curves are compared


@dataclass(frozen=True)
class Change:
    """max@k or pass@k of another method minus the base model at one k, with its 95 % interval."""

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
    """The k at which one curve overtakes the other for good.

    low, high: the last k at which the other one is ahead, and the first from which this one stays
    ahead, both by the 95 % band over all k; None where the band shows no such k. back: whether the
    one that is ahead in the end was also ahead at first.
    """

    k: float
    low: int | None
    high: int | None
    back: bool


@dataclass(frozen=True)
class Effect:
    """One method against the base model: every k, and where the curves cross."""

    base: str
    other: str
    problems: int
    changes: tuple[Change, ...]
    crossing: Crossing | None
    runs: tuple[int, int] = (1, 1)
    by_run: bool = False  # whether the intervals cover other runs


Move = Literal["lost", "gained", "solved", "never"]


@dataclass(frozen=True)
class Moved:
    """One problem with two runs. chance: of so few successes in one of them by chance alone."""

    problem: str
    base: float
    other: float
    move: Move
    chance: float


def effect(
    base: Sequence[Stored],
    other: Sequence[Stored],
    names: tuple[str, str],
    untrained: bool = False,
) -> Effect:
    """The change from the base model to another method, at every k; each has its runs.

    untrained: no seed made the base model, so one run of it is all there is.
    """
    given = equal_counts({(side, i): run.rewards for side, i, run in _numbered(base, other)})
    rows = [[list(each.values()) for key, each in given.items() if key[0] == s] for s in (0, 1)]
    n = min(len(row) for side in rows for run in side for row in run)
    ks = check_ks(None, n)
    dense = sorted({*ks, *(round(float(k)) for k in np.geomspace(1, n, _DENSE))})
    before, after = replicates(rows[0], dense, trained=not untrained), replicates(rows[1], dense)
    found = compare_runs(after, before, dense)
    changes = tuple(
        Change(gap.k, gap.second, gap.first, gap.value, gap.low, gap.high, gap.p)
        for gap in found
        if gap.k in ks
    )
    return Effect(
        base=names[0],
        other=names[1],
        problems=len(base[0].rewards),
        changes=changes,
        crossing=crossing(found),
        runs=(len(base), len(other)),
        by_run=found[0].by_run,
    )


def _numbered(*sides: Sequence[Stored]) -> list[tuple[int, int, Stored]]:
    return [(side, i, run) for side, runs in enumerate(sides) for i, run in enumerate(runs)]


def crossing(gaps: Sequence[RunDifference]) -> Crossing | None:
    """Where the sign of a difference changes for the last time, if it ever does.

    Between two values of k the curves are straight on a log scale. A base model that always passes
    and another run that passes half of the time have no crossing:

    >>> from maxk.evaluate import Replicates
    >>> one, half = Replicates(np.ones((1, 5, 2))), Replicates(np.full((1, 5, 2), [0.5, 0.8]))
    >>> crossing(compare_runs(half, one, [1, 2])) is None
    True
    """
    ks, values = np.array([gap.k for gap in gaps]), np.array([gap.value for gap in gaps])
    signs = np.where(np.abs(values) < _ROUNDING, 0, np.sign(values)).astype(int)
    ends = np.flatnonzero(signs)
    if not len(ends) or not (signs == -signs[ends[-1]]).any():
        return None
    ahead = signs[ends[-1]]
    last = np.flatnonzero(signs == -ahead)[-1]
    later = ends[ends > last][0]
    share = values[last] / (values[last] - values[later])
    at = np.exp(np.log(ks[last]) * (1 - share) + np.log(ks[later]) * share)
    clear = np.array([(gap.low_all > 0) * 1 - (gap.high_all < 0) * 1 for gap in gaps])
    before, open_ = np.flatnonzero(clear == -ahead), np.flatnonzero(clear != ahead)
    stays = open_[-1] + 1 if len(open_) else 0
    return Crossing(
        k=float(at),
        low=int(ks[before[-1]]) if len(before) else None,
        high=int(ks[stays]) if stays < len(ks) else None,
        back=bool(signs[ends[0]] == ahead),
    )


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
