"""Where the weights of a training are made: of a batch's rewards and, off-policy, of its ratios.

A batch of completions has its rewards once and weights for every optimiser step made on it. The
weights of an on-policy method change within a batch only where k does. Those of an off-policy
method contain the ratio of each completion to the policy that sampled it, and so change with every
step.
"""

from typing import Any

import torch
from torch import Tensor

from maxk.estimators import MethodSettings, advantages, mask_sequences
from maxk.estimators.clipping import moved
from maxk.estimators.groups import fewest
from maxk.train.metrics import effective_share

Columns = dict[str, Tensor]  # of prompts x samples


def group_weights(
    method: str,
    rewards_PN: Tensor,
    k: int | None,
    log_ratios_PN: Tensor | None = None,
    clamp_delta: float | None = None,
) -> Tensor:
    """`maxk.estimators.advantages`, of groups from which some are missing: their reward is NaN."""

    def weighed(rewards: Tensor, log_ratios: Tensor | None) -> Tensor:
        if log_ratios is None:
            return advantages(method, rewards, k, log_ratios=0)
        return advantages(method, rewards, k, log_ratios, clamp_delta=clamp_delta)

    there_PN = ~rewards_PN.isnan()
    whole_P = there_PN.all(-1)
    if whole_P.all():
        return weighed(rewards_PN, log_ratios_PN)
    out = torch.zeros_like(rewards_PN)
    for group in range(len(rewards_PN)):
        there = there_PN[group]
        if int(there.sum()) >= fewest(method, k):
            ratios = None if log_ratios_PN is None else log_ratios_PN[group][None, there]
            weights = weighed(rewards_PN[group][None, there], ratios)
            out[group, there] = weights[0].to(out.dtype)
    return out


class Weighing:
    """The weights of one batch after another.

    settings: of the method. epsilon, epsilon_high: how far a ratio may go below and above 1 before
    masking drops what goes further (epsilon_high None: epsilon).

    A reward of NaN says that a completion is not in its group: nothing has scored it, or the
    sampler's correction has masked it. The others are weighed as the smaller group that they are,
    if enough of them remain for the method; else all have weight 0.
    """

    def __init__(
        self, settings: MethodSettings, epsilon: float, epsilon_high: float | None = None
    ) -> None:
        self.settings, self.off_policy = settings, settings.facts.off_policy
        self.epsilon = epsilon
        self.epsilon_high = epsilon if epsilon_high is None else epsilon_high
        self.rewards_PN: Tensor | None = None  # of all processes, in the order of generation
        self.sampled_at = -1  # the optimiser step at which the batch was sampled
        self.step = -1  # the optimiser step that its weights are for
        self.k: int | None = None  # and the k of that step

    def begin(self, rewards_PN: Tensor, step: int, k: int | None) -> None:
        """A batch was sampled at an optimiser step."""
        self.rewards_PN, self.sampled_at = rewards_PN, step
        self.step, self.k = step, k

    def go_on(self, step: int, k: int | None) -> bool:
        """Another optimiser step on the batch; whether its weights are others than before."""
        if step == self.step:
            return False
        changed = self.off_policy or k != self.k
        self.step, self.k = step, k
        return changed

    def columns(
        self, log_ratios_PN: Tensor | None = None, groups_P: Tensor | None = None
    ) -> Columns:
        """The weights of all groups of the batch or of some, and what was done to get them.

        log_ratios_PN: log pi(y|x) now less when it was sampled; None where the two are the same. Of
        on-policy methods there is nothing but `advantages`. Of the others `clamped` and `masked`
        are 1 where that happened to a completion, and `effective` is the effective share of subsets
        in its group.
        """
        assert self.rewards_PN is not None, "no batch was begun"
        rewards_PN = self.rewards_PN if groups_P is None else self.rewards_PN[groups_P]
        method = self.settings.method
        if log_ratios_PN is None or not self.off_policy:
            return {"advantages": group_weights(method, rewards_PN, self.k)}
        clamp = self.settings.clamp_delta
        assert clamp is not None, "an off-policy method has a default"
        free = group_weights(method, rewards_PN, self.k, log_ratios_PN, clamp)
        kept = free
        if self.settings.masking == "sequence":
            kept = mask_sequences(free, log_ratios_PN, self.epsilon, self.epsilon_high)
        return {
            "advantages": kept,
            "clamped": (log_ratios_PN.expm1().abs() > clamp).float(),
            "masked": ((kept == 0) & (free != 0)).float(),
            "effective": effective_share(log_ratios_PN, self.k or 1)
            .where(~rewards_PN.isnan().any(-1, keepdim=True), torch.nan)
            .expand_as(kept)
            .float(),
        }

    def by_token(self, weights_B: Tensor, now_BT: Tensor, sampled_BT: Tensor) -> Tensor:
        """The weight of each token: that of its completion, or 0 where tokens are masked."""
        weights_BT = weights_B[:, None].expand_as(now_BT)
        if self.settings.masking != "token":
            return weights_BT
        log_ratios_BT = (now_BT - sampled_BT).float()
        gone = moved(weights_BT, log_ratios_BT, self.epsilon, self.epsilon_high)
        return weights_BT.masked_fill(gone, 0.0)

    def has_gradient(self, rows_B: Tensor, advantages_B: Tensor) -> Tensor:
        """Which completions can change the policy at this step.

        rows_B: their places in the batch. Off-policy the weights may come with the pass of the
        loss, so there it is whole groups: those with unequal rewards.
        """
        if not self.off_policy:
            return advantages_B != 0
        assert self.rewards_PN is not None, "no batch was begun"
        there = ~self.rewards_PN.isnan()
        highest = self.rewards_PN.where(there, -torch.inf).amax(-1, keepdim=True)
        lowest = self.rewards_PN.where(there, torch.inf).amin(-1, keepdim=True)
        unequal_P1 = highest > lowest
        return unequal_P1.expand_as(self.rewards_PN).flatten()[rows_B]

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs, to go on in the middle of a batch."""
        return {
            "rewards": self.rewards_PN,
            "sampled_at": self.sampled_at,
            "step": self.step,
            "k": self.k,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.rewards_PN, self.sampled_at = state["rewards"], state["sampled_at"]
        self.step, self.k = state["step"], state["k"]
