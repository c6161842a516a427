"""The facts of every method, and a method's settings with their one default each. No torch.

`maxk.train.MaxKConfig`, the table [method] of a training's configuration and `algorithm.maxk` of
verl are views of `MethodSettings`: they take its defaults and leave the checks to it.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from maxk.estimators.schedule import SCHEDULES, Schedule, k_at

Masking = Literal["sequence", "token", "none"]
MASKINGS: tuple[Masking, ...] = get_args(Masking)
K, K_SWITCH = 4, 0.5  # the defaults, for methods and schedules that have them


@dataclass(frozen=True, kw_only=True)
class MethodFacts:
    """What trainers need to know of a method beside its function."""

    summary: str
    reference: str = ""
    uses_k: bool = False
    off_policy: bool = False  # takes log-ratios: its advantages contain the ratio already
    needs_k_below_n: bool = False  # centred, and so 0 everywhere at k = n
    clamp_delta: float | None = None  # the default bound on |rho - 1|; None: it has no ratio
    masking: Masking = "none"  # the default


# The trainers have always clamped all three at 0.5, and the experiments were made so.
_OFF_POLICY: dict[str, Any] = {
    "uses_k": True,
    "off_policy": True,
    "needs_k_below_n": True,
    "clamp_delta": 0.5,
    "masking": "sequence",
}

FACTS: dict[str, MethodFacts] = {
    "grpo": MethodFacts(
        summary="reward, standardised within the group",
        reference="Shao et al. 2024, arXiv 2402.03300",
    ),
    "dr-grpo": MethodFacts(
        summary="reward less the mean of the group",
        reference="Liu et al. 2025, arXiv 2503.20783",
    ),
    "rloo": MethodFacts(
        summary="reward less the mean of the others",
        reference="Ahmadian et al. 2024, arXiv 2402.14740",
    ),
    "max-rl": MethodFacts(
        summary="reward less the mean, divided by the mean",
        reference="Tajwar et al. 2026, arXiv 2602.02710",
    ),
    "pass-at-k": MethodFacts(
        summary="pass@k given that the sample is drawn, standardised; binary rewards",
        reference="Chen Z. et al. 2025, arXiv 2508.10751",
        uses_k=True,
        needs_k_below_n=True,
    ),
    "bon-max-mean": MethodFacts(
        summary="best reward less the mean, for the best samples alone",
        reference="Chow et al. 2024, arXiv 2412.15287",
    ),
    "bon-max-second": MethodFacts(
        summary="best reward less the second best, for the best samples alone",
        reference="Tang et al. 2025, arXiv 2503.19595",
    ),
    "bon-loo": MethodFacts(
        summary="on-policy weights of max@k; each subset's best without the sample as baseline",
        reference="Walder & Karkhanis 2025, arXiv 2505.15201",
        uses_k=True,
    ),
    "bon-mean": MethodFacts(
        summary="on-policy weights of max@k, standardised within the group",
        reference="Bagirov et al. 2025, arXiv 2510.23393, appendix A",
        uses_k=True,
        needs_k_below_n=True,
    ),
    "bon-centered": MethodFacts(
        summary="on-policy weights of max@k with max@k of the others as baseline; unbiased",
        reference="k/n times MaxPO, arXiv 2606.06080, and OrderGrad, arXiv 2606.06096",
        uses_k=True,
        needs_k_below_n=True,
    ),
    "off-policy": MethodFacts(
        summary="weights of max@k to first order in the ratios, less their mean",
        reference="Bagirov et al. 2025, arXiv 2510.23393, section 3.3",
        **_OFF_POLICY,
    ),
    "off-policy-exact": MethodFacts(
        summary="exact off-policy weights of max@k, less their mean",
        reference="Bagirov et al. 2025, arXiv 2510.23393, eq. 10",
        **_OFF_POLICY,
    ),
    "off-policy-normalized": MethodFacts(
        summary="exact off-policy weights of the self-normalised estimate of max@k",
        **_OFF_POLICY,
    ),
}


def facts_of(method: str) -> MethodFacts:
    """The facts of a method; ValueError with the known names for another."""
    if method not in FACTS:
        raise ValueError(f"method={method!r} is unknown; use one of {', '.join(FACTS)}")
    return FACTS[method]


@dataclass(frozen=True)
class MethodSettings:
    """How rewards become advantages in a training.

    After construction every field holds what is in force, the method's default included; None says
    that the method has no such thing.

    >>> MethodSettings("off-policy").clamp_delta, MethodSettings("off-policy").k
    (0.5, 4)
    >>> MethodSettings("grpo").k is None
    True
    """

    method: str = "off-policy-exact"
    """a key of `maxk.estimators.METHODS`"""
    k: int | None = None
    """the k of max@k; left out: 4 where the method has one"""
    k_schedule: str = "constant"
    """how k changes over the optimiser steps: constant, linear (from k to k_end) or step"""
    k_end: int | None = None
    """the k of the last step, for the schedules linear and step"""
    k_switch: float | None = None
    """for the schedule step: the share of all steps after which k is k_end; left out: 0.5"""
    clamp_delta: float | None = None
    """off-policy: ratios enter the weights within this distance of 1; inf: no clamp; left out:
    the method's default"""
    masking: str | None = None
    """off-policy: what a step drops once its ratio has left the region the way it is pushed: whole
    completions (sequence), single tokens (token) or nothing (none); left out: the method's
    default"""

    def __post_init__(self) -> None:
        facts = facts_of(self.method)
        if self.k is not None and not facts.uses_k:
            raise ValueError(
                f"k={self.k}, but method={self.method!r} has no k; leave k out, or use a method of "
                "max@k such as 'bon-centered'"
            )
        if self.k is None and facts.uses_k:
            object.__setattr__(self, "k", K)
        self._check_schedule(facts)
        if self.k_switch is None and self.k_schedule == "step":
            object.__setattr__(self, "k_switch", K_SWITCH)
        if not facts.off_policy:
            if self.clamp_delta is not None:
                raise ValueError(
                    f"clamp_delta={self.clamp_delta} is for the off-policy methods; method="
                    f"{self.method!r} has no ratio to clamp: leave clamp_delta out"
                )
            if self.masking not in (None, "none"):
                self._check_masking()
                raise ValueError(
                    f"masking={self.masking!r} is for the off-policy methods; method="
                    f"{self.method!r} is clipped by its trainer, token by token: leave masking out"
                )
        if self.clamp_delta is None:
            object.__setattr__(self, "clamp_delta", facts.clamp_delta)
        elif not self.clamp_delta > 0:
            raise ValueError(
                f"clamp_delta={self.clamp_delta} must be above 0; use inf for no clamp"
            )
        if self.masking is None:
            object.__setattr__(self, "masking", facts.masking)
        self._check_masking()

    @property
    def facts(self) -> MethodFacts:
        return facts_of(self.method)

    def check(self, num_generations: int) -> None:
        """ValueError if groups of so many samples cannot be trained on with these settings."""
        if self.facts.uses_k:
            self._check_k("k", cast(int, self.k), num_generations)
            if self.k_end is not None:
                self._check_k("k_end", self.k_end, num_generations)

    def k_at(self, step: int, steps: int) -> int | None:
        """The k of an optimiser step of so many; None for a method without one."""
        if self.k is None:
            return None
        end = self.k if self.k_end is None else self.k_end
        schedule = cast(Schedule, self.k_schedule)  # checked above
        return k_at(step, steps, self.k, end, schedule, self.k_switch or 0.0)

    def _check_schedule(self, facts: MethodFacts) -> None:
        if self.k_schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise ValueError(f"k_schedule={self.k_schedule!r} is unknown; use one of {known}")
        if self.k_schedule != "constant":
            if not facts.uses_k:
                raise ValueError(
                    f"k_schedule={self.k_schedule!r}, but method={self.method!r} has no k; use "
                    "k_schedule='constant'"
                )
            if self.k_end is None:
                raise ValueError(f"k_end=None; k_schedule={self.k_schedule!r} needs the last k")
        elif self.k_end is not None:
            raise ValueError(
                f"k_end={self.k_end} with k_schedule='constant'; use 'linear' or 'step'"
            )
        if self.k_switch is None:
            return
        if not 0 <= self.k_switch <= 1:
            raise ValueError(f"k_switch={self.k_switch} must be a share between 0 and 1")
        if self.k_schedule != "step":
            raise ValueError(
                f"k_switch={self.k_switch} with k_schedule={self.k_schedule!r}, which has no "
                "switch; leave k_switch out or use k_schedule='step'"
            )

    def _check_masking(self) -> None:
        if self.masking not in MASKINGS:
            known = ", ".join(MASKINGS)
            raise ValueError(f"masking={self.masking!r} is unknown; use one of {known}")

    def _check_k(self, name: str, k: int, n: int) -> None:
        if not 1 <= k <= n:
            raise ValueError(f"{name}={k} must be between 1 and num_generations={n}")
        if self.facts.needs_k_below_n and k == n:
            raise ValueError(
                f"{name}={k} equal to num_generations={n} leaves method={self.method!r} nothing to "
                f"train on; use {name} <= {n - 1}, or method='bon-loo'"
            )
