"""Where the steps of arms.py find what they share: arms.toml, folders, plans, problems, counts."""

import argparse
import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.grid.plan import BASE, HERE, read_grid, without_seed
from experiments.grid.sets import load_set
from maxk.records import Problem

PHASES = ("validation", "test", "alone")


@dataclass(frozen=True)
class Way:
    """One way to sample; `start`: the share of the weights that training began with."""

    name: str
    temperature: float
    start: float = 0.0
    hints: bool = False


@dataclass(frozen=True)
class Arms:
    """arms.toml."""

    n: int
    max_tokens: int
    hints: list[str]
    ways: dict[str, Way]
    validation: dict[str, int]
    test: dict[str, Any]

    def of(self, cell: str) -> list[Way]:
        """The ways of a model; the base model has no way back."""
        base = is_base(cell)
        return [way for way in self.ways.values() if not (base and way.start)]


def read_arms(file: Path = HERE / "arms.toml") -> Arms:
    """What a file does not say is as arms.toml has it."""
    given, own = (tomllib.loads(path.read_text()) for path in (HERE / "arms.toml", file))
    given |= own | {"test": given["test"] | own.get("test", {})}
    given["ways"] = {name: Way(name, **each) for name, each in given["ways"].items()}
    return Arms(**given)


def is_base(cell: str) -> bool:
    return without_seed(cell) == BASE


class Site:
    """Folders and settings that all steps share."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.arms, grid = read_arms(given.arms), read_grid(given.grid)
        self.grid = grid if given.limit is None else grid.limited(given.limit)
        self.work, self.data = given.work, given.data_dir

    def folder(self, cell: str, phase: str, way: str) -> Path:
        return self.work / cell / "arms" / phase / way

    def plan_of(self, cell: str) -> Path:
        return self.work / cell / "arms" / "plan.json"

    @property
    def together(self) -> Path:
        """The plan of several models."""
        return self.work / "together.json"

    def problems(self, phase: str) -> dict[str, list[Problem]]:
        """Those that are sampled, by set."""
        every = self.arms.validation
        if phase != "validation":
            every = dict.fromkeys(self.arms.test["sets"], 1)
        return {
            name: load_set(self.grid.sets[name], self.data)[::step] for name, step in every.items()
        }

    def counts(self, cell: str, phase: str) -> dict[str, int]:
        """Samples of a problem in each way: of two plans, by the one that asks for more.

        Hints are taken in turn, and the plan's estimates are of any choice among all of them. So a
        way with hints has each equally often, and a few samples more than were planned.
        """
        ways = self.arms.of(cell)
        if phase == "validation":
            return {way.name: self.arms.n for way in ways}
        if phase == "alone":
            alone = self.arms.test.get("alone")
            return {alone: self.arms.test["k"]} if alone else {}
        asked: Counter[str] = Counter()
        if "each" in self.arms.test["plans"] or not self.together.exists():
            asked |= Counter(json.loads(self.plan_of(cell).read_text())["order"])
        if "together" in self.arms.test["plans"] and self.together.exists():
            order = json.loads(self.together.read_text())["order"]
            asked |= Counter(way for other, way in order if other == cell)
        turns = {way.name: len(self.arms.hints) if way.hints else 1 for way in ways}
        times = self.arms.test["times"]
        return {
            name: -(-asked[name] * times // turn) * turn
            for name, turn in turns.items()
            if asked[name]
        }


def sampled(folder: Path) -> bool:
    """Whether a way is sampled to its end, and nobody holds its run."""
    return (folder / "sampled.json").exists()
