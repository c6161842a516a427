"""What the batch settings of TRL come to: counted before a model is loaded, shown at the start."""

import math
from dataclasses import dataclass
from typing import cast

from maxk.estimators.settings import FACTS
from maxk.train.config import MaxKConfig

ZSCORES = ("bon-mean", "pass-at-k")  # with a k, and of the size of GRPO's


@dataclass(frozen=True)
class Arithmetic:
    """The numbers that follow from a configuration and the number of prompts."""

    processes: int
    prompts_per_batch: int
    completions_per_batch: int
    micro_batch: int
    micro_batches_per_step: int
    updates_per_batch: float
    steps: int
    split: str
    kl: str = ""  # the KL term, if there is one

    def __str__(self) -> str:
        """A table of two columns."""
        rows = [
            ("processes", f"{self.processes}"),
            ("prompts in a batch", f"{self.prompts_per_batch}"),
            ("completions in a batch", f"{self.completions_per_batch}"),
            ("micro-batch", f"{self.micro_batch} completions a process"),
            ("micro-batches in a step", f"{self.micro_batches_per_step} a process"),
            ("optimiser steps on a batch", f"{self.updates_per_batch:g}"),
            ("optimiser steps in all", f"{self.steps}"),
            ("groups", self.split),
            *([("KL term", self.kl)] if self.kl else []),
        ]
        return "\n".join(f"  {name:<27}{value}" for name, value in rows)


def arithmetic(args: MaxKConfig, prompts: int | None = None) -> Arithmetic:
    """Count; prompts is the size of the data set, None where it is not known.

    Raises ValueError where no batch could be made.
    """
    n, micro = cast(int, args.num_generations), args.per_device_train_batch_size
    batch = cast(int, args.generation_batch_size)
    per_batch = cast(int, args.steps_per_generation)
    updates = per_batch * args.num_iterations / args.gradient_accumulation_steps
    asked = batch // n
    if prompts is not None and prompts < asked:
        raise ValueError(
            f"the data set has {prompts} prompts and a batch takes {asked} (generation_batch_size="
            f"{batch} over num_generations={n}); use more prompts or a smaller batch"
        )
    steps = args.max_steps
    if steps <= 0 and prompts is not None:
        # As transformers counts: an epoch ends with a step of what micro-batches are left.
        micro_batches = prompts // asked * per_batch * args.num_iterations
        an_epoch = math.ceil(micro_batches / args.gradient_accumulation_steps)
        steps = math.ceil(args.num_train_epochs * an_epoch)
    return Arithmetic(
        args.world_size,
        asked,
        batch,
        micro,
        args.gradient_accumulation_steps,
        updates,
        steps,
        split(args),
        kl_term(args, updates),
    )


def iteration_of(args: MaxKConfig, micro_step: int) -> int | None:
    """The PPO iteration of a process's micro-batch, from 0; None where a batch has one update."""
    per_batch = cast(int, args.steps_per_generation)
    every = per_batch * args.num_iterations
    return None if every == args.gradient_accumulation_steps else micro_step % every // per_batch


def kl_term(args: MaxKConfig, updates: float) -> str:
    """To whom, and what its strength means for weights that are parts of max@k.

    updates: on a batch. docs/explanation/decisions.md, "Scale".
    """
    if not args.beta:
        return ""
    whom = "a model that follows the policy" if args.sync_ref_model else "the base model"
    if to_sampler(args, updates):
        whom = "the policy that sampled"
    said = f"{args.beta:g}, to {whom}"
    if FACTS[args.method].uses_k and args.method not in ZSCORES:
        said += f"; for max@k - b KL it is b / {gradient_over_mean(args):g}"
    return said


def to_sampler(args: MaxKConfig, updates: float) -> bool:
    """Whether TRL makes the reference model the policy before every batch. updates: on one."""
    whole = args.sync_ref_model and args.ref_model_mixup_alpha == 1
    return whole and args.ref_model_sync_steps == updates


def gradient_over_mean(args: MaxKConfig) -> float:
    """The gradient of max@k over what a loss with the mean over a group has, on-policy.

    The gradient is a sum over the n samples. The off-policy methods take the mean of the group off
    its weights, and with it k/n of the gradient; the baselines of the others take nothing.
    """
    n = cast(int, args.num_generations)
    return n / (1 - cast(int, args.k) / n) if FACTS[args.method].off_policy else n


def split(args: MaxKConfig) -> str:
    """Where the completions of one prompt are taken apart."""
    n = cast(int, args.num_generations)
    if not FACTS[args.method].off_policy:
        if args.pack_prompts and whole_groups(args):
            return f"of {n}, whole in a micro-batch: their prompt is read once"
        return f"of {n}, weighed before TRL spreads them over micro-batches"
    local = args.per_device_train_batch_size * cast(int, args.steps_per_generation)
    over = []
    if local % n:
        over.append("processes")
    if not whole_groups(args):
        over.append("micro-batches")
    if over:
        return f"of {n} split over {' and '.join(over)}"
    return f"of {n}, whole in a micro-batch: no extra pass for the ratios"


def whole_groups(args: MaxKConfig) -> bool:
    """Whether micro-batches can hold whole groups."""
    return args.per_device_train_batch_size % cast(int, args.num_generations) == 0
