"""Cells whose sampler is some updates old, as in an asynchronous run: lag16-NAME, 16 updates.

Weights of the model are kept as they were after earlier updates. To sample a batch, those of so
many updates ago take the model's place, and with them the log-probabilities are made that ratios
are to. In the first updates the sampler is the base model.
"""

import re
from typing import Any, cast

import torch
from transformers import TrainerCallback

from maxk.train import MaxKTrainer

Weights = list[torch.Tensor]


def lag_of(cell: str) -> int:
    """How many updates old a cell's sampler is.

    >>> lag_of("lag16-grpo"), lag_of("leetcode-grpo")
    (16, 0)
    """
    found = re.match(r"lag(\d+)-", cell)
    return int(found[1]) if found else 0


class LaggedTrainer(MaxKTrainer):
    """Samples each batch with the weights of `lag` updates ago."""

    lag: int
    kept: dict[int, Weights]  # the weights after so many updates, of those that will sample

    def sampler_step(self) -> int:
        """After how many updates the weights were that are to sample now."""
        return max(self.state.global_step - self.lag, 0)

    def keep(self) -> None:
        """Keep the weights if a batch will be sampled with them, and forget older ones."""
        step, every = self.state.global_step, cast(int, self.args.num_iterations)
        if step == 0 or (step + self.lag) % every == 0:
            self.kept[step] = [p.detach().clone() for p in self.parameters()]
        self.kept = {s: w for s, w in self.kept.items() if s >= self.sampler_step()}

    def parameters(self) -> Weights:
        model: Any = self.accelerator.unwrap_model(self.model)
        return list(model.parameters())

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        if not self._training():
            return super()._generate_and_score_completions(inputs)
        if self.sampler_step() not in self.kept:
            raise ValueError(
                f"the weights after {self.sampler_step()} updates are not there; a run with a "
                "lagging sampler cannot be resumed, so start it again"
            )
        now = [p.detach().clone() for p in self.parameters()]
        put(self.kept[self.sampler_step()], self.parameters())
        try:
            output = super()._generate_and_score_completions(inputs)
        finally:
            put(now, self.parameters())
        # The policy has moved already, so even the first update on the batch has ratios.
        self.weighing.sampled_at = self.weighing.step = -1
        return output


@torch.no_grad()
def put(weights: Weights, into: Weights) -> None:
    for new, parameter in zip(weights, into, strict=True):
        parameter.copy_(new)


class Keep(TrainerCallback):
    """Keeps the weights at the start and after every update."""

    def __init__(self, trainer: LaggedTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            self.trainer.keep()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.trainer.keep()


def lagging(trainer: MaxKTrainer, lag: int) -> None:
    """Make a trainer sample with weights that are `lag` updates old."""
    if trainer.args.num_iterations == 1:
        raise ValueError(
            "num_iterations=1 lets TRL make no log-probabilities to compare with; use 2 or more"
        )
    if trainer.args.beta:
        raise ValueError(
            f"a KL term is not tried with a lag; set beta=0 (it is {trainer.args.beta})"
        )
    trainer.__class__ = LaggedTrainer
    lagged = cast(LaggedTrainer, trainer)
    lagged.lag, lagged.kept = lag, {}
    lagged.add_callback(Keep(lagged))
