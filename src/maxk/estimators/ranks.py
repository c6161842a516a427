"""Any objective at and near ratio 1, by the shares of `maxk.estimators.places`, in O(n log n)."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from maxk.estimators import places
from maxk.estimators.places import Counts, Parts
from maxk.estimators.subsets import Row, after, before


@torch.compiler.assume_constant_result
def counts(parts: Parts, n: int, device: torch.device) -> Counts:
    """The vectors of the sum of some parts; a constant of a compiled graph."""
    return _counts(parts, n, device)


@lru_cache(maxsize=256)
def _counts(parts: Parts, n: int, device: torch.device) -> Counts:
    found = places.counts(parts, n)
    vectors = {name: x for name, x in found._asdict().items() if isinstance(x, np.ndarray)}
    return found._replace(**{name: torch.tensor(x, device=device) for name, x in vectors.items()})


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
