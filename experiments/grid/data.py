"""All results of a folder, as the tables need them."""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.grid.results import Result
from experiments.results.add import stock_of
from experiments.results.compact import GRID, RESULTS, Metrics, samples_of
from maxk.evaluate import Difference, scores
from maxk.evaluate.samples import Metric


class Data:
    """All results, by cell and set."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder, self.stock = folder, stock_of(folder)
        self.cells: dict[str, list[Result]] = defaultdict(list)
        for name, about in self.stock.runs(GRID).items():
            self.cells[about["cell"] + about["tag"]].append(Result(name, about))

    @cached_property
    def rows(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """By result and set."""
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for (study, run), rows in self.stock.rows.items():
            if study == GRID:
                found[run] = defaultdict(list)
                for row in rows:
                    found[run][row["set"]].append(row)
        return found

    def logged(self, result: Result) -> Metrics:
        """What a run logged at its steps, as far as it is kept."""
        return self.stock.metrics.get((GRID, result.name), {})

    def rewards(self, result: Result, name: str) -> list[np.ndarray]:
        """The samples of each problem, lowest reward first; problems by id."""
        return [samples_of(row) for row in self.by_id(result, name)]

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
        return scores(self.rewards(result, name), ks, metric)

    def cut_off(self, cell: str, name: str) -> np.ndarray:
        """[problems], the share of completions that the limit ended; problems by id."""
        each = []
        for result in self.results(cell, name):
            each.append([1 - row["ended"] / sum(row["count"]) for row in self.by_id(result, name)])
        return np.mean(each, axis=0)

    def unfinished(self, cell: str, name: str) -> tuple[float, float]:
        """The share of completions that have ended and do not compile; the reward of the others."""
        rows = self.of_seeds(cell, name)
        samples, bad = (sum(map(of, rows)) for of in (count_of, lambda row: row["unfinished"]))
        reward = sum(float(np.dot(row["reward"], row["count"])) for row in rows)
        return bad / samples, reward / (samples - bad)

    def entropy(self, cell: str, name: str) -> float:
        """The mean of completions, where it was computed; nan if it was of none."""
        rows = self.of_seeds(cell, name)
        known = sum(row["entropies"] for row in rows)
        return sum(row["entropy"] for row in rows) / 1000 / known if known else float("nan")


def count_of(row: dict[str, Any]) -> int:
    return sum(row["count"])


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
