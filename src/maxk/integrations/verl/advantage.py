"""Every method of maxk as an advantage estimator of verl, `maxk-<name>`.

verl gives an estimator the rewards of each token, the mask of the response and the uid of the
prompt of every row, and wants an advantage for each token.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from maxk.estimators.groups import fewest, group_advantages
from maxk.estimators.settings import FACTS, MethodSettings

PREFIX = "maxk-"
TRAINER = "maxk"  # the trainer_mode under which verl finds ours


SETTINGS: dict[str, tuple[type, ...]] = {  # of MethodSettings; verl has no schedule of k
    "k": (int,),
    "clamp_delta": (int, float),
    "masking": (str,),
}
_KINDS = {int: "a whole number", float: "a number", str: "text"}
_log = logging.getLogger(__name__)
_recomputing = False  # inside our trainer, which keeps the ratios up to date


@contextmanager
def recomputing() -> Iterator[None]:
    """Our trainer asks for weights: the policy is the one that sampled."""
    global _recomputing
    _recomputing = True
    try:
        yield
    finally:
        _recomputing = False


def settings_of(algorithm: Any, method: str) -> MethodSettings:
    """What verl's table `algorithm` says: `algorithm.maxk` has settings of the method."""
    given: Mapping[str, Any] = (algorithm.get("maxk") if algorithm is not None else None) or {}
    for key, value in given.items():
        if key == "trust_region":
            raise ValueError(
                "algorithm.maxk.trust_region is no more; use algorithm.maxk.masking: "
                "'sequence' for true, 'none' for false"
            )
        if key not in SETTINGS:
            raise ValueError(f"algorithm.maxk.{key} is unknown; use {', '.join(SETTINGS)}")
        if value is not None and (isinstance(value, bool) or not isinstance(value, SETTINGS[key])):
            raise ValueError(
                f"algorithm.maxk.{key}={value!r} is not {_KINDS[SETTINGS[key][-1]]}; write it "
                "without quotes"
            )
    settings = MethodSettings(method, **given)
    if settings.masking == "token":
        raise ValueError(
            "algorithm.maxk.masking=token: verl's loss has no place for the tokens to drop; "
            "use masking=sequence or masking=none"
        )
    return settings


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
        settings = settings_of(config, method)
        if index is None:
            raise ValueError(
                f"{PREFIX}{method} compares the samples of a prompt; the rows have no uid"
            )
        if settings.facts.off_policy and not _recomputing:
            raise ValueError(
                f"{PREFIX}{method} needs ratios that verl's own trainers do not recompute: set "
                f"trainer.v1.trainer_mode={TRAINER}, or use an on-policy method"
            )
        there = members(response_mask)
        scores = group_advantages(
            method,
            token_level_rewards.sum(dim=-1),
            index,
            settings.k,
            log_ratios_B=0,  # or the trainer weighs again
            member_B=there,
        )
        small = too_small(settings, index, there)
        if small:
            _log.warning(
                "%d groups have fewer samples than %s needs, and so weight 0", small, method
            )
        advantages = spread(scores, response_mask)
        return advantages, advantages

    compute.__name__ = compute.__qualname__ = f"maxk_{method.replace('-', '_')}"
    return compute


def members(response_mask: Tensor) -> Tensor:
    """The rows that are samples: padding, and what verl has rejected, has no token to train on."""
    return response_mask.bool().any(dim=-1)


def too_small(settings: MethodSettings, groups: Iterable[Any], member_B: Tensor) -> int:
    """How many groups are smaller than the method needs."""
    sizes = Counter(group for group, there in zip(groups, member_B.tolist(), strict=True) if there)
    return sum(size < fewest(settings.method, settings.k) for size in sizes.values())


def spread(scores_B: Tensor, response_mask: Tensor) -> Tensor:
    """The advantage of a row on each of its tokens."""
    return scores_B.unsqueeze(-1) * response_mask.to(scores_B.dtype)


ESTIMATORS = {method: estimator(method) for method in FACTS}
