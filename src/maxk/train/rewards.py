"""Reward functions as TRL takes them, with the name of the one that fails in its error."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn


class RewardError(RuntimeError):
    """A reward function raised."""


def named(function: Any) -> Any:
    """The function, its errors with its name; models and names of models as they are."""
    if isinstance(function, str | nn.Module):
        return function
    name = getattr(function, "__name__", type(function).__name__)

    def failed(error: Exception) -> RewardError:
        return RewardError(f"reward function {name!r} raised {type(error).__name__}: {error}")

    if inspect.iscoroutinefunction(function):

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
