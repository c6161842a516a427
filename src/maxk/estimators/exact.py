"""The exact off-policy objective and its gradient in O(nk).

    S_k(r, rho) = mean over k-subsets I of  prod_{i in I} rho_i * max_{i in I} r_i

Read S_k as an average under a tilted law: draw a k-subset with probability proportional to the
product of its ratios. Then S_k = total * E[max_I r] with total = the mean product, and the
weights are dS_k/dl_i = total * E[max_I r; i in I]. That law (conditional Bernoulli sampling) is
a walk down the sorted samples, and the chance to take sample j while m are still to be drawn,

    take_m(j) = rho_j / (R_m(j-1) + rho_j),      skip_m(j) = R_m(j-1) / (R_m(j-1) + rho_j),

needs only R_m(j) = e_m / e_{m-1}, the quotient of elementary symmetric polynomials of the first j
ratios:  R_m(j) = (R_m(j-1) + rho_j) * skip_{m-1}(j).  Sums, products and quotients of positive
numbers: no subtraction, so no cancellation when one ratio dwarfs the others, and R stays within
the range of the ratios themselves, so the products of k ratios never overflow on the way.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from maxk.estimators.subsets import Row

Column = Float[Tensor, "*batch k"]


class Walk(NamedTuple):
    """The tilted law of k-subsets; entry m-1 of a column belongs to m samples still to draw."""

    take: list[Column]  # one column per sample, ascending
    skip: list[Column]
    half_total: Float[Tensor, "*batch 1"]  # sqrt of the mean product of k ratios


def walk(log_ratios: Row, k: int) -> Walk:
    """Build the law from the ratios of the sorted samples, in O(nk) time and memory."""
    n = log_ratios.shape[-1]
    # Only quotients of ratios enter the law, so the largest may be moved to 1; a ratio 600
    # factors of e smaller is then as good as never drawn, and stays a positive number.
    shift = log_ratios.amax(-1, keepdim=True)
    ratios = (log_ratios - shift).clamp(min=-600.0).exp()
    quotient = ratios.new_zeros((*ratios.shape[:-1], k))
    take, skip = [], []
    for ratio in ratios.split(1, dim=-1):
        both = quotient + ratio
        take.append(ratio / both)
        skip.append(quotient / both)
        quotient = both * pad(skip[-1][..., :-1], (1, 0), value=1.0)
    m = torch.arange(1, k + 1, dtype=ratios.dtype, device=ratios.device)
    log_total = (quotient * m / (n - m + 1)).log().sum(-1, keepdim=True) + k * shift
    return Walk(take, skip, (log_total / 2).exp())


def scaled(walk: Walk, x: Row) -> Row:
    """x times the mean product; in two halves, since the whole may overflow where x is tiny."""
    return x * walk.half_total * walk.half_total


def best_chances(walk: Walk) -> Row:
    """Chance that sample j is the best of the subset: nothing above it taken, then j taken."""
    above = torch.cumprod(torch.cat([skip[..., -1:] for skip in walk.skip], -1).flip(-1), -1)
    none_above = pad(above[..., :-1], (1, 0), value=1.0).flip(-1)
    return none_above * torch.cat([take[..., -1:] for take in walk.take], -1)


def best_so_far(walk: Walk, rewards: Row, m: int) -> list[Float[Tensor, "*batch 1"]]:
    """Expected best reward of m samples drawn from the first j, for j = 0 ... n-1.

    For j < m there is no such draw; the value there is finite and never used.
    """
    best = [torch.zeros_like(rewards[..., :1])]
    columns = zip(walk.take, walk.skip, rewards.split(1, dim=-1), strict=True)
    for take, skip, reward in columns:
        best.append(take[..., m - 1 : m] * reward + skip[..., m - 1 : m] * best[-1])
    return best[:-1]


def value(walk: Walk, rewards: Row) -> Float[Tensor, "*batch"]:
    """S_k itself."""
    return scaled(walk, (best_chances(walk) * rewards).sum(-1, keepdim=True)).squeeze(-1)


def split_by_membership(walk: Walk, rewards: Row, k: int) -> tuple[Row, Row]:
    """(dS_k/dl_i, S_k over the subsets without i), both as shares of the same mean over subsets.

    One walk from the best sample down. `held` is E[best reward; m still to draw], `done` the same
    with all k drawn; as long as nothing is drawn the best is not known yet and only the chance
    `none` is carried.
    """
    done = torch.zeros_like(rewards[..., :1])
    none = torch.ones_like(rewards[..., :1])
    held = rewards.new_zeros((*rewards.shape[:-1], k - 1))
    below = best_so_far(walk, rewards, k)
    inside, outside = [], []
    for j in reversed(range(rewards.shape[-1])):
        take, skip = walk.take[j], walk.skip[j]
        taken = take * torch.cat([held, none * rewards[..., j : j + 1]], -1)
        passed = skip[..., :-1] * held
        none = skip[..., -1:] * none
        inside.append(taken.sum(-1, keepdim=True))
        outside.append(done + passed.sum(-1, keepdim=True) + none * below[j])
        done = done + taken[..., :1]
        held = passed + taken[..., 1:]
    return scaled(walk, torch.cat(inside[::-1], -1)), scaled(walk, torch.cat(outside[::-1], -1))


def marginal(walk: Walk, rewards: Row, k: int) -> Row:
    """Sum over subsets with i of prod rho * (max - max without i): the `loo-1` weights, k >= 2."""
    second = torch.cat(best_so_far(walk, rewards, k - 1), -1)
    return scaled(walk, best_chances(walk) * (rewards - second))
