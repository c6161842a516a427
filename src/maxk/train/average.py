"""The mean of the weights over the later part of a training, as the model that comes out of it.

Adam's steps are of one length, however much of a gradient is noise, so weights wander about the
path that they are on. Their mean wanders less (Polyak and Juditsky, 1992), and is not as far from
the model it began with, which is what narrows a policy.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback


class AverageWeights(TrainerCallback):
    """Keeps the mean of the trained weights, in float32 beside them, and puts it in at the end.

    share: of all steps, those before the first that counts. What samples during the training has
    the weights as they are, and so have checkpoints, which keep the mean beside them.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.count = 0
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step <= self.share * state.max_steps:
            return
        self.count += 1
        for name, weight in trained(kwargs["model"]):
            mean = self.means.get(name)
            if mean is None:
                self.means[name] = weight.to(torch.float32, copy=True)
            else:  # on the CPU after a checkpoint
                self.means[name] = mean.to(weight.device).lerp_(weight.float(), 1 / self.count)

    @torch.no_grad()
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.count and state.global_step >= state.max_steps:
            for name, weight in trained(kwargs["model"]):
                weight.copy_(self.means[name])

    def kept(self) -> dict[str, Any]:
        """What a checkpoint needs to hold."""
        return {"count": self.count, "means": self.means}

    def restore(self, kept: dict[str, Any]) -> None:
        self.count, self.means = kept["count"], kept["means"]


def trained(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights that a training changes: all, or those of adapters."""
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            yield name, weight
