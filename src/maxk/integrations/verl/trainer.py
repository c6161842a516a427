"""A PPO trainer of verl whose weights are those of the policy at the start of every PPO epoch.

verl's loss sees one micro-batch, without its groups, and off-policy weights need the ratios of
whole groups. So the epochs of a batch are made one at a time: log-probabilities of the batch under
the policy as it is now, weights of all groups on the driver, one epoch. The log-probabilities that
verl divides by are then those at the start of the epoch. Its own ratio is 1 at the epoch's first
step, and its gradient there weight times grad log pi.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import append_to_dict
from verl.workers.utils.padding import response_to_nested

from maxk.estimators import mask_sequences, max_at_k
from maxk.estimators.groups import group_advantages
from maxk.estimators.settings import FACTS, MethodSettings
from maxk.integrations.verl.advantage import check_once, members, recomputing, spread, too_small
from maxk.integrations.verl.settings import (
    PREFIX,
    TRAINER,
    refuse_off_policy,
    region_of,
    settings_of,
)


@register_trainer(TRAINER)
class BestOfNTrainer(PPOTrainerSync):
    """verl's synchronous trainer with max@k in its log, and weights of off-policy methods."""

    def __init__(self, config: DictConfig) -> None:
        self.method_settings = settings = settings_of(config.algorithm, method_of(config))
        self.off_policy = settings.facts.off_policy
        if self.off_policy:
            refuse_off_policy(config, settings)
        check_once(config.algorithm, settings)
        with open_dict(config):
            # Under this name verl looks up what holds for a synchronous trainer.
            config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """verl moves its learning rate with every call of an update, which here is an epoch."""
        super()._init_dataloader()
        if not self.off_policy:
            return
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
        rewards_B = data["rm_scores"].sum(dim=-1)
        metrics.update(group_metrics(self.method_settings, rewards_B, groups, there))
        return out

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if not self.off_policy:
            return super()._update_actor(batch, metrics)
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
    """The method that is asked for."""
    name = config.algorithm.adv_estimator
    method = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or method not in FACTS:
        raise ValueError(
            f"algorithm.adv_estimator={name} is not of trainer.v1.trainer_mode={TRAINER}; use one "
            f"of {', '.join(PREFIX + each for each in FACTS)}, or leave the trainer_mode out"
        )
    return method


def group_metrics(
    settings: MethodSettings, rewards_B: Tensor, groups: list[Any], member_B: Tensor
) -> dict[str, float]:
    """max@k of the groups, and how many of them are too small for the method."""
    rewards_of = defaultdict(list)
    for group, reward, there in zip(groups, rewards_B.tolist(), member_B.tolist(), strict=True):
        if there:
            rewards_of[group].append(reward)
    out = {"maxk/small_groups": float(too_small(settings, groups, member_B))}
    for k in sorted({1, 2, 4, 8, settings.k or 1}):
        enough = [rewards for rewards in rewards_of.values() if len(rewards) >= k]
        if enough:
            values = [float(max_at_k(torch.tensor(rewards), k)) for rewards in enough]
            out[f"maxk/max_at/{k}"] = sum(values) / len(values)
    return out


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
