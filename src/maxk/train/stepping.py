"""The weights of `maxk.train.weighing` put where TRL's loss reads them, update by update.

TRL spreads a group over micro-batches and processes, and an off-policy weight needs the ratios of
the whole group before each optimiser step. So one pass without gradients (the pre-pass) is made
then over all buffered micro-batches, the ratios are gathered, and the weights are written back.
Where micro-batches hold whole groups, the weights come from the forward pass of the loss itself.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from maxk.train.logps import START, log_ratio, trained_mask, vllm_factor, with_token_ratios
from maxk.train.plan import Plan, refuse_images
from maxk.train.recorder import Recorder
from maxk.train.weighing import Columns, Weighing

Batch = dict[str, Any]  # a micro-batch as TRL buffers it: tensors with a row per completion


class Stepping:
    """One process's part in the updates on a batch.

    gathered: a tensor of this process to that of all.
    """

    def __init__(
        self,
        plan: Plan,
        weighing: Weighing,
        recorder: Recorder,
        gathered: Callable[[Tensor], Tensor],
    ) -> None:
        self.plan, self.weighing, self.recorder = plan, weighing, recorder
        self._gathered = gathered
        self._warned = False  # of ratios that are not 1 where the policy has not moved

    def begin(
        self, output: Batch, rows: Tensor, rewards_PN: Tensor, step: int, k: int | None
    ) -> Tensor:
        """Weigh a batch that was sampled at an optimiser step; rows: this process's part of it."""
        refuse_images(self.plan.method, "pixel_values" in output)
        kept_PN, factors_PN = rewards_PN, torch.ones_like(rewards_PN)
        if (factor := vllm_factor(output)) is not None:
            factors_PN = self._gathered(factor).view_as(rewards_PN)
            self.recorder.note("ratio/vllm_masked", (factors_PN == 0).float().mean())
            # What TRL will leave out is no sample: its group mates are weighed without it.
            kept_PN = rewards_PN.masked_fill(factors_PN == 0, torch.nan)
        self.weighing.begin(kept_PN, step, k)
        weights_PN = self.weighing.columns()["advantages"]
        output["row"] = rows
        output["log_ratio"] = torch.zeros(len(rows), device=rows.device)
        if "old_per_token_logps" in output:
            take = output.pop if self.weighing.off_policy else output.get
            output[START] = take("old_per_token_logps")
        full = self.plan.full_reward
        self.recorder.begin_batch(rewards_PN, weights_PN * factors_PN, step, k, full)
        return weights_PN

    @torch.no_grad()
    def before_update(
        self, batches: list[Batch], step: int, k: int | None, logps: Callable[[Batch], Tensor]
    ) -> None:
        """Write the weights for the policy as it is now into every micro-batch, if they changed.

        logps: log-probabilities of the tokens of a micro-batch under that policy.
        """
        if not self.weighing.go_on(step, k):
            return
        if not self.weighing.off_policy:
            write(batches, self.weighing.columns())
        elif not self.plan.in_loss:
            with self.recorder.timed("pre-pass"):
                for batch in batches:
                    batch["log_ratio"] = log_ratio(batch, logps(batch))
                rows = self._gathered(torch.cat([batch["row"] for batch in batches]))
                ratios = self._gathered(torch.cat([batch["log_ratio"] for batch in batches]))
                log_ratios = torch.empty_like(ratios)
                log_ratios[rows] = ratios
                log_ratios_PN = log_ratios.view(-1, self.plan.n)
                write(batches, self.weighing.columns(log_ratios_PN))

    @torch.no_grad()
    def set_weights(self, batch: Batch, now: Tensor, step: int) -> None:
        """Set what TRL's loss will read, of a micro-batch whose forward pass was just made."""
        batch["log_ratio"] = log_ratio(batch, now)
        if self.weighing.sampled_at == step:
            self._warn_of_noise(batch["log_ratio"].abs().mean().item())
        elif self.plan.in_loss:
            groups = batch["row"].view(-1, self.plan.n)[:, 0] // self.plan.n
            columns = self.weighing.columns(batch["log_ratio"].view(-1, self.plan.n), groups)
            batch.update({name: values.flatten().float() for name, values in columns.items()})
        if not self.weighing.off_policy:
            return
        batch["weights"] = weights = batch["advantages"]
        tokens = self.weighing.by_token(weights, now, batch[START])
        if self.plan.method.masking == "token":
            mask = trained_mask(batch)
            gone = (tokens != weights[:, None]) * mask
            batch["masked_tokens"] = gone.sum(1).float() / mask.sum(1).clamp(min=1)
            batch["advantages"] = tokens
        if self.plan.kl_ratios:
            changed = with_token_ratios(tokens, now, batch[START])
            batch["advantages"], batch["old_per_token_logps"] = changed

    def rows_with_gradient(self, batch: Batch) -> Tensor | None:
        """The rows of a micro-batch that can change the policy; None if these are all.

        One group, or one row, is always kept: every process has a forward pass to make.
        """
        keep = self.weighing.has_gradient(batch["row"], batch["advantages"])
        if not keep.any():
            keep[: self.plan.n if self.plan.in_loss else 1] = True
        # TRL gathers by row, so all processes keep as many.
        most = int(self._gathered(keep.sum().view(1)).max())
        dropped = (~keep).nonzero()[:, 0]  # where groups must stay whole, they lie together
        keep[dropped[: most - int(keep.sum())]] = True
        return None if keep.all() else keep.nonzero()[:, 0]

    def _warn_of_noise(self, found: float) -> None:
        if found > self.plan.tolerance and not self._warned:
            self._warned = True
            warnings.warn(
                f"before the first update on a batch log-ratios are {found:.2g} nats a completion "
                "on average, where they should be 0: two passes of the model differ, and ratios "
                "are noise; look for dropout, or for kernels whose result depends on the batch",
                stacklevel=2,
            )


def write(batches: list[Batch], columns: Columns) -> None:
    """Put what belongs to each completion beside it."""
    for batch in batches:
        for name, values_PN in columns.items():
            batch[name] = values_PN.flatten()[batch["row"]].float()
