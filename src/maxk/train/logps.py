"""Log-probabilities of a batch: those of the policy that sampled, and what they say of the loss.

Both come from the same code, in the same dtype and padding: computed in two ways they would differ
by as much as the policy lag that is to be measured.
"""

from typing import Any

import torch
from torch import Tensor

START = "start_per_token_logps"  # of the policy that sampled, as the training model computes them
_FAR = 20.0  # a token's log-ratio beyond this is cut off, so that exp() of it is a number


def trained_mask(batch: dict[str, Any]) -> Tensor:
    """1 for the tokens that the policy wrote."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def log_ratio(batch: dict[str, Any], now: Tensor) -> Tensor:
    """log pi_now(y|x) - log pi_then(y|x) of whole completions: the sum over their tokens."""
    return ((now - batch[START]).float() * trained_mask(batch)).sum(dim=1)


def with_token_ratios(
    weights_BT: Tensor, now_BT: Tensor, sampled_BT: Tensor
) -> tuple[Tensor, Tensor]:
    """Advantages and old log-probabilities for TRL's loss, whose KL term has the token's ratio.

    TRL multiplies advantages by that ratio too, and a weight of maxk is not to be multiplied by
    one: so it is divided by it first. The gradient of the policy is weight times grad log pi.
    """
    change_BT = (now_BT - sampled_BT).float().clamp(-_FAR, _FAR)
    return weights_BT / change_BT.exp(), now_BT - change_BT


def vllm_factor(batch: dict[str, Any]) -> Tensor | None:
    """What TRL's correction for vLLM multiplies a completion's weight by; by token: their mean."""
    ratio = batch.get("importance_sampling_ratio")
    if ratio is None:
        return None
    if ratio.shape[1] == 1:
        return ratio[:, 0].float()
    mask = trained_mask(batch)
    return (ratio * mask).sum(1).float() / mask.sum(1).clamp(min=1)


def first_tolerance(dtype: torch.dtype) -> float:
    """How far from 0 log-ratios may be on average while the policy is still the one that sampled.

    Nats per completion. In bf16 two ways of computing the same differ by up to 0.15.
    """
    return 0.01 if dtype == torch.float32 else 0.15
