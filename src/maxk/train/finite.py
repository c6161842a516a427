"""Gradients that are numbers.

With one that is not, an optimiser makes all weights NaN, and a training goes on without an error:
completions become noise and rewards 0.
"""

from typing import Any

import torch


def without_cudnn() -> None:
    """Attention by torch's other kernels, in this process.

    On Hopper GPUs torch 2.11 and later prefer cuDNN's, whose gradient is NaN for rows with a mask
    whose length is 64 more than a multiple of 128, if a head's scores are all far below 0:
    https://github.com/pytorch/pytorch/issues/196678. Qwen2.5 has such heads. vLLM turns it off when
    it is imported, so that a training with vLLM never has it.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def refuse_infinite(model: torch.nn.Module, step: int) -> None:
    """Before the optimiser's step with this number: an error if a gradient is not finite."""
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }  # none with DeepSpeed, which keeps its own
    if _whole(torch.nn.utils.get_total_norm(list(gradients.values()))).isfinite():
        return
    names = [name for name, each in gradients.items() if not _whole(each.isfinite().all())]
    if not names:  # large, but numbers
        return
    raise RuntimeError(
        f"the gradient of step {step} is not finite, for {len(names)} of {len(gradients)} weights, "
        f"{names[0]!r} among them; the step was not made, and the training can go on from its last "
        "checkpoint"
    )


def _whole(tensor: Any) -> torch.Tensor:
    """A tensor that FSDP has spread over processes, on each of them."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
