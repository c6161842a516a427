"""Tensor arguments checked once, at the public functions, with errors that name the fix.

Checks on values need the numbers on the host. They are left out while torch.compile traces,
where a branch on data would cut the graph; checks on shapes always run.
"""

from typing import Any

import torch
from torch import Tensor


def check_rewards(rewards: Any) -> Tensor:
    """Rewards [..., n] as float64, or ValueError if they are no finite real numbers."""
    if not isinstance(rewards, Tensor):
        raise ValueError(
            f"rewards is a {type(rewards).__name__}; pass a torch tensor of shape [..., n], for "
            "example torch.as_tensor(rewards)"
        )
    if rewards.ndim == 0 or rewards.shape[-1] == 0:
        raise ValueError(
            f"rewards has shape {tuple(rewards.shape)}; the last axis must hold the n >= 1 samples "
            "of a prompt"
        )
    if rewards.is_complex():
        raise ValueError(f"rewards has dtype {rewards.dtype}; rewards must be real numbers")
    check_finite(
        "rewards", rewards, "score a sample that could not be judged 0, or drop its prompt"
    )
    return rewards.double()


def check_log_ratios(log_ratios: Any, rewards: Tensor) -> Tensor:
    """Log-ratios as float64, or ValueError if they do not match the rewards one to one."""
    if not isinstance(log_ratios, Tensor):
        raise ValueError(f"log_ratios is a {type(log_ratios).__name__}; pass a torch tensor")
    if log_ratios.shape != rewards.shape:
        raise ValueError(
            f"log_ratios has shape {tuple(log_ratios.shape)} and rewards {tuple(rewards.shape)}; "
            "they must be equal: one number per completion, the sum of its tokens' log-ratios"
        )
    if not log_ratios.is_floating_point():
        raise ValueError(f"log_ratios has dtype {log_ratios.dtype}; pass floating-point numbers")
    check_finite("log_ratios", log_ratios, "mask padding tokens before summing over a completion")
    return log_ratios.double()


def check_finite(name: str, x: Tensor, fix: str) -> None:
    """ValueError with the first bad position unless every entry is finite."""
    if torch.compiler.is_compiling() or not x.is_floating_point() or bool(x.isfinite().all()):
        return
    where = tuple((~x.isfinite()).nonzero()[0].tolist())
    raise ValueError(f"{name}{list(where)} is {x[where].item()}; every entry must be finite: {fix}")


def result_dtype(*tensors: Tensor | None) -> torch.dtype:
    """The floating dtype a result is returned in: the inputs', or torch's default for integers."""
    dtypes = [x.dtype for x in tensors if x is not None and x.is_floating_point()]
    if not dtypes:
        return torch.get_default_dtype()
    dtype = dtypes[0]
    for other in dtypes[1:]:
        dtype = torch.promote_types(dtype, other)
    return dtype
