"""TRL's GRPO trainer with the advantages of max@k.

TRL computes advantages inside `_generate_and_score_completions`; here they are replaced after it.
The off-policy methods need the ratio of every sample of a group to the policy that sampled it, and
need it before each optimiser step. TRL spreads a group over micro-batches and processes. So one
pass without gradients is made then over all buffered micro-batches, the ratios are gathered, and
the weights are written back to where TRL reads its advantages. The ratio is part of these weights,
so TRL's own is made 1 by taking `old_per_token_logps` away: its gradient is then weight times grad
log pi.
"""

from typing import Any, cast

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators import METHODS, advantages, trust_region
from maxk.train.config import MaxKConfig

_START = "start_per_token_logps"  # of the policy that sampled, as the training model computes them


class MaxKTrainer(GRPOTrainer):
    """`trl.GRPOTrainer` for Best-of-N; takes a `MaxKConfig`."""

    _name = "MaxK"
    args: MaxKConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.args, MaxKConfig):
            raise ValueError(f"args is a {type(self.args).__name__}; use a MaxKConfig")
        self._method = METHODS[self.args.method]
        self._rewards_per_func: Tensor | None = None
        self._rewards_PN: Tensor | None = None  # of all processes, as they were generated
        self._weighed_at = -1  # the optimiser step that the weights in the buffer are for

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        rewards = super()._calculate_rewards(*args, **kwargs)
        self._rewards_per_func = rewards
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        if not self._training():
            return output
        self._rewards_PN = self._group_rewards()
        weights = self._weights(None).flatten()
        count = len(output["advantages"])
        first = self.accelerator.process_index * count
        output["row"] = torch.arange(first, first + count, device=weights.device)
        output["advantages"] = weights[output["row"]].to(output["advantages"].dtype)
        if self._method.off_policy:
            self._weighed_at = self.state.global_step
            if "old_per_token_logps" in output:
                output[_START] = output.pop("old_per_token_logps")
        self._show_advantages(weights)
        return output

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        inputs = super()._prepare_inputs(generation_batch)
        stale = self._weighed_at != self.state.global_step
        if self._training() and self._method.off_policy and stale:
            self._weighed_at = self.state.global_step
            self._weigh_again()
        return inputs

    def _training(self) -> bool:
        return self.model is not None and self.model.training

    def _gathered(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.accelerator.gather(values))

    def _group_rewards(self) -> Tensor:
        """The rewards of all processes, a row per prompt."""
        assert self._rewards_per_func is not None
        if torch.isnan(self._rewards_per_func).all(dim=1).any():
            raise ValueError(
                "a completion has no reward (None from every reward function); max@k compares all "
                "completions of a prompt, so give it a number, such as 0"
            )
        per_func = self._rewards_per_func * self.reward_weights.to(self._rewards_per_func.device)
        return per_func.nansum(dim=1).view(-1, cast(int, self.num_generations))

    def _weights(self, log_ratios_PN: Tensor | None) -> Tensor:
        """The advantages of the method for the groups at hand."""
        assert self._rewards_PN is not None
        k = self.args.k if self._method.uses_k else None
        if not self._method.off_policy:
            return advantages(self.args.method, self._rewards_PN, k)
        bound = self.args.clamp_delta
        out = advantages(self.args.method, self._rewards_PN, k, log_ratios_PN, clamp_delta=bound)
        if self.args.trust_region and log_ratios_PN is not None:
            out = trust_region(out, log_ratios_PN, self.args.epsilon)
        return out

    @torch.no_grad()
    def _weigh_again(self) -> None:
        """Weights for the policy as it is now, written into every buffered micro-batch."""
        batches = self._buffered_inputs
        assert batches is not None
        assert self._rewards_PN is not None
        rows = torch.cat([batch["row"] for batch in batches])
        ratios = torch.cat([self._log_ratios(batch) for batch in batches])
        rows, ratios = self._gathered(rows), self._gathered(ratios)
        log_ratios = torch.empty_like(ratios)
        log_ratios[rows] = ratios
        weights = self._weights(log_ratios.view_as(self._rewards_PN)).flatten()
        for batch in batches:
            batch["advantages"] = weights[batch["row"]].to(batch["advantages"].dtype)

    def _log_ratios(self, batch: dict[str, Any]) -> Tensor:
        """log pi_now(y|x) - log pi_then(y|x) of whole completions: the sum over their tokens.

        Both come from the same code, in the same dtype and padding: computed in two ways they would
        differ by as much as the drift that is to be measured.
        """
        mask = batch["completion_mask"]
        if "tool_mask" in batch:
            mask = mask * batch["tool_mask"]
        now = self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
        )[0]
        return ((now - batch[_START]).float() * mask).sum(dim=1)

    def _show_advantages(self, weights: Tensor) -> None:
        """TRL has logged its own advantages; put ours in their place."""
        shown = self._logs.get("advantages")
        if shown is not None:
            count = min(len(weights), len(shown))
            for i, weight in enumerate(weights[len(weights) - count :].tolist()):
                shown[len(shown) - count + i] = weight
