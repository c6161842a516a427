"""Other weights than the last, as the model that comes out of a training.

Their mean over its later part: Adam's steps are of one length, however much of a gradient is noise,
so weights wander about the path that they are on. Their mean wanders less (Polyak and Juditsky,
1992), and is not as far from the model it began with, which is what narrows a policy.

Or a point on the line to that model (Wortsman et al., 2022, for robustness to other data; Dang et
al., 2025, for pass@k): what nothing rewarded is a small change of each weight and shrinks with it,
while there may be more left of what was learned.
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


class KeepStart(TrainerCallback):
    """Puts a share of the weights that the training began with into what comes out of it.

    model: as it begins, before a checkpoint is loaded. Add it after AverageWeights, whose mean it
    then takes for what was trained.
    """

    def __init__(self, model: Any, share: float) -> None:
        self.share = share
        self.start = {name: weight.detach().to("cpu", copy=True) for name, weight in trained(model)}

    @torch.no_grad()
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= state.max_steps:
            for name, weight in trained(kwargs["model"]):
                start = self.start[name].to(weight.device, torch.float32)
                weight.copy_(weight.float().lerp_(start, self.share))


def trained(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights that a training changes: all, or those of adapters."""
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            yield name, weight
