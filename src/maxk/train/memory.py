"""When the memory of a GPU is not enough: what takes less of it and is the same training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch

from maxk.train.arithmetic import whole_groups
from maxk.train.config import MaxKConfig


def halved(args: MaxKConfig, given: Mapping[str, Any]) -> dict[str, int]:
    """TRL's settings for half the rows at a time, twice as often, which sum to the same gradient.

    given: what was said of them; the rest of args follows from it. Empty where that cannot be, or
    would take groups apart that are whole in a micro-batch, or is not the same gradient: bnpo takes
    the mean over the tokens of each micro-batch.
    """
    rows = args.per_device_train_batch_size
    apart = whole_groups(args) and rows // 2 % cast(int, args.num_generations)
    if rows % 2 or apart or args.loss_type == "bnpo":
        return {}
    made = {
        "per_device_train_batch_size": rows // 2,
        "gradient_accumulation_steps": 2 * args.gradient_accumulation_steps,
    }
    if given.get("steps_per_generation") is not None:  # else it follows
        made["steps_per_generation"] = 2 * given["steps_per_generation"]
    return made


def advice(args: MaxKConfig, given: Mapping[str, Any]) -> str:
    """What to do about it."""
    ways = []
    if smaller := halved(args, given):
        words = " ".join(f"--trl.{key} {value}" for key, value in smaller.items())
        ways.append(f"{words}  (half the rows at a time: the same gradient, slower)")
    if not args.gradient_checkpointing:
        ways.append("--trl.gradient_checkpointing true  (the same gradient, slower)")
    ways.append("--model.engine.batch 256  (if it was sampling, by maxk's sampler: rows at a time)")
    return "\n  ".join(["the memory of the GPU was not enough. What takes less of it:", *ways])


@contextmanager
def explained(args: MaxKConfig, given: Mapping[str, Any]) -> Iterator[None]:
    """Whatever runs out of memory in it says what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        error.add_note(advice(args, given))
        raise
