"""Every method of maxk as an advantage estimator of verl, `maxk-<name>`.

verl gives an estimator the rewards of each token, the mask of the response and the uid of the
prompt of every row, and wants an advantage for each token.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from maxk.estimators.groups import group_advantages
from maxk.estimators.settings import FACTS, MethodSettings

PREFIX = "maxk-"
TRAINER = "maxk"  # the trainer_mode under which verl finds ours


SETTINGS = ("k", "clamp_delta", "masking")  # of MethodSettings; verl has no schedule of k


@dataclass(frozen=True)
class Options:
    """The table `algorithm.maxk` of verl's configuration: settings of the method that is asked for.

    recomputed: set by our trainer, which keeps the ratios up to date.
    """

    method: MethodSettings
    recomputed: bool = False

    @classmethod
    def of(cls, algorithm: Any, method: str) -> "Options":
        """What verl's table `algorithm` says."""
        given: Mapping[str, Any] = (algorithm.get("maxk") if algorithm is not None else None) or {}
        for key in given:
            if key == "trust_region":
                raise ValueError(
                    "algorithm.maxk.trust_region is no more; use algorithm.maxk.masking: "
                    "'sequence' for true, 'none' for false"
                )
            if key not in (*SETTINGS, "recomputed"):
                raise ValueError(f"algorithm.maxk.{key} is unknown; use {', '.join(SETTINGS)}")
        settings = MethodSettings(method, **{key: given[key] for key in SETTINGS if key in given})
        if settings.masking == "token":
            raise ValueError(
                "algorithm.maxk.masking=token: verl's loss has no place for the tokens to drop; "
                "use masking=sequence or masking=none"
            )
        return cls(settings, bool(given.get("recomputed", False)))


def register() -> None:
    """Tell verl all methods. A second call does nothing."""
    for method in FACTS:
        register_adv_est(PREFIX + method)(ESTIMATORS[method])


def estimator(method: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The function that verl calls for one method."""

    def compute(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any = None,
        config: Any = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        options = Options.of(config, method)
        if index is None:
            raise ValueError(
                f"{PREFIX}{method} compares the samples of a prompt; the rows have no uid"
            )
        if options.method.facts.off_policy and not options.recomputed:
            raise ValueError(
                f"{PREFIX}{method} needs ratios that verl's own trainers do not recompute: set "
                f"trainer.v1.trainer_mode={TRAINER}, or use an on-policy method"
            )
        scores = group_advantages(
            method,
            token_level_rewards.sum(dim=-1),
            index,
            options.method.k,
            log_ratios_B=0,  # or the trainer weighs again
            member_B=members(response_mask),
        )
        advantages = spread(scores, response_mask)
        return advantages, advantages

    compute.__name__ = compute.__qualname__ = f"maxk_{method.replace('-', '_')}"
    return compute


def members(response_mask: Tensor) -> Tensor:
    """The rows that are samples: padding, and what verl has rejected, has no token to train on."""
    return response_mask.bool().any(dim=-1)


def spread(scores_B: Tensor, response_mask: Tensor) -> Tensor:
    """The advantage of a row on each of its tokens."""
    return scores_B.unsqueeze(-1) * response_mask.to(scores_B.dtype)


ESTIMATORS = {method: estimator(method) for method in FACTS}
