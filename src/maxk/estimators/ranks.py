"""Any objective at and near ratio 1: how much each place in a sorted group counts, in O(n).

Samples are sorted by reward, ascending, and counted from j = 1. The j-th is the m-th smallest of a
k-subset in

    p_j(m) = C(j-1, m-1) C(n-j, k-m) / C(n, k)

of all subsets, and the objective is worth sum_j r_(j) sum_m c_m p_j(m). Given that, one sample
below j is in the subset with chance (m-1)/(j-1), one above with (k-m)/(n-j), and so on for two. So
the weights of all objectives are a few vectors of n numbers times the rewards, added up from either
end. They are made once for an objective and n, without any binomial: p_j(m) for one m sums to 1
over j, and the ratio of neighbours is a quotient of small integers.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maxk.estimators.objectives import Part
from maxk.estimators.subsets import Row, after, before

Parts = tuple[Part, ...]


class Counts(NamedTuple):
    """Sums over m of c_m p_j(m), for subsets that hold j and ...

    below, above: one given sample below or above j. below_below, below_above, above_above: two of
    these. no_below, no_above: not the one given. no_below_below: not one given below, but another
    one below; no_below_above: not one below, but one above; and so on.
    """

    own: Tensor
    below: Tensor
    above: Tensor
    below_below: Tensor
    below_above: Tensor
    above_above: Tensor
    no_below: Tensor
    no_above: Tensor
    no_below_below: Tensor
    no_below_above: Tensor
    no_above_below: Tensor
    no_above_above: Tensor
    first: int  # places before it count for nothing,
    last: int  # and so do places after it
    both_sides: bool  # whether rewards above a sample make a difference to those below it


@torch.compiler.assume_constant_result
def counts(parts: Parts, n: int, device: torch.device) -> Counts:
    """The vectors of the sum of some parts, in float64; a constant of a compiled graph."""
    return _counts(parts, n, device)


@lru_cache(maxsize=256)
def _counts(parts: Parts, n: int, device: torch.device) -> Counts:
    total = np.zeros((12, n))
    j = np.arange(1, n + 1, dtype=np.float64)
    for weight, k, m, c in (
        (p.weight, p.k, m + 1, c) for p in parts for m, c in enumerate(p.ranks)
    ):
        if c:
            p = weight * c * places(n, k, m)
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
            total += p * np.stack(rows)
    used = np.flatnonzero(total[0])
    vectors = (torch.from_numpy(row.copy()).to(device) for row in total)
    return Counts(*vectors, first=int(used[0]), last=int(used[-1]), both_sides=bool(total[2].any()))


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


def value(rewards: Row, parts: Parts) -> Tensor:
    """A sum of parts at ratio 1."""
    return (rewards * counts(parts, rewards.shape[-1], rewards.device).own).sum(-1)


def on_policy(rewards: Row, parts: Parts) -> Row:
    """The gradient of some parts in the log-ratios at ratio 1. O(n).

    Equal rewards get bitwise equal weights, so that centred groups without a preference are
    exactly zero instead of rounding noise.
    """
    c = counts(parts, rewards.shape[-1], rewards.device)
    # Rewards beyond the places that count make no difference.
    low, high = rewards[..., c.first : c.first + 1], rewards[..., c.last : c.last + 1]
    rewards = torch.minimum(torch.maximum(rewards, low), high).contiguous()
    w = c.own * rewards + after(c.below * rewards)
    if c.both_sides:
        w = w + before(c.above * rewards)
    last_equal = torch.searchsorted(rewards, rewards, right=True) - 1
    return w.gather(-1, last_equal)


def first_order(rewards: Row, deltas: Row, parts: Parts) -> Row:
    """Mean over subsets of [i in I] (1 + sum_{l in I} delta_l) f(I). O(n)."""
    c, r = counts(parts, rewards.shape[-1], rewards.device), rewards
    lower, higher = before(deltas), after(deltas)
    w = r * (c.own * (1 + deltas) + c.below * lower + c.above * higher)
    w = w + (1 + deltas) * after(c.below * r)
    w = w + after(r * (c.below * deltas + c.below_above * higher))
    w = w + _beside(r * c.below_below, deltas, lower)
    if not c.both_sides:
        return w
    w = w + (1 + deltas) * before(c.above * r)
    w = w + before(r * (c.above * deltas + c.below_above * lower))
    return w + _beside((r * c.above_above).flip(-1), deltas.flip(-1), higher.flip(-1)).flip(-1)


def first_order_without(rewards: Row, deltas: Row, parts: Parts) -> Row:
    """Mean over subsets of [i not in I] (1 + sum_{l in I} delta_l) f(I). O(n)."""
    c, r = counts(parts, rewards.shape[-1], rewards.device), rewards
    lower, higher = before(deltas), after(deltas)
    w = after(r * (c.no_below * (1 + deltas) + c.no_below_above * higher))
    w = w + _beside(r * c.no_below_below, deltas, lower)
    w = w + before(r * (c.no_above * (1 + deltas) + c.no_above_below * lower))
    x = (r * c.no_above_above).flip(-1)
    return w + _beside(x, deltas.flip(-1), higher.flip(-1)).flip(-1)


def _beside(x: Row, deltas: Row, lower: Row) -> Row:
    """sum_{j > i} x_j sum_{l < j, l not i} delta_l, the l below i and those between i and j.

    The delta of i itself is never added, for it could not be taken off without loss.
    """
    later = after(x)
    return lower * later + after(deltas * later)
