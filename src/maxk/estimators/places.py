"""Where the m-th smallest of k samples lies in a sorted group of n, without any binomial. No torch.

Samples are sorted by reward, ascending, and counted from j = 1. The j-th is the m-th smallest of a
k-subset in

    p_j(m) = C(j-1, m-1) C(n-j, k-m) / C(n, k)

of all subsets, and an objective is worth sum_j r_(j) sum_m c_m p_j(m). Given that, one sample below
j is in the subset with chance (m-1)/(j-1), one above with (k-m)/(n-j), and so on for two. So the
weights of all objectives at and near ratio 1 are a few vectors of n numbers times the rewards,
added up from either end. p_j(m) sums to 1 over j, and the ratio of neighbours is a quotient of
small integers.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from maxk.estimators.objectives import Part

Parts = tuple[Part, ...]


class Counts(NamedTuple):
    """Sums over m of c_m p_j(m), for subsets that hold j and ...

    below, above: one given sample below or above j. below_below, below_above, above_above: two of
    these. no_below, no_above: not the one given. no_below_below: not one given below, but another
    one below; no_below_above: not one below, but one above; and so on.
    """

    own: Any
    below: Any
    above: Any
    below_below: Any
    below_above: Any
    above_above: Any
    no_below: Any
    no_above: Any
    no_below_below: Any
    no_below_above: Any
    no_above_below: Any
    no_above_above: Any
    first: int  # places before it count for nothing,
    last: int  # and so do places after it
    both_sides: bool  # whether rewards above a sample make a difference to those below it


@lru_cache(maxsize=256)
def counts(parts: Parts, n: int) -> Counts:
    """The vectors of the sum of some parts, in float64."""
    total = np.zeros((12, n))
    j = np.arange(1, n + 1, dtype=np.float64)
    for part in parts:
        k = part.k
        for m, c in enumerate(part.ranks, start=1):
            if c:
                down, up = _share(m - 1, j - 1), _share(k - m, n - j)
                rows = [
                    np.ones(n),
                    down,
                    up,
                    down * _share(m - 2, j - 2),
                    down * up,
                    up * _share(k - m - 1, n - j - 1),
                    _share(j - m, j - 1),
                    _share(n - j - k + m, n - j),
                    down * _share(j - m, j - 2),
                    up * _share(j - m, j - 1),
                    down * _share(n - j - k + m, n - j),
                    up * _share(n - j - k + m, n - j - 1),
                ]
                total += part.weight * c * places(n, k, m) * np.stack(rows)
    used = np.flatnonzero(total[:3].any(0))
    first, last = (int(used[0]), int(used[-1])) if len(used) else (0, n - 1)
    return Counts(*total, first=first, last=last, both_sides=bool(total[2].any()))


def places(n: int, k: int, m: int) -> np.ndarray:
    """p_j(m) for j = 1 ... n: where the m-th smallest of k of n samples lies.

    >>> places(4, 2, 2) * 6  # the best of 2 of 4: C(4, 2) = 6 pairs
    array([0., 1., 2., 3.])
    """
    low, high = m, n - k + m
    start = min(max(round(m * (n + 1) / (k + 1)), low), high)  # where it is largest, or next to it
    up = np.arange(start, high, dtype=np.float64)
    down = np.arange(start, low, -1, dtype=np.float64)
    found = np.zeros(n)
    found[start - 1] = 1.0
    found[start:high] = np.cumprod(up * (n - up - k + m) / ((up - m + 1) * (n - up)))
    below = np.cumprod((down - m) * (n - down + 1) / ((down - 1) * (n - down + 1 - k + m)))
    found[low - 1 : start - 1] = below[::-1]
    return found / found.sum()


def _share(few: np.ndarray | int, many: np.ndarray | int) -> np.ndarray:
    """few / many, 0 where there are none."""
    many = np.asarray(many, dtype=np.float64)
    return np.where(many > 0, np.maximum(few, 0.0) / np.maximum(many, 1.0), 0.0)
