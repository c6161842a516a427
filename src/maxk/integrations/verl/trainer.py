"""A PPO trainer of verl whose weights are those of the policy at the start of every PPO epoch.

verl's loss sees one micro-batch, without its groups, and off-policy weights need the ratios of
whole groups. So the epochs of a batch are made one at a time: log-probabilities of the batch under
the policy as it is now, weights of all groups on the driver, one epoch. The log-probabilities that
verl divides by are then those at the start of the epoch. Its own ratio is 1 at the epoch's first
step, and its gradient there weight times grad log pi.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoConfig
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import append_to_dict
from verl.workers.utils.padding import response_to_nested

from maxk.estimators import mask_sequences, max_at_k
from maxk.estimators.groups import group_advantages
from maxk.estimators.settings import FACTS
from maxk.integrations.verl.advantage import (
    PREFIX,
    TRAINER,
    members,
    recomputing,
    settings_of,
    spread,
    too_small,
)

_log = logging.getLogger(__name__)
SUMS = ("seq-mean-token-sum", "seq-mean-token-sum-norm")  # over the tokens of a completion


@register_trainer(TRAINER)
class OffPolicyTrainer(PPOTrainerSync):
    """verl's synchronous trainer for `maxk-off-policy` and `maxk-off-policy-exact`."""

    def __init__(self, config: DictConfig) -> None:
        method = method_of(config)
        self.method_settings = settings_of(config.algorithm, method)
        refuse_idle(config, config.algorithm.get("maxk") or {})
        refuse_wrong(config)
        with open_dict(config):
            # Under this name verl looks up what holds for a synchronous trainer.
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """verl moves its learning rate with every call of an update, which here is an epoch."""
        super()._init_dataloader()
        actor = self.config.actor_rollout_ref.actor
        with open_dict(self.config):
            actor.optim.total_training_steps *= actor.ppo_epochs
            if (actor.optim.lr_warmup_steps or 0) > 0:
                actor.optim.lr_warmup_steps *= actor.ppo_epochs

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        with recomputing():
            out = super()._compute_advantage(batch, metrics)
        data = read(batch, "rm_scores", "response_mask")
        there, groups = members(data["response_mask"]), list(read(batch, "uid")["uid"])
        metrics.update(self._group_metrics(data["rm_scores"].sum(dim=-1), groups, there))
        return out

    def _group_metrics(
        self, rewards_B: Tensor, groups: list[Any], member_B: Tensor
    ) -> dict[str, float]:
        """max@k of the groups, and how many of them are too small for the method."""
        k = self.method_settings.k or 1
        members = defaultdict(list)
        for group, reward, there in zip(groups, rewards_B.tolist(), member_B.tolist(), strict=True):
            if there:
                members[group].append(reward)
        out = {"maxk/small_groups": float(too_small(self.method_settings, groups, member_B))}
        for each in sorted({1, 2, 4, 8, k}):
            whole = [rewards for rewards in members.values() if len(rewards) >= each]
            if whole:
                values = [float(max_at_k(torch.tensor(rewards), each)) for rewards in whole]
                out[f"maxk/max_at/{each}"] = sum(values) / len(values)
        return out

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        actor = self.config.actor_rollout_ref.actor
        epochs, seed = actor.ppo_epochs, actor.data_loader_seed
        sampled = read(batch, "old_log_probs")["old_log_probs"]
        seen: dict[str, Any] = {}
        for epoch in range(epochs):
            if epoch > 0:
                batch = self._compute_old_log_prob(batch, metrics={})
                metrics.update(self._weigh_again(batch, sampled, epoch))
            with replaced(actor, ppo_epochs=1, data_loader_seed=seed + epoch):
                updated: dict[str, Any] = {}
                batch = super()._update_actor(batch, updated)
                append_to_dict(seen, updated)
        metrics.update(reduce_metrics(seen))
        return batch

    def _weigh_again(self, batch: Any, sampled: Tensor, epoch: int) -> dict[str, float]:
        """Put the weights for the policy as it is now in the place of the advantages."""
        kl = self.config.algorithm.use_kl_in_reward
        rewards = "token_level_rewards" if kl else "rm_scores"
        data = read(batch, "old_log_probs", "response_mask", rewards)
        there = members(data["response_mask"])
        ratios = ((data["old_log_probs"] - sampled) * data["response_mask"]).sum(dim=-1)
        free = group_advantages(
            self.method_settings.method,
            data[rewards].sum(dim=-1),
            list(read(batch, "uid")["uid"]),
            self.method_settings.k,
            ratios,
            member_B=there,
            clamp_delta=self.method_settings.clamp_delta,
        )
        kept = free
        if self.method_settings.masking == "sequence":
            kept = mask_sequences(free, ratios, *region_of(self.config.actor_rollout_ref.actor))
        weights = spread(kept, data["response_mask"])
        write(batch, advantages=weights, returns=weights)
        lag, name = ratios[there].abs(), f"maxk/epoch_{epoch + 1}"
        return {
            f"{name}/policy_lag/mean": lag.mean().item(),
            f"{name}/policy_lag/max": lag.max().item(),
            f"{name}/masked": ((kept == 0) & (free != 0))[there].float().mean().item(),
        }


