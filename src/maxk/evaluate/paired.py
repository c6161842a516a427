"""Two runs on the same problems: differences, the Wilcoxon signed-rank test, many comparisons.

Problems differ far more than methods do, so runs are compared problem by problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from maxk.evaluate.bootstrap import DEFAULT, Interval, mean_interval

Correction = Literal["holm", "bh", "none"]

# Up to this many unequal problems the p-value is exact. scipy's is exact only without ties, and
# scores have many ties: its normal approximation gives five equal differences p = 0.025, not 2/32.
EXACT_UP_TO = 50


@dataclass(frozen=True)
class Difference:
    """Mean over problems of first minus second, its interval, and the Wilcoxon p-value.

    `unequal` counts the problems on which the two differ; the test uses no others.
    """

    value: float
    low: float
    high: float
    p: float
    unequal: int


def differences(
    first_PK: np.ndarray, second_PK: np.ndarray, interval: Interval = DEFAULT
) -> list[Difference]:
    """One paired difference per column; row p of both arrays is the same problem.

    The interval is a bootstrap over problems, which draws both runs' scores together.

    >>> differences(np.array([[1.0], [0.5]]), np.array([[1.0], [0.5]]))
    [Difference(value=0.0, low=0.0, high=0.0, p=1.0, unequal=0)]
    """
    if np.shape(first_PK) != np.shape(second_PK):
        raise ValueError(
            f"first has shape {np.shape(first_PK)} and second {np.shape(second_PK)}; a paired "
            "comparison needs the same problems and columns in both"
        )
    gap_PK = _without_rounding(np.asarray(first_PK), np.asarray(second_PK))
    low_K, high_K = mean_interval(gap_PK, interval)
    return [
        Difference(
            value=float(gap_P.mean()),
            low=float(low),
            high=float(high),
            p=_signed_rank(gap_P),
            unequal=int(np.count_nonzero(gap_P)),
        )
        for gap_P, low, high in zip(gap_PK.T, low_K, high_K, strict=True)
    ]


def wilcoxon(first_P: np.ndarray, second_P: np.ndarray) -> float:
    """Two-sided p-value of the Wilcoxon signed-rank test on scores of the same problems.

    Two-sided, because the better run is known only after the fact. Problems with equal scores are
    left out (zero_method="wilcox", scipy's default and presumably the paper's): they do not say
    which run is better, and most problems of a benchmark are solved by both or by none.
    p = 1 if all are equal. Up to 50 unequal problems the p-value is exact, ties included.

    >>> wilcoxon(np.array([0.5, 0.6, 0.7, 1.0]), np.array([0.4, 0.5, 0.6, 1.0]))  # 2 / 2^3
    0.25
    """
    return _signed_rank(_without_rounding(np.asarray(first_P), np.asarray(second_P)))


def _signed_rank(gap_P: np.ndarray) -> float:
    # scipy.stats takes most of a second to import, which commands that do not test should not pay.
    from scipy.stats import rankdata
    from scipy.stats import wilcoxon as scipy_wilcoxon

    gap_P = gap_P[gap_P != 0]
    if len(gap_P) == 0:
        return 1.0
    if len(gap_P) > EXACT_UP_TO:
        return float(np.asarray(scipy_wilcoxon(gap_P))[1])
    # Tied ranks are halves, so twice a rank is whole. chance[t]: doubled positive ranks sum to t.
    ranks = np.rint(2 * rankdata(np.abs(gap_P))).astype(int)
    total = int(ranks.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in ranks:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    sums = np.arange(total + 1)
    seen = int(ranks[gap_P > 0].sum())
    return min(1.0, float(chance[np.abs(2 * sums - total) >= abs(2 * seen - total)].sum()))


def _without_rounding(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """first - second, where what is only rounding error becomes an exact zero or an exact tie.

    The test ranks differences, so 1e-17 would count as much as any other.
    """
    scale = np.maximum(np.abs(first).max(0), np.abs(second).max(0))
    scale = np.where(scale > 0, scale, 1.0)
    return np.round((first - second) / scale, 12) * scale


def adjust(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """p-values corrected for having made all of these comparisons.

    "holm" bounds the chance of any false finding and needs no independence; "bh" (Benjamini-
    Hochberg) bounds the expected share of false ones among the findings, and is less strict.

    >>> adjust([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    >>> adjust([0.01, 0.04, 0.03], "bh")
    [0.03, 0.04, 0.04]
    """
    p_M = np.asarray(p_values, dtype=np.float64)
    if correction == "none" or p_M.size == 0:
        return p_M.tolist()
    order = np.argsort(p_M, kind="stable")
    if correction == "holm":
        steps = p_M[order] * np.arange(len(p_M), 0, -1)
        ordered = np.maximum.accumulate(steps)
    elif correction == "bh":
        steps = p_M[order] * len(p_M) / np.arange(1, len(p_M) + 1)
        ordered = np.minimum.accumulate(steps[::-1])[::-1]
    else:
        raise ValueError(f"correction={correction!r} is unknown; use 'holm', 'bh' or 'none'")
    out_M = np.empty_like(p_M)
    out_M[order] = np.minimum(ordered, 1.0)
    return out_M.tolist()
