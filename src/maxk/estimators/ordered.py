"""Any objective off-policy and exactly, in O(nk): `maxk.estimators.exact` for every rank.

The coins are those of `exact`: given k heads, they are a k-subset drawn in proportion to the
product of its ratios. The m-th smallest of it is the head that has m - 1 heads below. So the
objective is a walk over the coins, from the lowest reward up, that counts heads and adds c_m r_i at
the m-th. Four tables hold it, each with a row for the number of heads m below sample i:

    heads_below[i][m]   chance of m heads below i
    earned_below[i][m]  E[what they add; m heads below i]
    chance_above[m]     chance that i and the coins above it show k - m heads
    earned_above[m]     E[what they add; k - m heads], given m heads below i

For sample i, what is below meets what is above with coin i showing heads, or tails. All terms are
products of probabilities, weights and rewards: nothing cancels when one ratio dwarfs the others.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from maxk.estimators.exact import Coins, flat
from maxk.estimators.subsets import Row


class Met(NamedTuple):
    """Of every sample, unscaled: E[worth; i in I], E[worth; i not in I] and P(i in I)."""

    inside: Row
    outside: Row
    chance: Row


def meet(c: Coins, rewards: Row, ranks: tuple[float, ...]) -> Met:
    heads, tails, own = flat(c.heads), flat(c.tails), flat(rewards)
    n, k = len(own), len(ranks)
    weight = rewards.new_tensor(ranks)[:, None]  # of the m-th smallest, m = 1 ... k
    earned = rewards.new_zeros(k + 1, len(own[0]))
    earned_below = [earned]
    for i in range(n - 1):
        last = earned
        earned = last * tails[i]
        earned[1:] += heads[i] * (last[:-1] + weight * own[i] * c.below[i])
        earned_below.append(earned)
    chance = torch.zeros_like(earned)
    chance[k] = 1.0
    later = torch.zeros_like(earned)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for i in reversed(range(n)):
        below, gained = c.below[i], earned_below[i]
        adds = weight * own[i] * chance[1:] + later[1:]  # coin i shows heads, and what follows
        inside = (gained[:-1] * chance[1:] + below * adds).sum(0)
        outside = (gained * chance).sum(0) + (below * later[:-1]).sum(0)
        found.append((inside, outside, (below * chance[1:]).sum(0)))
        later = later * tails[i]
        later[:-1] += heads[i] * adds
        last = chance
        chance = last * tails[i]
        chance[:-1] += heads[i] * last[1:]
    inside, outside, held = (
        torch.stack(column[::-1], -1).view(rewards.shape) for column in zip(*found, strict=True)
    )
    return Met(c.heads * inside, c.tails * outside, c.heads * held)


def inside_and_outside(c: Coins, rewards: Row, ranks: tuple[float, ...]) -> tuple[Row, Row]:
    """The parts of the objective from subsets with i and from subsets without i."""
    met = meet(c, rewards, ranks)
    return c.scaled(met.inside), c.scaled(met.outside)


def value(c: Coins, rewards: Row, ranks: tuple[float, ...]) -> Tensor:
    """The objective. Every subset holds the best sample or does not."""
    met = meet(c, rewards, ranks)
    return c.scaled(met.inside + met.outside)[..., -1]


def normalized(c: Coins, rewards: Row, ranks: tuple[float, ...]) -> Row:
    """The gradient of the objective over the mean product of ratios.

    It is the chance that i is drawn, times how much better a subset with i is than the mean.
    """
    # The middle of the group is taken off first: rewards that are next to equal keep their digits.
    met = meet(c, rewards - rewards.mean(-1, keepdim=True), ranks)
    whole = met.chance.sum(-1, keepdim=True) / len(ranks)
    mean = (met.inside + met.outside)[..., -1:] / whole
    return (met.inside - met.chance * mean) / whole