def method_of(config: DictConfig) -> str:
    """The off-policy method that is asked for, if this trainer can do it."""
    name = config.algorithm.adv_estimator
    method = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or method not in FACTS or not FACTS[method].off_policy:
        known = ", ".join(PREFIX + name for name, facts in FACTS.items() if facts.off_policy)
        raise ValueError(
            f"algorithm.adv_estimator={name} does not need trainer.v1.trainer_mode={TRAINER}; "
            f"it is for {known}"
        )
    if (config.algorithm.get("rollout_correction") or {}).get("bypass_mode"):
        raise ValueError(
            "algorithm.rollout_correction.bypass_mode takes the sampler's log-probabilities; "
            f"{name} needs both from the training model: leave it out"
        )
    return method


def refuse_idle(config: DictConfig, given: Any) -> None:
    """ValueError for settings of the ratios where there are none."""
    actor = config.actor_rollout_ref.actor
    if several(config):
        return
    for name in ("clamp_delta", "masking"):
        if given.get(name) not in (None, "none"):
            raise ValueError(
                f"algorithm.maxk.{name}={given[name]} would do nothing: ppo_epochs="
                f"{actor.ppo_epochs} is one pass over a batch, whose ratios are 1; leave it out or "
                "raise ppo_epochs"
            )


def refuse_wrong(config: DictConfig) -> None:
    """ValueError for settings under which weights or ratios would be wrong."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.loss_agg_mode not in SUMS:
        raise ValueError(
            f"actor_rollout_ref.actor.loss_agg_mode={actor.loss_agg_mode}: the weight of a whole "
            f"completion needs a sum over its tokens; use {' or '.join(SUMS)}"
        )
    if not several(config):
        return
    plain = {"top_p": (1, None), "top_k": (-1, 0, None), "repetition_penalty": (1, None)}
    for name, values in plain.items():
        if (value := rollout.get(name)) not in values:
            raise ValueError(
                f"actor_rollout_ref.rollout.{name}={value}: the samples are then of another "
                "distribution than the ratios; leave it out"
            )
    for name, value in dropouts(config.actor_rollout_ref.model).items():
        raise ValueError(
            f"the model has {name}={value}: verl computes old log-probabilities without dropout "
            "and the loss with it, so ratios are noise; set it to 0, for the model by "
            f"+actor_rollout_ref.model.override_config.{name}=0"
        )


def several(config: DictConfig) -> bool:
    """Whether weights are made of ratios: from the second epoch on a batch."""
    return config.actor_rollout_ref.actor.ppo_epochs > 1


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


def region_of(actor: DictConfig) -> tuple[float, float]:
    """How far a ratio may go below and above 1, as verl's own loss reads it."""
    low, high = actor.get("clip_ratio_low"), actor.get("clip_ratio_high")
    return (
        actor.clip_ratio if low is None else low,
        actor.clip_ratio if high is None else high,
    )


def read(batch: Any, *fields: str) -> TensorDict:
    """Fields of the batch out of verl's queue, a row per sample, padded with 0."""
    got = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields)
    )
    return got.to_padded_tensor()


def write(batch: Any, **fields: Tensor) -> None:
    """One number per token back into verl's queue, without the padding."""
    where = {"keys": batch.keys, "partition_id": batch.partition_id}
    mask = tq.kv_batch_get(**where, select_fields=["response_mask"])["response_mask"]
    nested = {name: response_to_nested(values, mask) for name, values in fields.items()}
    tq.kv_batch_put(**where, fields=TensorDict(nested, batch_size=len(batch.keys)))


@contextmanager
def replaced(config: DictConfig, **values: Any) -> Iterator[None]:
    """A configuration with other values for a while."""
    before = {name: config[name] for name in values}
    config.update(values)
    try:
        yield
    finally:
        config.update(before)
