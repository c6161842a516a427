"""What the trainer logs of a batch beside TRL's own metrics: `maxk.store.schemas.METRICS`."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from maxk.estimators import max_at_k, subset_max

SHOWN_KS = (1, 2, 4, 8)


def shown_ks(k: int | None, n: int) -> list[int]:
    """The k whose max@k is logged of groups of n: powers of two, and the k that is trained."""
    return sorted({each for each in (*SHOWN_KS, k or 1) if each <= n})


def scored(rewards_PN: Tensor, k: int) -> list[Tensor]:
    """The rewards of each group that has k of them: the others are NaN."""
    rows = (row[~row.isnan()] for row in rewards_PN.double())
    return [row for row in rows if len(row) >= k]


def curve(rewards_PN: Tensor, k: int) -> list[float]:
    """max@k of each group in which at least k completions have a reward."""
    return [float(max_at_k(row, k)) for row in scored(rewards_PN, k)]


def group_metrics(
    rewards_PN: Tensor, weights_PN: Tensor, k: int | None, full_reward: float | None = None
) -> dict[str, float]:
    """max@k of the sampled groups, how many change nothing, and the size of the weights.

    A group counts as zero-variance if every weight in it is 0, and as all-correct if every k of its
    samples have the full reward among them: max@k has nothing left to gain. The size is what a KL
    term is weighed against. A reward of NaN is none.
    """
    n = rewards_PN.shape[-1]
    there = ~rewards_PN.isnan()
    out = {
        "groups/zero_variance": (weights_PN == 0).all(-1).float().mean().item(),
        "groups/unscored": (~there).any(-1).float().mean().item(),
        "weights/rms": weights_PN.double().square().mean().sqrt().item(),
    }
    curves = {each: curve(rewards_PN, each) for each in shown_ks(k, n)}
    out |= {f"max_at/{each}": sum(x) / len(x) for each, x in curves.items() if x}
    if full_reward is not None:
        short = (there & (rewards_PN < full_reward)).sum(-1)
        all_correct = (short < (k or 1)) & there.any(-1)
        out |= {"groups/all_correct": all_correct.float().mean().item()}
    return out


def evaluation_metrics(
    rewards_PN: Tensor, k: int | None, full_reward: float | None
) -> dict[str, list[float]]:
    """max@k of each group that was sampled for evaluation, and pass@k; per group, for a mean."""
    ks = shown_ks(k, rewards_PN.shape[-1])
    out = {f"max_at/{each}": curve(rewards_PN, each) for each in ks}
    if full_reward is None:
        return out
    passed_PN = (rewards_PN >= full_reward).double().where(~rewards_PN.isnan(), torch.nan)
    return out | {f"pass_at/{each}": curve(passed_PN, each) for each in ks}


def evaluation_means(noted: dict[str, list[float]], prefix: str) -> dict[str, float]:
    """What was noted of an evaluation's groups, as it is named beside its loss."""
    return {
        f"{prefix}_{name}": sum(values) / len(values)
        for name, values in noted.items()
        if values and name.startswith(("max_at/", "pass_at/"))
    }


def drop(noted: dict[str, list[float]], kind: str) -> None:
    """Forget the metrics whose names begin so."""
    for name in [each for each in noted if each.startswith(kind)]:
        del noted[name]


def unique_share(ids: Sequence[int], n: int) -> float:
    """How many completions of a group are different, as a share of n, on average over groups."""
    groups = [ids[i : i + n] for i in range(0, len(ids), n)]
    return sum(len(set(group)) for group in groups) / max(len(ids), 1)


def effective_share(log_ratios_PN: Tensor, k: int) -> Tensor:
    """Effective number of k-subsets as a share of all: (sum W)^2 / (C(n,k) sum W^2), W = prod rho.

    Per group; 1 without policy lag, 1/C(n,k) when one subset has all the weight.

    >>> effective_share(torch.zeros(2, 8), 4).tolist()
    [[1.0], [1.0]]
    """
    shifted = (log_ratios_PN - log_ratios_PN.amax(-1, keepdim=True)).double()  # W up to a factor
    ones = torch.ones_like(shifted)
    first, second = (subset_max(ones, order * shifted, k)[..., None] for order in (1, 2))
    least = 1 / math.comb(log_ratios_PN.shape[-1], k)
    share = torch.where(second > 0, first**2 / second.clamp(min=1e-300), least)
    return share.clamp(least, 1.0)
