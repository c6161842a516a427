"""`maxk allocate`."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from maxk.cli.arguments import POSITIONAL, Short, UsageError, check_places
from maxk.cli.console import console, show

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from maxk.evaluate import tables as forms
    from maxk.evaluate.read import Stored

    Rewards = dict[str, list[np.ndarray]]  # of each problem, by sampling configuration

CHOSEN, VALIDATED = "allocation", "allocation, cross-validated"  # rows of the table
FOLDS = 5


@dataclass(frozen=True)
class Allocate:
    """Allocate the k samples to several sampling configurations.

    Each run is one sampling configuration: a model, a temperature, prompt variants. All runs are on
    the same problems. The result is an order: its first k entries are the allocation of k samples.
    """

    runs: Annotated[tuple[str, ...], POSITIONAL]
    """a run of each sampling configuration: folders, or NAME=FOLDER"""
    k: Annotated[int, Short("-k")] = 128
    """samples of a problem"""
    on: tuple[str, ...] = ()
    """runs of the same names on other problems, to measure the allocation there"""
    metric: Literal["max", "pass"] = "max"
    """max@k or pass@k"""
    intervals: bool = False
    """show confidence intervals in the cells"""
    out: Path | None = None
    """write the order here, as JSON"""

    def run(self) -> int:
        from maxk.evaluate import allocate, allocated, cross_validated
        from maxk.evaluate import tables as forms
        from maxk.evaluate.samples import check_ks

        check_places(out=self.out)
        chosen = runs_of(self.runs)
        order = allocate(list(rewards_of(chosen).values()), self.k, self.metric)
        names = [list(chosen)[i] for i in order]
        ks = check_ks(None, self.k)
        console.print("samples of each configuration among the first 1, 2, 4 ... of the order:")
        console.print(counts_table(names, list(chosen), ks))
        shown = self.others(chosen, names) if self.on else chosen
        by_name = rewards_of(shown)
        rewards = list(by_name.values())
        found = {CHOSEN: allocated(rewards, order, ks, self.metric)}
        if not self.on and (folds := min(FOLDS, len(rewards[0]))) > 1:
            found[VALIDATED] = cross_validated(rewards, self.k, ks, self.metric, folds=folds)
        table = table_of(found, by_name, ks, self.metric)
        show(forms.terminal(table, intervals=self.intervals))
        if self.on:
            lines = self.against_each(by_name, order, ks)
            seen = sum(each in first(chosen).rewards for each in first(shown).rewards)
            if seen:
                lines += [f"the allocation was chosen on {seen} of these problems"]
        else:
            lines = [f"{CHOSEN!r} is measured on the problems that it was chosen on"]
            if VALIDATED in found:
                lines += [f"{VALIDATED!r} measures each fold with the allocation of the others"]
            lines += ["--on measures the allocation on other problems"]
        used_up = [name for name in chosen if names.count(name) == fewest(chosen[name].rows)]
        if used_up:
            lines += [f"all samples of {', '.join(used_up)} are used; sample more to allocate more"]
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
        if self.out is not None:
            made = {"metric": self.metric, "runs": self.runs, "order": names}
            self.out.write_text(json.dumps(made) + "\n")
        return 0

    def others(self, chosen: "dict[str, Stored]", names: Sequence[str]) -> "dict[str, Stored]":
        """The runs of --on, of the same sampling configurations."""
        from maxk.evaluate.read import configuration_of
        from maxk.store.run import differences

        runs = runs_of(self.on)
        if set(runs) != set(chosen):
            raise ValueError(
                f"--on has runs {', '.join(runs)} and the allocation is of {', '.join(chosen)}; "
                "give the same names"
            )
        for name, count in Counter(names).items():
            before, now = configuration_of(chosen[name]), configuration_of(runs[name])
            if rows := differences(before, now):
                text = "\n  ".join(rows)
                raise ValueError(f"{name} of --on has another sampling configuration:\n  {text}")
            if count > (n := fewest(runs[name].rows)):
                raise ValueError(
                    f"{name} of --on has {n} samples of a problem and the allocation needs {count};"
                    " sample more, or give a smaller -k"
                )
        return {name: runs[name] for name in chosen}

    def against_each(
        self, by_name: "Rewards", order: Sequence[int], ks: Sequence[int]
    ) -> list[str]:
        """Paired differences to every configuration alone, with equally many samples.

        The intervals hold for all lines together (Bonferroni), so there is no test beside them that
        could say something else.
        """
        import numpy as np

        from maxk.evaluate import Replicates, allocated, compare_runs, scores
        from maxk.evaluate.allocate import scaled_to

        rows = list(by_name.values())
        parts: dict[tuple[int, int], np.ndarray] = {}
        labels: list[str] = []
        mixed: list[np.ndarray] = []
        alone: list[np.ndarray] = []
        for name, own in by_name.items():
            n = fewest(own)
            for k in [k for k in ks if k <= n]:
                if (n, k) not in parts:
                    some = scaled_to(rows, order[:k], n)
                    parts[n, k] = allocated(some, order[:k], [k], self.metric)
                labels.append(f"{CHOSEN} - {name}  {self.metric}@{k}")
                mixed.append(parts[n, k])
                alone.append(scores(own, [k], self.metric))
        several, one = (Replicates(np.hstack(each)[None]) for each in (mixed, alone))
        together = 1 - 0.05 / len(labels)
        gaps = compare_runs(several, one, range(len(labels)), together)
        return [
            "differences to as many samples of one configuration; the intervals are over problems "
            f"and hold for all {len(labels)} lines together in 95 %:",
            *(
                f"  {label}  {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
                for label, gap in zip(labels, gaps, strict=True)
            ),
        ]


def runs_of(given: Sequence[str]) -> "dict[str, Stored]":
    """Two runs or more on the same problems, by name."""
    from maxk.evaluate.evaluation import refuse_different_problems
    from maxk.evaluate.read import read_run, refuse_other_problems

    runs: dict[str, Stored] = {}
    for each in given:
        name, equals, folder = each.rpartition("=")
        run = read_run(folder, name=name if equals else None)
        if run.name in (*runs, CHOSEN, VALIDATED):
            raise UsageError(f"{run.name!r} is taken; give this run another name: NAME={folder}")
        runs[run.name] = run
    if len(runs) < 2:
        raise UsageError(
            f"{len(runs)} runs are given; an allocation needs two sampling configurations or more"
        )
    refuse_other_problems(list(runs.values()))
    refuse_different_problems({name: run.rewards for name, run in runs.items()})
    return runs


def rewards_of(runs: "dict[str, Stored]") -> "Rewards":
    return {name: [run.rewards[each] for each in first(runs).rewards] for name, run in runs.items()}


def first(runs: "dict[str, Stored]") -> "Stored":
    return next(iter(runs.values()))


def fewest(rows: "Sequence[np.ndarray]") -> int:
    return min(map(len, rows))


def counts_table(order: Sequence[str], names: Sequence[str], ks: Sequence[int]) -> "Table":
    """How many samples of each configuration are among the first k of the order."""
    from rich.table import Table

    table = Table(box=None)
    table.add_column()
    for k in ks:
        table.add_column(str(k), justify="right")
    for name in names:
        counts = [order[:k].count(name) for k in ks]
        table.add_row(name, *(str(count or "-") for count in counts))
    return table


def table_of(
    allocations: "dict[str, np.ndarray]",
    by_name: "Rewards",
    ks: Sequence[int],
    metric: Literal["max", "pass"],
) -> "forms.Table":
    """Allocations and every configuration alone, with intervals; empty where n < k.

    Nothing is ranked: a rank would be a test of unequal numbers of samples.
    """
    import numpy as np

    from maxk.evaluate import scores
    from maxk.evaluate import tables as forms
    from maxk.evaluate.bootstrap import mean_interval

    columns = dict(allocations)
    for name, rows in by_name.items():
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
