"""Reward functions as TRL takes them, with the name of the one that fails in its error."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class RewardError(RuntimeError):
    """A reward function raised."""


def named(function: Any) -> Any:
    """The function, its errors with its name; models and names of models as they are."""
    if isinstance(function, str | nn.Module):
        return function
    name = name_of(function)

    def failed(error: Exception) -> RewardError:
        return RewardError(f"reward function {name!r} raised {type(error).__name__}: {error}")

    if is_async(function):

        async def wait(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                raise failed(error) from error

        return _with_name(wait, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise failed(error) from error

    return _with_name(call, name)


def called(function: Any) -> Any:
    """What a partial function calls in the end; others as they are."""
    return called(function.func) if isinstance(function, functools.partial) else function


def name_of(function: Any) -> str:
    """As TRL logs it: of an object that can be called the name of its class."""
    inner = called(function)
    return getattr(inner, "__name__", type(inner).__name__)


def is_async(function: Any) -> bool:
    """Whether a call has to be awaited, also of an object."""
    inner = called(function)
    return any(map(inspect.iscoroutinefunction, (inner, type(inner).__call__)))


def full_reward(functions: Sequence[Any], weights: Sequence[float]) -> float | None:
    """The reward of a solved problem, if every function states its own as `full_reward`."""
    stated: list[Any] = [getattr(function, "full_reward", None) for function in functions]
    if not stated or None in stated or len(stated) != len(weights):  # an environment has its own
        return None
    return sum(weight * each for weight, each in zip(weights, stated, strict=True))


def total_rewards(rewards_BF: Tensor, weights_F: Tensor) -> Tensor:
    """The weighted sum over the functions that gave a reward; NaN where none did."""
    total = (rewards_BF * weights_F.to(rewards_BF.device)).nansum(dim=1)
    return total.masked_fill(rewards_BF.isnan().all(dim=1), torch.nan)


def _with_name(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = name  # TRL logs under it
    return function


def start_early(functions: Sequence[Any], inputs: list[dict[str, Any]], generated: Any) -> None:
    """Tell reward functions that have a `start` what they will be asked for.

    TRL goes on to the log-probabilities of the completions first, which is time to judge them in.
    """
    completions = generated[3] if len(generated) > 3 else None  # of TRL's _generate
    if not isinstance(completions, list) or len(completions) != len(inputs):
        return  # another version; the functions are called all the same
    columns = {
        key: [row[key] for row in inputs]
        for key in inputs[0]
        if key not in ("prompt", "completion", "completion_ids")
    }
    for function in functions:
        if hasattr(function, "start"):
            function.start(completions=completions, **columns)
