"""The exact off-policy objective and its gradient in O(nk).

    S_k(r, rho) = mean over k-subsets I of  prod_{i in I} rho_i * max_{i in I} r_i

Toss one coin per sample, heads with odds t * rho_i. The set of heads, given that there are k of
them, is a k-subset drawn in proportion to the product of its ratios, whatever t is:

    sum over I of prod_{i in I} rho_i f(I) = E[f(heads); k heads] * prod_i (1 + t rho_i) / t^k

So S_k, its gradient and its leave-one-out terms are expectations over independent coins. With the
samples sorted by reward they are sums over how many heads fall below sample i and how many above.
All of it is sums and products of probabilities: nothing overflows, and nothing cancels when one
ratio dwarfs the others. docs/explanation/mathematics.md has the derivation.

Rows are sorted by reward, ascending, as in `subsets`.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from maxk.estimators.subsets import Row, before


class Coins(NamedTuple):
    """Independent coins whose heads, given that there are k, are the tilted k-subsets."""

    heads: Row
    tails: Row
    odds: Row  # heads / tails = t rho
    none_above: Row  # chance that every coin above this one shows tails
    below: list[Float[Tensor, "k rows"]]  # per sample, chance of 0 ... k-1 heads below it
    half_scale: Float[Tensor, "*batch 1"]  # square root of prod_i (1 + t rho_i) / t^k / C(n, k)

    def scaled(self, x: Row) -> Row:
        """From E[...; k heads] to a mean over subsets; in halves, as the whole might overflow."""
        return x * self.half_scale * self.half_scale


def coins(log_ratios: Row, k: int) -> Coins:
    """The coins of a group, with t near the one for which k heads are expected."""
    n = log_ratios.shape[-1]
    # Any t is right, but if k heads are very rare their chances underflow. Start with even odds
    # between the k-th and the next largest ratio; each round then moves t by what would mend the
    # expected number if all ratios were equal, which never goes too far.
    ordered = log_ratios.sort(dim=-1).values
    log_t = -(ordered[..., n - k, None] + ordered[..., max(n - k - 1, 0), None]) / 2
    wanted = math.log((k + 0.5) / (n - k + 0.5))
    for _ in range(2):
        share = ((log_ratios + log_t).sigmoid().sum(-1, keepdim=True) + 0.5) / (n + 1)
        log_t = log_t + (wanted - share.logit())
    log_odds = log_ratios + log_t
    heads, tails = log_odds.sigmoid(), (-log_odds).sigmoid()
    # log(1 + odds), but not by softplus, which torch cuts off at 20 with an error of e^-20.
    log_product = torch.logaddexp(log_odds, torch.zeros_like(log_odds)).sum(-1, keepdim=True)
    log_choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return Coins(
        heads=heads,
        tails=tails,
        odds=log_odds.exp(),
        none_above=pad(tails.flip(-1).cumprod(-1)[..., :-1], (1, 0), value=1.0).flip(-1),
        below=heads_below(heads, tails, k),
        half_scale=((log_product - k * log_t - log_choose) / 2).exp(),
    )


def flat(x: Row) -> tuple[Float[Tensor, " rows"], ...]:
    """One vector per sample, over all groups at once."""
    return x.reshape(-1, x.shape[-1]).T.contiguous().unbind(0)


def heads_below(heads: Row, tails: Row, k: int) -> list[Float[Tensor, "k rows"]]:
    """For every sample, the chance of m = 0 ... k-1 heads among the coins below it."""
    row = heads.new_zeros(k, heads.shape[:-1].numel())
    row[0] = 1.0
    table = [row]
    for h, t in zip(flat(heads)[:-1], flat(tails)[:-1], strict=True):
        last = row
        row = last * t
        row[1:].addcmul_(last[:-1], h)
        table.append(row)
    return table


def best_shares(c: Coins, k: int) -> Row:
    """Unscaled chance that a sample is the best of k heads: k-1 are below it and none above."""
    below = torch.stack([row[k - 1] for row in c.below], -1).view(c.heads.shape)
    return c.heads * below * c.none_above


def value(c: Coins, rewards: Row, k: int) -> tuple[Float[Tensor, "*batch"], Row]:
    """S_k, and its derivative in the rewards."""
    shares = c.scaled(best_shares(c, k))
    return (shares * rewards).sum(-1), shares


def inside(c: Coins, rewards: Row) -> Row:
    """dS_k/dl_i: the part of S_k from subsets with i. Coin i shows heads, and k-1 others do."""
    (others,) = meet(c, rewards, [slice(1, None)])
    return c.scaled(c.heads * others)


def inside_and_outside(c: Coins, rewards: Row, k: int) -> tuple[Row, Row]:
    """The parts of S_k from subsets with i and from subsets without i.

    Without i, either the best is below i, and so is all the rest; or it is above, coin i shows
    tails, and k others show heads.
    """
    with_i, without_i = meet(c, rewards, [slice(1, None), slice(None, -1)])
    best_below = before(best_shares(c, k) * rewards)
    return c.scaled(c.heads * with_i), c.scaled(c.tails * without_i + best_below)


def normalized(c: Coins, rewards: Row, k: int) -> Row:
    """d/dl_i of S_k(r) / S_k(1), the expected best of the heads, given that there are k.

    It is the chance that i is among them, times how much better the best is then. Measured from
    that expectation, a reward is what it adds, and the weights sum to 0.
    """
    shares = best_shares(c, k)
    chance = shares.sum(-1, keepdim=True)
    best = (shares * rewards).sum(-1, keepdim=True) / chance
    (others,) = meet(c, rewards - best, [slice(1, None)])
    return c.heads * others / chance


def meet(c: Coins, rewards: Row, parts: list[slice]) -> list[Row]:
    """For every sample, sum over the heads below it and above it of chance times best reward.

    `above` runs down from the best sample. Its entry m holds the expected best reward times the
    chance of k-m heads above sample i. For no heads above, its last entry, the best is i itself.
    Matched with m heads below, entries 1 ... k count k-1 heads beside i, and 0 ... k-1 count k.
    """
    heads, tails, own = flat(c.heads), flat(c.tails), flat(rewards * c.none_above)
    above = torch.zeros_like(pad(c.below[0], (0, 0, 0, 1)))
    above[-1] = own[-1]
    sums = [[(c.below[-1] * above[part]).sum(0)] for part in parts]
    for i in reversed(range(len(own) - 1)):
        last = above
        above = last * tails[i + 1]
        above[:-1].addcmul_(last[1:], heads[i + 1])
        above[-1] = own[i]
        for part, record in zip(parts, sums, strict=True):
            record.append((c.below[i] * above[part]).sum(0))
    return [torch.stack(record[::-1], -1).view(rewards.shape) for record in sums]


def marginal(c: Coins, rewards: Row, k: int) -> Row:
    """Sum over subsets with i of prod rho * (max - max without i): the `loo-1` weights, k >= 2.

    Only subsets whose best is i count. Those whose second best is t have the chance of t being
    the best of k-1 heads, with coin i turned from tails to heads.
    """
    best = best_shares(c, k) * rewards
    second = best_shares(c, k - 1) * rewards
    return c.scaled(best - c.odds * before(second))
