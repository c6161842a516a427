"""When the memory of a GPU is not enough: what takes less of it and is the same training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch

from maxk.train.arithmetic import whole_groups
from maxk.train.config import MaxKConfig


def halved(args: MaxKConfig) -> dict[str, int]:
    """TRL's settings for half the rows at a time, twice as often, which sum to the same gradient.

    Empty where that cannot be, or would take groups apart that are whole in a micro-batch.
    """
    rows = args.per_device_train_batch_size
    if rows % 2 or (whole_groups(args) and rows // 2 % cast(int, args.num_generations)):
        return {}
    made = {
        "per_device_train_batch_size": rows // 2,
        "gradient_accumulation_steps": 2 * args.gradient_accumulation_steps,
    }
    batches = cast(int, args.steps_per_generation)
    if batches != args.gradient_accumulation_steps:  # which it is where nothing is said
        made["steps_per_generation"] = 2 * batches
    return made


def advice(args: MaxKConfig) -> str:
    """What to do about it."""
    ways = []
    if smaller := halved(args):
        words = " ".join(f"--trl.{key} {value}" for key, value in smaller.items())
        ways.append(f"{words}  (half the rows at a time: the same gradient, slower)")
    if not args.gradient_checkpointing:
        ways.append("--trl.gradient_checkpointing true  (the same gradient, slower)")
    ways.append("--model.engine.batch 256  (if it was sampling, by maxk's sampler: rows at a time)")
    return "\n  ".join(["the memory of the GPU was not enough. What takes less of it:", *ways])


@contextmanager
def explained(args: MaxKConfig) -> Iterator[None]:
    """Whatever runs out of memory in it says what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        error.add_note(advice(args))
        raise
