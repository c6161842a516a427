"""What verl's configuration says of a method, and which settings of verl it cannot be trained with.

A setting that would do nothing, and one under which weights or ratios would be wrong, is an error
that names it and the fix.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from transformers import AutoConfig

from maxk.estimators.settings import MethodSettings

PREFIX = "maxk-"
TRAINER = "maxk"  # the trainer_mode under which verl finds the one of maxk
SUMS = ("seq-mean-token-sum", "seq-mean-token-sum-norm", "token-sum")  # over a completion's tokens

SETTINGS: dict[str, tuple[type, ...]] = {  # of MethodSettings; verl has no schedule of k
    "k": (int,),
    "clamp_delta": (int, float),
    "masking": (str,),
}
_KINDS = {int: "a whole number", float: "a number", str: "text"}
_IDLE: dict[str, tuple[Any, str]] = {  # of verl's own estimators: the default, and what to do
    "gamma": (1.0, "leave it out"),
    "lam": (1.0, "leave it out"),
    "norm_adv_by_std_in_grpo": (
        True,
        f"leave it out, or use {PREFIX}grpo for the standard deviation of the group and "
        f"{PREFIX}dr-grpo for none",
    ),
    "use_pf_ppo": (False, "leave it out"),
}
_PLAIN = {"top_p": (1, None), "top_k": (-1, 0, None), "repetition_penalty": (1, None)}
_log = logging.getLogger(__name__)


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


def whole_of(algorithm: Any) -> Any:
    """The configuration in which a table `algorithm` lies; None where it was given alone."""
    if not isinstance(algorithm, DictConfig):
        return None
    try:
        whole = OmegaConf.select(algorithm, "..")
    except OmegaConfBaseException:
        return None
    return whole if whole is not None and "actor_rollout_ref" in whole else None


# --- every method ----------------------------------------------------------------------------


def refuse_idle_of_verl(algorithm: Any, method: str) -> None:
    """ValueError for what verl's own estimators read, and no method of maxk."""
    for name, (default, fix) in _IDLE.items():
        value = algorithm.get(name) if algorithm is not None else None
        if value not in (default, None):
            raise ValueError(
                f"algorithm.{name}={value} would do nothing with adv_estimator={PREFIX}{method}: "
                f"the method makes its advantages of the rewards alone; {fix}"
            )


def refuse_means(config: DictConfig, settings: MethodSettings) -> None:
    """ValueError for a loss under which a token of a long completion counts for less.

    verl's token-mean divides the sum over all tokens of a mini-batch by how many they are: the same
    direction, in steps of another size.
    """
    mode = config.actor_rollout_ref.actor.loss_agg_mode
    if settings.facts.off_policy and mode not in SUMS:
        raise ValueError(
            f"actor_rollout_ref.actor.loss_agg_mode={mode}: the weight of a whole completion needs "
            f"a sum over its tokens; use {', '.join(SUMS)}"
        )
    if settings.facts.uses_k and mode == "seq-mean-token-mean":
        raise ValueError(
            f"actor_rollout_ref.actor.loss_agg_mode={mode} with adv_estimator={PREFIX}"
            f"{settings.method}: the mean over its tokens makes the weight of a long completion "
            f"smaller; use {', '.join(SUMS)}"
        )


def noise(config: DictConfig) -> Iterator[str]:
    """Settings of the sampler and the model that make ratios wrong, as name=value: why."""
    rollout = config.actor_rollout_ref.rollout
    for name, values in _PLAIN.items():
        if (value := rollout.get(name)) not in values:
            yield (
                f"actor_rollout_ref.rollout.{name}={value}: the samples are then of another "
                "distribution than the ratios; leave it out"
            )
    for name, value in dropouts(config.actor_rollout_ref.model).items():
        yield (
            f"the model has {name}={value}: verl computes old log-probabilities without dropout "
            "and the loss with it, so ratios are noise; set it to 0, for the model by "
            f"+actor_rollout_ref.model.override_config.{name}=0"
        )


def several(config: DictConfig) -> bool:
    """Whether verl's loss has ratios: several updates are made on a batch."""
    actor = config.actor_rollout_ref.actor
    return actor.ppo_epochs > 1 or actor.ppo_mini_batch_size < config.data.train_batch_size


def dropouts(model: DictConfig) -> dict[str, float]:
    """The rates of dropout of a model's configuration and of its adapter, if they are not 0."""
    trusted = bool(model.get("trust_remote_code"))
    try:
        rates = AutoConfig.from_pretrained(model.path, trust_remote_code=trusted).to_dict()
    except OSError as error:  # on a file system that verl copies from later
        _log.warning("%s was not looked through for dropout: %s", model.path, error)
        rates = {}
    rates |= dict(model.get("override_config") or {})
    lora = model.get("lora") or {}
    if model.get("lora_rank") or lora.get("rank"):
        rates["lora.dropout"] = lora.get("dropout") or 0.0
    return {
        name: rate
        for name, rate in rates.items()
        if ("drop" in name or "jitter" in name) and isinstance(rate, float) and rate > 0
    }


# --- off-policy methods ----------------------------------------------------------------------


def refuse_off_policy(config: DictConfig, settings: MethodSettings) -> None:
    """ValueError for what an off-policy method cannot be trained with."""
    actor, algorithm = config.actor_rollout_ref.actor, config.algorithm
    name = PREFIX + settings.method
    if (algorithm.get("rollout_correction") or {}).get("bypass_mode"):
        raise ValueError(
            "algorithm.rollout_correction.bypass_mode takes the sampler's log-probabilities; "
            f"{name} needs both from the training model: leave it out"
        )
    if (loss := actor.policy_loss.get("loss_mode", "vanilla")) != "vanilla":
        raise ValueError(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}: the ratio of a whole "
            f"completion is in the weight of {name}, which verl's plain loss leaves as it is; use "
            "vanilla"
        )
    if actor.ppo_epochs > 1:
        for said in noise(config):
            raise ValueError(said)
        return
    for key in ("clamp_delta", "masking"):
        if (value := (algorithm.get("maxk") or {}).get(key)) not in (None, "none"):
            raise ValueError(
                f"algorithm.maxk.{key}={value} would do nothing: ppo_epochs={actor.ppo_epochs} is "
                "one pass over a batch, whose ratios are 1; leave it out or raise ppo_epochs"
            )


def region_of(actor: DictConfig) -> tuple[float, float]:
    """How far a ratio may go below and above 1, as verl's own loss reads it."""
    low, high = actor.get("clip_ratio_low"), actor.get("clip_ratio_high")
    return (
        actor.clip_ratio if low is None else low,
        actor.clip_ratio if high is None else high,
    )
