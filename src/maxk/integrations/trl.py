"""max@k for those who keep TRL's own GRPOTrainer: a reward that is the weight of max@k.

    from maxk.integrations.trl import best_of

    best = best_of(reward, k=4, n=8)
    GRPOTrainer(model, best, GRPOConfig(scale_rewards="none", num_generations=8, ...), data,
                callbacks=[best.callback])

On-policy, the weights of `bon-centered`. They sum to 0 over a group, so the mean that TRL subtracts
takes nothing. `maxk.train.MaxKTrainer` has the other methods, and those for stale samples.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from maxk.estimators import advantages, max_at_k
from maxk.estimators.groups import fewest

METHOD = "bon-centered"
Reward = Callable[..., Sequence[float | None]]


def best_of(reward: Reward | Sequence[Reward], k: int, n: int) -> "BestOf":
    """A reward function for TRL whose value is a completion's weight for max@k.

    reward: as TRL takes it, or several, whose sum counts. n: TRL's num_generations. Give the
    trainer `best_of(...).callback` too: it refuses settings under which the weights are wrong.
    """
    return BestOf(reward, k, n)


class BestOf:
    """What `best_of` returns."""

    def __init__(self, reward: Reward | Sequence[Reward], k: int, n: int) -> None:
        self.rewards = list(reward) if isinstance(reward, Sequence) else [reward]
        self.k, self.n = k, n
        if not 1 <= k < n:
            raise ValueError(f"k={k} must be at least 1 and below n={n}; raise n or lower k")
        for each in self.rewards:
            if not callable(each) or isinstance(each, torch.nn.Module):
                raise ValueError(f"reward={each!r} is no function; give one that calls the model")
            if any(map(inspect.iscoroutinefunction, (each, type(each).__call__))):
                raise ValueError(f"reward={each!r} is async; give a function that returns numbers")
        names = [getattr(each, "__name__", type(each).__name__) for each in self.rewards]
        self.__name__ = f"best_of_{k}_{'_'.join(names)}"
        self.callback = RefuseWrongSettings(self)

    def __call__(
        self,
        prompts: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The weights; None for a completion that no reward function has scored.

        In evaluation it returns the rewards themselves: nothing is trained on them.
        """
        more = {"log_metric": log_metric, "log_extra": log_extra}
        given = {name: value for name, value in more.items() if value is not None}
        raw = self._summed(prompts=prompts, **columns, **given)
        trainer: Any = getattr(log_metric, "__self__", None)
        if trainer is not None:
            refuse(self, trainer.args, len(trainer.reward_funcs))
            if not trainer.model.training:
                return as_list(raw)
        rewards_PN = self._groups(prompts, raw)
        if log_metric is not None:
            for name, value in self._metrics(rewards_PN):
                log_metric(name, value)
        if log_extra is not None:
            log_extra("raw_reward", as_list(raw))
        return as_list(self._weights(rewards_PN).flatten())

    def _summed(self, **columns: Any) -> Tensor:
        """The sum of what the functions give; NaN where none gives anything."""
        found = [
            [math.nan if value is None else float(value) for value in each(**columns)]
            for each in self.rewards
        ]
        values_FB = torch.tensor(found, dtype=torch.float64)
        return values_FB.nansum(0).masked_fill(values_FB.isnan().all(0), math.nan)

    def _groups(self, prompts: Sequence[Any], raw: Tensor) -> Tensor:
        """A row per prompt. A process that has a part of a group cannot weigh it."""
        groups = [prompts[i : i + self.n] for i in range(0, len(prompts), self.n)]
        if len(prompts) % self.n or any(each != group[0] for group in groups for each in group):
            raise ValueError(
                f"n={self.n}: this process has {len(prompts)} completions that are not whole groups"
                " of as many; set num_generations to n, and per_device_train_batch_size * "
                "steps_per_generation to a multiple of it"
            )
        return raw.view(-1, self.n)

    def _weights(self, rewards_PN: Tensor) -> Tensor:
        """Of each group the weights of those that have a reward; 0 where these are too few."""
        out = torch.full_like(rewards_PN, math.nan)
        for weights, rewards in zip(out, rewards_PN, strict=True):
            there = ~rewards.isnan()
            enough = int(there.sum()) >= fewest(METHOD, self.k)
            weights[there] = advantages(METHOD, rewards[there], self.k) if enough else 0.0
        return out

    def _metrics(self, rewards_PN: Tensor) -> list[tuple[str, float]]:
        """The mean reward, and max@k of the groups in which enough have a reward."""
        rows = [row[~row.isnan()] for row in rewards_PN]
        out = []
        for k in sorted({1, 2, 4, 8, self.k}):
            values = [float(max_at_k(row, k)) for row in rows if len(row) >= k]
            if values:
                out.append((f"max_at/{k}", sum(values) / len(values)))
        mean = float(rewards_PN.nanmean())
        return out if math.isnan(mean) else [("raw_reward", mean), *out]


class RefuseWrongSettings(TrainerCallback):
    """Ends a training with an error where TRL would change the weights."""

    def __init__(self, best: BestOf) -> None:
        self.best = best

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        refuse(self.best, args, 1 if args.reward_weights is None else len(args.reward_weights))

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logged = [name for name in kwargs.get("logs") or {} if name.startswith("rewards/")]
        refuse(self.best, args, sum(name.endswith("/mean") for name in logged) or 1)


def refuse(best: BestOf, args: Any, functions: int) -> None:
    """ValueError for settings under which the weights would be wrong."""
    if args.scale_rewards not in ("none", False):
        raise ValueError(
            f"scale_rewards={args.scale_rewards!r} divides the weights of best_of by their "
            'deviation in each group; use scale_rewards="none"'
        )
    if functions > 1:
        raise ValueError(
            f"{functions} reward functions: TRL would add others to the weights of best_of; give "
            "them all to best_of, as a list, which sums them before it weighs"
        )
    if args.num_generations != best.n:
        raise ValueError(
            f"num_generations={args.num_generations} and best_of(n={best.n}) differ; make them the "
            "same"
        )
    local = args.per_device_train_batch_size * args.steps_per_generation
    if local % best.n:
        raise ValueError(
            f"per_device_train_batch_size * steps_per_generation = {local} cuts groups of "
            f"n={best.n} between processes; make it a multiple of n"
        )
    aggregation = getattr(args, "multi_objective_aggregation", "sum_then_normalize")
    if aggregation != "sum_then_normalize":
        raise ValueError(
            f"multi_objective_aggregation={aggregation!r} standardises the weights of best_of; "
            "leave it out"
        )


def as_list(values: Tensor) -> list[float | None]:
    """With None for NaN, as TRL takes it."""
    return [None if math.isnan(value) else value for value in values.tolist()]
