"""TRL's GRPO configuration and what max@k adds to it."""

from dataclasses import dataclass, field

from trl.trainer.grpo_config import GRPOConfig

from maxk.estimators import METHODS


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
    clamp_delta: float | None = field(
        default=None,
        metadata={"help": "Bound on |rho - 1| of the off-policy methods; None: the method's own."},
    )
    trust_region: bool = field(
        default=True,
        metadata={
            "help": "Off-policy: drop samples that moved by epsilon the way they are pushed."
        },
    )
    loss_type: str = field(default="dr_grpo", metadata={"help": "See trl.GRPOConfig."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is unknown; use one of {', '.join(METHODS)}")
        method, n = METHODS[self.method], self.num_generations or 0
        if method.uses_k and not 1 <= self.k <= n:
            raise ValueError(f"k={self.k} must be between 1 and num_generations={n}")
        if method.needs_k_below_n and self.k == n:
            raise ValueError(
                f"k={self.k} equal to num_generations={n} leaves method={self.method!r} nothing to "
                f"train on; use k <= {n - 1}, or method='bon-loo'"
            )
        if self.clamp_delta is not None and not method.off_policy:
            raise ValueError(
                f"clamp_delta={self.clamp_delta} is for the off-policy methods; "
                f"method={self.method!r} has no ratio to bound"
            )
