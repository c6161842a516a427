"""Counting k-subsets of n samples sorted by reward: the closed forms at and near ratio 1.

Samples are sorted by reward, ascending, and counted from j = 1. A subset's best sample is then
the one with the largest j, so a sum over all C(n, k) subsets becomes a sum over j with a binomial
coefficient in front. Everything here takes sorted rows and returns sorted rows.

    top_j    = C(j-1, k-1) / C(n, k)   subsets whose best is j
    pair_j   = C(j-2, k-2) / C(n, k)   ... and that contain one given earlier sample
    triple_j = C(j-3, k-3) / C(n, k)   ... and that contain two given earlier samples

No binomial is ever formed, so nothing overflows, and each sum adds its terms in one direction
only, so no result is a difference of larger numbers. docs/explanation/mathematics.md derives the
formulas.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from maxk.estimators.objectives import Part

Row = Float[Tensor, "*batch n"]


class Shares(NamedTuple):
    """Shares of the k-subsets of n samples, by the position j of their best (tables above)."""

    top: Float[Tensor, " n"]
    pair: Float[Tensor, " n"]
    triple: Float[Tensor, " n"]
    top_without: Float[Tensor, " n"]  # best is j, and one given earlier sample is not in it
    pair_without: Float[Tensor, " n"]  # ... another given earlier sample is in it, and one is not


def shares(n: int, k: int, device: torch.device) -> Shares:
    """All five shares in float64, from one running product that starts at top_n = k/n.

    >>> shares(4, 2, torch.device("cpu")).top * 6  # C(4, 2) = 6 pairs, best at j = 1, 2, 3, 4
    tensor([0., 1., 2., 3.], dtype=torch.float64)
    """
    j = torch.arange(1, n + 1, dtype=torch.float64, device=device)
    # top_j / top_{j+1} = (j-k+1) / j, which is 0 at j = k-1 and so for every j below it.
    steps = ((j - k + 1) / j).clamp(min=0.0)
    steps[-1] = k / n
    top = steps.flip(0).cumprod(0).flip(0)
    pair = top * (k - 1) / (j - 1).clamp(min=1.0)
    triple = pair * (k - 2) / (j - 2).clamp(min=1.0)
    return Shares(
        top=top,
        pair=pair,
        triple=triple,
        top_without=top * (j - k) / (j - 1).clamp(min=1.0),
        pair_without=pair * (j - k) / (j - 2).clamp(min=1.0),
    )


def before(x: Row) -> Row:
    """Sum of the entries with a smaller index."""
    return pad(x.cumsum(-1)[..., :-1], (1, 0))


def after(x: Row) -> Row:
    """Sum of the entries with a larger index."""
    return before(x.flip(-1)).flip(-1)


def on_policy_marginal(rewards: Row, part: Part) -> Row:
    """Mean over subsets with i of (max - max without i): the `loo-1` weights at ratio 1. O(n)."""
    return first_order_marginal(rewards, torch.zeros_like(rewards), part)


def first_order_marginal(rewards: Row, deltas: Row, part: Part) -> Row:
    """Mean over all subsets of [i in I] (1 + sum_{l in I} delta_l) (max_I r - max_{I without i} r).

    Only subsets whose best is i count. Their second best t has C(t-1, k-2) companions, which is
    pair one place further on. O(n).
    """
    share = shares(rewards.shape[-1], part.k, rewards.device)
    pair, triple = (pad(x[1:], (0, 1)) for x in (share.pair, share.triple))
    earlier = before(deltas)
    best = rewards * (share.top * (1 + deltas) + share.pair * earlier)
    second = (1 + deltas) * before(pair * rewards)
    return best - second - before(rewards * (pair * deltas + triple * earlier))
