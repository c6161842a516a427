"""TRL's GRPO configuration and what max@k adds to it."""

from dataclasses import dataclass, field
from typing import cast

from trl.trainer.grpo_config import GRPOConfig

from maxk.estimators import METHODS
from maxk.train.schedule import SCHEDULES, Schedule, k_at

CLAMP_DELTA = 0.5  # docs/decisions.md
REGIONS = ("completion", "token", "none")
CLIPPED = ("dr_grpo", "grpo", "bnpo", "dapo")  # the loss types that have PPO's clipping


@dataclass
class MaxKConfig(GRPOConfig):
    """`trl.GRPOConfig` with a method, its k, and the bounds of the off-policy methods.

    Everything else is TRL's, but for one default: loss_type is "dr_grpo", which sums over the
    tokens of a completion. The weights of max@k belong to whole completions; a mean over tokens
    would weigh a long one less.
    """

    method: str = field(
        default="off-policy-exact",
        metadata={"help": f"How rewards become advantages: {', '.join(METHODS)}."},
    )
    k: int = field(default=4, metadata={"help": "The k of max@k, below num_generations."})
    k_schedule: str = field(
        default="constant",
        metadata={"help": "How k changes over the optimiser steps: constant, linear or step."},
    )
    k_end: int | None = field(
        default=None, metadata={"help": "The k at the end, for k_schedule linear and step."}
    )
    k_switch: float = field(
        default=0.5,
        metadata={"help": "For k_schedule step: the share of all steps after which k is k_end."},
    )
    clamp_delta: float | None = field(
        default=None,
        metadata={
            "help": f"Bound on |rho - 1| of the off-policy methods; None: {CLAMP_DELTA}, inf: none."
        },
    )
    trust_region: str = field(
        default="completion",
        metadata={
            "help": "Off-policy: what has moved by epsilon the way it is pushed is dropped from "
            "the step: whole completions ('completion'), single tokens ('token') or 'none'."
        },
    )
    skip_silent: bool = field(
        default=False,
        metadata={
            "help": "Leave completions that cannot change the policy out of the loss's forward "
            "pass: those of weight 0 or, off-policy, of groups with equal rewards. The gradient is "
            "the same; entropy, drift and clipping are logged for the others alone."
        },
    )
    share_prompts: bool = field(
        default=False,
        metadata={
            "help": "Read the prompt of a group once in a pass of the model, and little padding. "
            "Micro-batches have whole groups if they can. For attn_implementation 'sdpa' or "
            "'eager'."
        },
    )
    average_from: float | None = field(
        default=None,
        metadata={
            "help": "The trained model is the mean of the weights after all steps beyond this "
            "share of them, as 0.5; None: the last weights. Costs a copy of the weights in float32."
        },
    )
    keep_start: float = field(
        default=0.0,
        metadata={
            "help": "The trained model keeps this share of the weights that it began with: it is a "
            "point on the line between the two, as with 0.3. Costs a copy of the weights, on the "
            "CPU."
        },
    )
    loss_type: str = field(default="dr_grpo", metadata={"help": "See trl.GRPOConfig."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is unknown; use one of {', '.join(METHODS)}")
        method = METHODS[self.method]
        if method.uses_k:
            self._check_k("k", self.k)
        if self.k_schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise ValueError(f"k_schedule={self.k_schedule!r} is unknown; use one of {known}")
        if self.k_schedule != "constant":
            if not method.uses_k:
                raise ValueError(
                    f"k_schedule={self.k_schedule!r}, but method={self.method!r} has no k"
                )
            if self.k_end is None:
                raise ValueError(f"k_end=None; k_schedule={self.k_schedule!r} needs the last k")
            self._check_k("k_end", self.k_end)
        elif self.k_end is not None:
            raise ValueError(
                f"k_end={self.k_end} with k_schedule='constant'; use 'linear' or 'step'"
            )
        if not 0 <= self.k_switch <= 1:
            raise ValueError(f"k_switch={self.k_switch} must be a share between 0 and 1")
        if self.clamp_delta is not None and not method.off_policy:
            raise ValueError(
                f"clamp_delta={self.clamp_delta} is for the off-policy methods; "
                f"method={self.method!r} has no ratio to bound"
            )
        if method.off_policy and self.clamp_delta is None:
            self.clamp_delta = CLAMP_DELTA
        self._check_region()
        if self.skip_silent:
            self._check_skipping()
        if self.clamp_delta is not None and self.clamp_delta <= 0:
            raise ValueError(f"clamp_delta={self.clamp_delta} must be above 0")
        if self.average_from is not None:
            if not 0 <= self.average_from < 1:
                raise ValueError(
                    f"average_from={self.average_from} must be a share from 0 to below 1"
                )
            self._check_best("average_from")
        if not 0 <= self.keep_start < 1:
            raise ValueError(f"keep_start={self.keep_start} must be a share from 0 to below 1")
        if self.keep_start:
            self._check_best("keep_start")

    def k_at(self, step: int, steps: int) -> int | None:
        """The k of an optimiser step; None for a method without one."""
        if not METHODS[self.method].uses_k:
            return None
        end = self.k if self.k_end is None else self.k_end
        schedule = cast(Schedule, self.k_schedule)
        return k_at(step, steps, self.k, end, schedule, self.k_switch)

    def _check_skipping(self) -> None:
        """A weight of 0 means no gradient only where nothing is added to the weighted loss."""
        needed = {"beta": 0.0, "top_entropy_quantile": 1.0, "entropy_coef": 0.0}
        needed |= {"use_adaptive_entropy": False, "use_liger_kernel": False}
        for name, value in needed.items():
            if getattr(self, name, value) != value:
                raise ValueError(
                    f"skip_silent=True with {name}={getattr(self, name)}: completions of weight 0 "
                    f"have a gradient then; use {name}={value} or skip_silent=False"
                )
        if self.loss_type not in ("dr_grpo", "grpo"):
            raise ValueError(
                f"skip_silent=True with loss_type={self.loss_type!r}, which is not a mean over "
                "completions; use 'dr_grpo' or 'grpo'"
            )

    def _check_best(self, name: str) -> None:
        if self.load_best_model_at_end:
            raise ValueError(
                f"{name} and load_best_model_at_end are two answers to what the trained model is; "
                "use one of them"
            )

    def _check_region(self) -> None:
        if self.trust_region not in REGIONS:
            known = ", ".join(REGIONS)
            raise ValueError(f"trust_region={self.trust_region!r} is unknown; use one of {known}")
        if self.trust_region != "token":
            return
        if not METHODS[self.method].off_policy:
            raise ValueError(
                f"trust_region='token' is for the off-policy methods; method={self.method!r} has "
                "TRL's clipping of each token already"
            )
        # The tokens are dropped by TRL's own clipping: see trainer.py.
        needed = {"loss_type": CLIPPED, "importance_sampling_level": ("token",)}
        needed |= {"use_liger_kernel": (False,)}
        for name, values in needed.items():
            if (found := getattr(self, name)) not in values:
                known = " or ".join(map(repr, values))
                raise ValueError(f"trust_region='token' needs {name}={known}, not {found!r}")

    def _check_k(self, name: str, k: int) -> None:
        n = self.num_generations or 0
        if not 1 <= k <= n:
            raise ValueError(f"{name}={k} must be between 1 and num_generations={n}")
        if METHODS[self.method].needs_k_below_n and k == n:
            raise ValueError(
                f"{name}={k} equal to num_generations={n} leaves method={self.method!r} nothing to "
                f"train on; use {name} <= {n - 1}, or method='bon-loo'"
            )
