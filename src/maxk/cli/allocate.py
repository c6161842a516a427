"""`maxk plan`."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from rich.table import Table

from maxk.cli.console import console, show
from maxk.evaluate import adjust, allocate, allocated, cross_validated, differences, scores
from maxk.evaluate import tables as forms
from maxk.evaluate.allocate import scaled_to
from maxk.evaluate.bootstrap import mean_interval
from maxk.evaluate.evaluation import refuse_different_problems
from maxk.evaluate.read import Stored, configuration_of, read_run, refuse_other_problems
from maxk.evaluate.samples import check_ks
from maxk.store.run import differences as differences_of_config

Ways = dict[str, list[np.ndarray]]  # rewards of each problem by way, all of the same problems
PLAN, ELSEWHERE = "plan", "elsewhere"  # what the tables call it, and what it is worth on others
FOLDS = 5


@dataclass(frozen=True)
class Plan:
    """Which way to sample first: an order for Best-of-N from several runs on the same problems.

    The runs may differ in model, temperature, hints and all other settings.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """a run for each way to sample: folders, or NAME=FOLDER"""
    k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 128
    """samples of a problem"""
    on: tuple[str, ...] = ()
    """the same names with runs on other problems, for figures that the choice does not flatter"""
    metric: Literal["max", "pass"] = "max"
    intervals: bool = False
    """show them in the cells"""
    out: Path | None = None
    """write the order here, as JSON"""

    def run(self) -> int:
        chosen = runs_of(self.runs)
        order = allocate(list(rows_of(chosen).values()), self.k, self.metric)
        names = [list(chosen)[way] for way in order]
        ks = check_ks(None, self.k)
        console.print("samples of each way among the first 1, 2, 4 ... of the plan:")
        console.print(counts_table(names, list(chosen), ks))
        shown = self.others(chosen, names) if self.on else chosen
        ways = rows_of(shown)
        rewards = list(ways.values())
        plans = {PLAN: allocated(rewards, order, ks, self.metric)}
        if not self.on and (folds := min(FOLDS, len(rewards[0]))) > 1:
            plans[ELSEWHERE] = cross_validated(rewards, self.k, ks, self.metric, folds=folds)
        found = figures(plans, ways, ks, self.metric)
        show(forms.terminal(found, intervals=self.intervals))
        if self.on:
            lines = self.against_each(ways, order, ks)
            seen = sum(each in first(chosen).rewards for each in first(shown).rewards)
            if seen:
                lines += [f"{seen} of these problems have an id of those the plan was chosen on"]
        else:
            lines = [f"the figures of {PLAN!r} are of the problems it was chosen on"]
            if ELSEWHERE in plans:
                lines += [f"{ELSEWHERE!r} has each problem by a plan of the others, fold by fold"]
            lines += ["--on takes runs on other problems"]
        used_up = [name for name in chosen if names.count(name) == fewest(chosen[name].rows)]
        if used_up:
            lines += [f"all there are of {', '.join(used_up)}: with more the plan might take more"]
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
        if self.out is not None:
            made = {"metric": self.metric, "runs": self.runs, "order": names}
            self.out.write_text(json.dumps(made) + "\n")
        return 0

    def others(self, chosen: dict[str, Stored], names: Sequence[str]) -> dict[str, Stored]:
        """The runs of --on, sampled as those that the plan was chosen on."""
        runs = runs_of(self.on)
        if set(runs) != set(chosen):
            raise ValueError(
                f"--on has {', '.join(runs)} and the plan is of {', '.join(chosen)}; give the same"
                " names"
            )
        for name, count in Counter(names).items():
            if rows := differences_of_config(
                configuration_of(chosen[name]), configuration_of(runs[name])
            ):
                raise ValueError(f"{name} of --on is another way:\n  " + "\n  ".join(rows))
            if count > (n := fewest(runs[name].rows)):
                raise ValueError(
                    f"{name} of --on has {n} samples of a problem and the plan asks for {count}; "
                    "sample more, or give a smaller -k"
                )
        return {name: runs[name] for name in chosen}

    def against_each(self, ways: Ways, order: Sequence[int], ks: Sequence[int]) -> list[str]:
        """The paired differences to every way alone, of as many samples as there are of it."""
        rows = list(ways.values())
        parts: dict[tuple[int, int], np.ndarray] = {}
        labels, ours, theirs = [], [], []
        for name, own in ways.items():
            n = fewest(own)
            for k in [k for k in ks if k <= n]:
                if (n, k) not in parts:
                    some = scaled_to(rows, order[:k], n)
                    parts[n, k] = allocated(some, order[:k], [k], self.metric)
                labels.append(f"{PLAN} - {name}  {self.metric}@{k}")
                ours.append(parts[n, k])
                theirs.append(scores(own, [k], self.metric))
        gaps = differences(np.hstack(ours), np.hstack(theirs))
        adjusted = adjust([gap.p for gap in gaps])
        return [
            "differences to as many samples of one way, 95 % interval, p (holm):",
            *(
                f"  {label}  {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})  p = {p:.3g}"
                for label, gap, p in zip(labels, gaps, adjusted, strict=True)
            ),
        ]


def runs_of(given: Sequence[str]) -> dict[str, Stored]:
    """Two runs or more on the same problems, by name."""
    runs: dict[str, Stored] = {}
    for each in given:
        name, equals, folder = each.rpartition("=")
        run = read_run(folder, name=name if equals else None)
        if run.name in (*runs, PLAN, ELSEWHERE):
            raise ValueError(f"{run.name!r} is taken; give this run another name: NAME={folder}")
        runs[run.name] = run
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} runs are given; a plan is of two ways to sample or more")
    refuse_other_problems(list(runs.values()))
    refuse_different_problems({name: run.rewards for name, run in runs.items()})
    return runs


def rows_of(runs: dict[str, Stored]) -> Ways:
    return {name: [run.rewards[each] for each in first(runs).rewards] for name, run in runs.items()}


def first(runs: dict[str, Stored]) -> Stored:
    return next(iter(runs.values()))


def fewest(rows: Sequence[np.ndarray]) -> int:
    return min(map(len, rows))


def counts_table(order: Sequence[str], names: Sequence[str], ks: Sequence[int]) -> Table:
    """How many samples of each way are among the first so many."""
    table = Table(box=None)
    table.add_column()
    for k in ks:
        table.add_column(str(k), justify="right")
    for name in names:
        counts = [order[:k].count(name) for k in ks]
        table.add_row(name, *(str(count or "-") for count in counts))
    return table


def figures(
    plans: dict[str, np.ndarray],
    ways: Ways,
    ks: Sequence[int],
    metric: Literal["max", "pass"],
) -> forms.Table:
    """Plans and every way alone, with intervals; nothing where there are fewer than k samples.

    No ranks: they would be tests of unequal numbers of samples.
    """
    columns = dict(plans)
    for name, rows in ways.items():
        columns[name] = scores(rows, [k for k in ks if k <= fewest(rows)], metric)
    values_PK = np.hstack(list(columns.values()))
    low_K, high_K = mean_interval(values_PK)
    cells = map(forms.Cell, values_PK.mean(0).tolist(), low_K.tolist(), high_K.tolist())
    none = forms.Cell(float("nan"))
    lines = [[next(cells) for _ in each.T] for each in columns.values()]
    return forms.Table(
        rows=tuple(columns),
        columns=tuple(f"{metric}@{k}" for k in ks),
        cells=tuple(tuple(line + [none] * (len(ks) - len(line))) for line in lines),
        caption=f"{len(values_PK)} problems",
    )
