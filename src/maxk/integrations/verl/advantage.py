"""Every method of maxk as an advantage estimator of verl, `maxk-<name>`.

verl gives an estimator the rewards of each token, the mask of the response and the uid of the
prompt of every row, and wants an advantage for each token.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from maxk.estimators.groups import fewest, group_advantages
from maxk.estimators.settings import FACTS, MethodSettings
from maxk.integrations.verl.settings import (
    PREFIX,
    TRAINER,
    noise,
    refuse_idle_of_verl,
    refuse_means,
    settings_of,
    several,
    whole_of,
)

_log = logging.getLogger(__name__)
_recomputing = False  # inside our trainer, which keeps the ratios up to date
_checked: Any = None  # the configuration whose settings were looked at


@contextmanager
def recomputing() -> Iterator[None]:
    """Our trainer asks for weights: the policy is the one that sampled."""
    global _recomputing
    _recomputing = True
    try:
        yield
    finally:
        _recomputing = False


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
        check_once(config, settings)
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


def check_once(algorithm: Any, settings: MethodSettings) -> None:
    """Refuse what would be wrong, and say what may be, at the first batch with a configuration."""
    global _checked
    if algorithm is None or algorithm is _checked:
        return
    refuse_idle_of_verl(algorithm, settings.method)
    if (whole := whole_of(algorithm)) is not None:
        refuse_means(whole, settings)
        for said in noise(whole) if several(whole) else ():
            _log.warning("%s, or make one update on a batch", said)
    _checked = algorithm


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
