"""What the trainer logs of a batch beside TRL's own metrics: `maxk.store.schemas.METRICS`."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from maxk.estimators import max_at_k, subset_max

SHOWN_KS = (1, 2, 4, 8)
FULL_REWARD = 1.0  # all unit tests passed


def group_metrics(rewards_PN: Tensor, weights_PN: Tensor, k: int | None) -> dict[str, float]:
    """max@k of the sampled groups, how many change nothing, and the size of the weights.

    A group counts as zero-variance if every weight in it is 0, and as all-correct if every k of its
    samples have the full reward among them: max@k has nothing left to gain. The size is what a KL
    term is weighed against.
    """
    n = rewards_PN.shape[-1]
    ks = [k for k in SHOWN_KS if k <= n]
    curve = max_at_k(rewards_PN.double(), ks).mean(dim=0)
    full = (rewards_PN >= FULL_REWARD).sum(-1)
    return {
        **{f"max_at/{k}": value for k, value in zip(ks, curve.tolist(), strict=True)},
        "groups/zero_variance": (weights_PN == 0).all(-1).float().mean().item(),
        "groups/all_correct": (full > n - (k or 1)).float().mean().item(),
        "weights/rms": weights_PN.double().square().mean().sqrt().item(),
    }


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
