"""All results of a folder, as the tables need them."""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from experiments.grid.results import STATUSES, Result, read_results
from maxk.evaluate import Difference, scores
from maxk.evaluate.samples import Metric


class Data:
    """All results, by cell and set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells: dict[str, list[Result]] = defaultdict(list)
        for result in read_results(folder):
            self.cells[result.about["cell"] + result.about["tag"]].append(result)

    @cached_property
    def rows(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """By result and set."""
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for results in self.cells.values():
            for result in results:
                by_set: dict[str, list[dict[str, Any]]] = defaultdict(list)
                for row in pq.read_table(self.folder / f"{result.name}.parquet").to_pylist():
                    by_set[row["set"]].append(row)
                found[result.name] = by_set
        return found

    def with_seeds(self, seeds: Container[int]) -> "Data":
        """The same without the results of other seeds."""
        fewer = copy(self)
        fewer.cells = defaultdict(list)
        for cell, results in self.cells.items():
            fewer.cells[cell] = [each for each in results if each.about["seed"] in seeds]
        return fewer

    def results(self, cell: str, name: str, k: int = 1) -> list[Result]:
        """Those of a cell that are measured on a set with at least k samples."""
        return [r for r in self.cells.get(cell, []) if name in r.sets and r.sets[name]["n"] >= k]

    def has(self, cell: str, name: str, k: int = 1) -> bool:
        return bool(self.results(cell, name, k))

    def of_seeds(self, cell: str, name: str) -> list[dict[str, Any]]:
        """The rows of all seeds."""
        return [row for each in self.results(cell, name) for row in self.rows[each.name][name]]

    def by_id(self, result: Result, name: str) -> list[dict[str, Any]]:
        return sorted(self.rows[result.name][name], key=lambda row: row["problem"])

    def scores(
        self,
        cell: str,
        name: str,
        ks: Sequence[int],
        metric: Metric,
        seeds: Container[int] | None = None,
    ) -> np.ndarray:
        """[problems, ks], the mean over seeds; problems by id. seeds: these alone."""
        found = self.results(cell, name, max(ks))
        found = [each for each in found if seeds is None or each.about["seed"] in seeds]
        return np.mean([self.scores_of(each, name, ks, metric) for each in found], axis=0)

    def seeds(self, cell: str, name: str, k: int = 1) -> list[int]:
        return [each.about["seed"] for each in self.results(cell, name, k)]

    def on_all(self, cell: str, sets: Sequence[str], k: int = 1) -> list[int]:
        """The seeds that are measured on every one of the sets."""
        return sorted(set.intersection(*(set(self.seeds(cell, name, k)) for name in sets)))

    def over(self, cell: str, sets: Sequence[str], ks: Sequence[int]) -> np.ndarray | None:
        """max@k over the problems of all sets, of the seeds that have them all: [problems, ks]."""
        if not (seeds := self.on_all(cell, sets, max(ks))):
            return None
        return np.concatenate([self.scores(cell, name, ks, "max", seeds) for name in sets])

    def as_many(
        self, cell: str, other: str, name: str, k: int, mine: list[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """The seeds to test two cells by: those that both have, or else as many of each.

        A mean of two seeds against one is no fair test (docs/explanation/intervals.md). mine: the
        seeds of the first that are to count, if not all it has.
        """
        mine = self.seeds(cell, name, k) if mine is None else mine
        theirs = self.seeds(other, name, k)
        if shared := sorted(set(mine) & set(theirs)):
            return shared, shared
        fewest = min(len(mine), len(theirs))
        return sorted(mine)[:fewest], sorted(theirs)[:fewest]

    def scores_of(self, result: Result, name: str, ks: Sequence[int], metric: Metric) -> np.ndarray:
        """[problems, ks] of one seed."""
        return scores([row["reward"] for row in self.by_id(result, name)], ks, metric)

    def cut_off(self, cell: str, name: str) -> np.ndarray:
        """[problems], the share of completions that the limit ended; problems by id."""
        each = []
        for result in self.results(cell, name):
            each.append([1 - np.mean(row["stopped"]) for row in self.by_id(result, name)])
        return np.mean(each, axis=0)

    def unfinished(self, cell: str, name: str) -> tuple[float, float]:
        """The share of completions that have ended and do not compile; the reward of the others."""
        broken = STATUSES.index("did not compile")
        rows = self.of_seeds(cell, name)
        status, stopped, reward = (
            np.array([row[key] for row in rows]) for key in ("status", "stopped", "reward")
        )
        bad = (status == broken) & stopped
        return float(bad.mean()), float(reward[~bad].mean())

    def entropies(self, cell: str, name: str) -> np.ndarray:
        """Of completions, where they were computed."""
        rows = self.of_seeds(cell, name)
        values = np.concatenate([np.asarray(row["entropy"], float) for row in rows])
        return values[~np.isnan(values)]


def metric_mean(logged: list[dict[str, list[Any]]], key: str) -> float | None:
    values = [x for each in logged for x in each.get(key, []) if x is not None]
    return float(np.mean(values)) if values else None


def pipes(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table of anything."""

    def text(value: Any) -> str:
        if value is None:
            return ""
        return f"{value:.3f}" if isinstance(value, float) else str(value)

    rows = [list(head), ["--"] * len(head), *([text(v) for v in line] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_interval(gap: Difference) -> str:
    return f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
