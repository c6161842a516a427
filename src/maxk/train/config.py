"""TRL's GRPO configuration and what max@k adds to it."""

from dataclasses import dataclass, field, fields
from typing import Any

from trl.trainer.grpo_config import GRPOConfig

from maxk.estimators.settings import FACTS, K_SWITCH, K, MethodSettings
from maxk.train.fields import (
    ratios,
    refuse_idle,
    refuse_loss_type,
    refuse_neftune,
    refuse_warped,
)


@dataclass
class MaxKConfig(GRPOConfig):
    """`trl.GRPOConfig` with the settings of a method, `maxk.estimators.MethodSettings`.

    Everything else is TRL's, but for one default: loss_type is "dr_grpo", which sums over the
    tokens of a completion. The weights of max@k belong to whole completions; a mean over tokens
    would weigh a long one less. mask_truncated_completions removes the tokens of a truncated
    completion; its reward stays in the group.

    A setting that would do nothing is refused: docs/reference/trainer-settings.md.
    """

    method: str = field(
        default=MethodSettings.method,
        metadata={"help": f"How rewards become advantages: {', '.join(FACTS)}."},
    )
    k: int | None = field(
        default=MethodSettings.k,
        metadata={"help": f"The k of max@k. None: {K} where the method has one."},
    )
    k_schedule: str = field(
        default=MethodSettings.k_schedule,
        metadata={"help": "How k changes over the optimiser steps: constant, linear or step."},
    )
    k_end: int | None = field(
        default=MethodSettings.k_end,
        metadata={"help": "The k at the end, for k_schedule linear and step."},
    )
    k_switch: float | None = field(
        default=MethodSettings.k_switch,
        metadata={
            "help": "For k_schedule step: the share of all steps after which k is k_end. None: "
            f"{K_SWITCH}."
        },
    )
    clamp_delta: float | None = field(
        default=MethodSettings.clamp_delta,
        metadata={
            "help": "Bound on |rho - 1| of the off-policy methods. None: the method's default, "
            f"{FACTS[MethodSettings.method].clamp_delta}; inf: no clamp."
        },
    )
    masking: str | None = field(
        default=MethodSettings.masking,
        metadata={
            "help": "Off-policy: what a step leaves out because its ratio has left 1 - epsilon to "
            "1 + epsilon_high the way it is pushed: whole completions ('sequence'), single tokens "
            "('token') or nothing ('none'). None: the method's default, "
            f"{FACTS[MethodSettings.method].masking!r}."
        },
    )
    skip_zero_variance: bool = field(
        default=False,
        metadata={
            "help": "Leave completions that cannot change the policy out of the loss's forward "
            "pass: those of weight 0 or, off-policy, of groups with equal rewards. The gradient is "
            "the same; entropy, policy lag and clipping are logged for the others alone."
        },
    )
    pack_prompts: bool = field(
        default=False,
        metadata={
            "help": "Read the prompt of a group once in a pass of the model, and little padding. "
            "Micro-batches have whole groups if they can. For attn_implementation 'sdpa' or "
            "'eager'."
        },
    )
    full_reward: float | None = field(
        default=None,
        metadata={
            "help": "The reward of a solved problem, for the metrics groups/all_correct and "
            "pass_at/K. None: what the reward functions state as their `full_reward`; without it "
            "neither is logged."
        },
    )
    loss_type: str = field(default="dr_grpo", metadata={"help": "See trl.GRPOConfig."})

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.method_settings
        settings.check(self.num_generations or 0)
        refuse_loss_type(self)
        refuse_idle(self)
        refuse_warped(self)
        refuse_neftune(self)
        self.k, self.k_switch = settings.k, settings.k_switch  # what is in force
        if ratios(self):
            self.clamp_delta, self.masking = settings.clamp_delta, settings.masking
        if self.skip_zero_variance:
            self._check_skipping()

    @property
    def method_settings(self) -> MethodSettings:
        given: dict[str, Any] = {
            each.name: getattr(self, each.name) for each in fields(MethodSettings)
        }
        return MethodSettings(**given)

    def _check_skipping(self) -> None:
        """A weight of 0 means no gradient only where nothing is added to the weighted loss."""
        needed = {"beta": 0.0, "top_entropy_quantile": 1.0, "entropy_coef": 0.0}
        needed |= {"use_adaptive_entropy": False, "use_liger_kernel": False}
        for name, value in needed.items():
            if getattr(self, name, value) != value:
                raise ValueError(
                    f"skip_zero_variance=True with {name}={getattr(self, name)}: completions of "
                    f"weight 0 have a gradient then; use {name}={value} or skip_zero_variance=False"
                )
        if self.loss_type not in ("dr_grpo", "grpo"):
            raise ValueError(
                f"skip_zero_variance=True with loss_type={self.loss_type!r}, which is not a mean "
                "over completions; use 'dr_grpo' or 'grpo'"
            )
