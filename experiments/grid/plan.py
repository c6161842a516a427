"""What there is to run, what it is measured on, and what that is likely to cost."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from experiments.grid.results import Result, of_hardware
from maxk.config import TrainConfig, read_config
from maxk.sample import Sampling
from maxk.verify import Limits

HERE = Path(__file__).parent
BASE = "base"  # the cell that is not trained
_MADE = re.compile(r"(.+?)(?:-of-(\d+))?(?:-(?:kept|base)-(\d+))?")  # kept.py


@dataclass(frozen=True)
class EvalSet:
    """Problems to measure on. judged_on: the set whose samples are judged instead of new ones."""

    name: str
    data: str
    split: str
    source: str
    problems: int
    tokens: float = 0.0  # of a completion: a guess
    ids: str | None = None  # the file with the chosen ones
    judged_on: str | None = None
    limit: int | None = None  # the first so many
    options: Mapping[str, Any] = field(default_factory=dict)  # of the loader

    @property
    def size(self) -> int:
        return self.problems if self.limit is None else min(self.problems, self.limit)

    def chosen(self) -> list[str] | None:
        return (HERE / "ids" / self.ids).read_text().split() if self.ids else None

    def table(self) -> dict[str, Any]:
        """As a run's configuration names it."""
        found = {"name": self.name, "split": self.split, "ids": self.ids, "limit": self.limit}
        return found | ({"options": dict(self.options)} if self.options else {})


@dataclass(frozen=True)
class Grid:
    """grid.toml."""

    model: str
    n: int
    entropy_samples: int
    settings: Sampling
    limits: Limits
    own: dict[str, Any]  # of maxk's own sampling on a GPU
    engine: dict[str, Any]  # of vLLM
    sets: dict[str, EvalSet]
    plans: dict[str, list[str]]
    measured: dict[str, str]
    prompts: dict[str, int]  # to train on, by data set
    cost: dict[str, float]

    def sets_of(self, cell: str) -> list[EvalSet]:
        """What a cell is measured on."""
        return [self.sets[name] for name in self.plans[self.measured[cell.split("-")[0]]]]

    def limited(self, problems: int) -> "Grid":
        """The first so many problems of each set."""
        return replace(self, sets={k: replace(s, limit=problems) for k, s in self.sets.items()})

    def up_to(self, tokens: int) -> "Grid":
        """With longer or shorter completions to measure by; training has its own limit."""
        return replace(self, settings=replace(self.settings, max_tokens=tokens))


def read_grid(file: Path = HERE / "grid.toml") -> Grid:
    given = tomllib.loads(file.read_text())
    given["settings"] = Sampling(**given["settings"])
    given["limits"] = Limits(**given["limits"])
    given["sets"] = {name: EvalSet(name, **each) for name, each in given["sets"].items()}
    return Grid(**given)


def cell_names() -> list[str]:
    """All of them, as order.txt has them, and what it does not name last."""
    named = {BASE, *lines_of_cells()}
    order = (HERE / "order.txt").read_text().split()
    return [*(name for name in order if name in named), *sorted(named - set(order))]


def lines_of_cells() -> dict[str, list[str]]:
    """What each cell changes in base.toml (cells.txt)."""
    lines = (HERE / "cells.txt").read_text().splitlines()
    return {name: keys for name, *keys in map(shlex.split, lines)}


def config_of(name: str, more: Sequence[str] = ()) -> TrainConfig:
    """The configuration of a cell, with these keys changed besides."""
    return read_config(HERE / "base.toml", [*lines_of_cells()[name], *more])


def made_of(name: str) -> tuple[str, int]:
    """The cell that is trained, and with how many seeds; itself if it is.

    >>> made_of("choose-grpo-kept-30"), made_of("choose-grpo-of-3-kept-30"), made_of("choose-grpo")
    (('choose-grpo', 1), ('choose-grpo', 3), ('choose-grpo', 1))
    """
    found = _MADE.fullmatch(name)
    assert found is not None
    return found[1], int(found[2] or 1)


def base_share(name: str) -> float:
    """The share of the base model's weights in a cell that is made of others.

    >>> base_share("choose-grpo-of-3-kept-30"), base_share("leetcode-grpo-base-30")
    (0.3, 0.3)
    """
    found = _MADE.fullmatch(name)
    assert found is not None
    return int(found[3] or 0) / 100


def without_seed(name: str) -> str:
    """
    >>> without_seed("leetcode-grpo-s1")
    'leetcode-grpo'
    """
    return name.rpartition("-s")[0]


def seed_of(name: str) -> int:
    """
    >>> seed_of("leetcode-grpo-s1")
    1
    """
    return int(name.rpartition("-s")[2])


def matching(patterns: Iterable[str]) -> list[str]:
    """The cells that any of the patterns means, most valuable first; ValueError for a vain one."""
    names = cell_names()
    found = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise ValueError(f"{pattern!r} means no cell; there are {', '.join(names)}")
    return found


def asked(patterns: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, int]]:
    """Cells with their seeds: what was asked for by seed, as in mbpp-grpo-s1, then seed by seed."""
    by_seed = [re.fullmatch(r"(.+)-s(\d+)", pattern) for pattern in patterns]
    plain = [pattern for pattern, found in zip(patterns, by_seed, strict=True) if not found]
    pairs = [(name, int(m[2])) for m in by_seed if m for name in matching([m[1]])]
    pairs += [
        (name, seed)
        for seed in seeds
        for name in matching(plain)
        if name != BASE or seed == seeds[0]
    ]
    return list(dict.fromkeys(pairs))


# --- what it costs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Seconds, from what was measured on such a machine, or guessed."""

    guess: Mapping[str, float]
    earlier: tuple[Result, ...] = ()

    def training(self, steps: int, updates: float, data: str) -> float:
        """Of so many optimiser steps, of which `updates` go to a batch."""
        batch, update = self.guess["batch"], self.guess["update"]
        for result in self.earlier:  # the newest last
            spent = result.per_step(data)
            if spent is not None:
                batch, update = spent
        return self.guess["begin"] + steps * (update + batch / updates)

    def sampling(self, each: EvalSet, completions: int) -> float:
        """Of so many completions of a set, with what is left to judge at the end."""
        if each.judged_on is not None:
            return self.guess["judging"]
        tokens, rate = each.tokens, self.guess["tokens_per_second"]
        for result in self.earlier:
            seen = result.sampled(each.name)
            if seen is not None:
                tokens, rate = seen
        return completions * tokens / rate + self.guess["judging"]


def costs_of(
    grid: Grid, earlier: Iterable[Result], gpus: list[str] | None, judge_later: bool = False
) -> Costs:
    """From results of a machine with these GPUs; None: with any."""
    known = sorted(of_hardware(earlier, gpus), key=lambda result: result.time)
    guess = {**grid.cost, "judging": 0.0} if judge_later else grid.cost
    return Costs(guess, tuple(known))


def steps_of(config: TrainConfig, prompts: int) -> tuple[int, float]:
    """Optimiser steps of a training, and how many of them go to one batch.

    prompts: how many there are to train on, if the configuration does not say.
    """
    trl = config.trl
    prompts = min(prompts, config.data.limit or prompts)
    updates = trl["num_iterations"]
    if (most := trl.get("max_steps", -1)) > 0:
        return most, updates
    size = trl["per_device_train_batch_size"] * trl["gradient_accumulation_steps"]
    batches = prompts // (size // trl["num_generations"])
    return int(trl["num_train_epochs"] * batches * updates), updates
