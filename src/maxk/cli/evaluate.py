"""`maxk evaluate`, `maxk compare` and `maxk forecast`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from maxk.cli.arguments import POSITIONAL, UsageError
from maxk.cli.console import console, show

if TYPE_CHECKING:
    from rich.table import Table

    from maxk.evaluate import Curve
    from maxk.evaluate import tables as forms
    from maxk.evaluate.read import Stored

Form = Literal["terminal", "markdown", "latex", "csv"]


@dataclass(frozen=True)
class Evaluate:
    """Print pass@k and max@k of a run, with confidence intervals."""

    folder: Annotated[Path, POSITIONAL]
    """a run of `maxk sample`"""
    k: tuple[int, ...] = ()
    """values of k; default: 1, 2, 4, ... n"""
    verdicts: str = "verdicts"
    """the table of verdicts, if the run has several"""
    diversity: bool = True
    """print the share of different programs"""
    json: Path | None = None
    """write all numbers here, as JSON"""

    def run(self) -> int:
        import numpy as np
        from rich.table import Table

        from maxk.evaluate import evaluate
        from maxk.evaluate.read import read_run, unique_programs

        run = read_run(self.folder, self.verdicts)
        found = evaluate(run.rows, self.k or None, run.difficulties)
        table = Table(box=None, title=f"{run.name}: {found.max.problems} problems")
        for column in ("k", "pass@k", "95 %", "±", "max@k", "95 %", "±"):
            table.add_column(column, justify="right")
        for one, best in zip(found.passed.points, found.max.points, strict=True):
            table.add_row(str(one.k), *shown(one), *shown(best))
        console.print(table)
        console.print("95 %: interval over problems; ±: standard error over samples", markup=False)
        if len(set(run.difficulties)) > 1:
            console.print(by_difficulty(found.passed_by_group, found.max_by_group))
        facts: dict[str, Any] = {
            "completions": run.samples,
            **({} if run.tokens is None else {"tokens": run.tokens}),
            "coverage": found.coverage,
            "statuses": {k: n / run.samples for k, n in run.statuses.most_common()},
        }
        if len(run.entropies):
            marks = (5, 25, 50, 75, 95)
            values = np.percentile(run.entropies, marks)
            facts["entropy"] = {
                "mean": float(run.entropies.mean()),
                **{f"{mark} %": float(value) for mark, value in zip(marks, values, strict=True)},
            }
        if self.diversity:
            facts["different programs"] = unique_programs(self.folder)
        console.print(fact_table(facts))
        if self.json is not None:
            curves = {"pass": asdict(found.passed), "max": asdict(found.max)}
            self.json.write_text(json.dumps({"curves": curves, **facts}, indent=1) + "\n")
        return 0


def shown(point: Any) -> tuple[str, str, str]:
    interval = f"{point.low:.3f} to {point.high:.3f}"
    return f"{point.value:.3f}", interval, f"{point.sampling_error:.3f}"


def by_difficulty(passed: "dict[Any, Curve]", best: "dict[Any, Curve]") -> "Table":
    from rich.table import Table

    table = Table(box=None, title="by difficulty")
    first, last = (curve.points for curve in (next(iter(passed.values())),) * 2)
    ks = (first[0].k, last[-1].k)
    table.add_column("difficulty")
    table.add_column("problems", justify="right")
    for name in ("pass", "max"):
        for k in dict.fromkeys(ks):
            table.add_column(f"{name}@{k}", justify="right")
    for label in passed:
        cells = [
            f"{curve.at(k).value:.3f}"
            for curve in (passed[label], best[label])
            for k in dict.fromkeys(ks)
        ]
        table.add_row(str(label), str(passed[label].problems), *cells)
    return table


def fact_table(facts: dict[str, Any]) -> "Table":
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, fact in facts.items():
        if isinstance(fact, dict):
            text = ", ".join(f"{key} {value:.3f}" for key, value in fact.items())
        else:
            text = f"{fact:.3f}" if isinstance(fact, float) else f"{fact:,}"
        table.add_row(name, text)
    return table


@dataclass(frozen=True)
class Compare:
    """Compare runs on the same problems: tables, paired differences.

    The best is bold, the second underlined, and * is p < 0.05, as in the paper's tables. With one
    data set the columns are values of k, with several they are the data sets at one k.
    """

    runs: Annotated[tuple[str, ...], POSITIONAL]
    """folders, or NAME=FOLDER; runs of one method on several data sets share their NAME"""
    metric: Literal["max", "pass"] = "max"
    """max@k or pass@k"""
    k: tuple[int, ...] = ()
    """columns; with several data sets one k for all columns; default: 1, 2, 4, ... n, or n"""
    against: str | None = None
    """list only differences to this run; default: between all runs"""
    correction: Literal["holm", "bh", "none"] = "holm"
    """of p-values, over all differences that are listed"""
    ensemble: bool = False
    """add an ensemble: the same number of samples, divided over all runs"""
    form: Form = "terminal"
    """of the tables"""
    intervals: bool = False
    """show confidence intervals in the cells"""
    out: Path | None = None
    """write the tables here instead of printing them"""

    def run(self) -> int:
        groups = self.by_data()
        lines: list[str] = []
        if len(groups) == 1:
            (runs,) = groups.values()
            table, lines = self.over_k(runs)
        else:
            table = self.over_data(groups)
        lines += [line for runs in groups.values() for line in fewer_compared(runs)]
        self.write(table, lines)
        return 0

    def by_data(self) -> "dict[str, dict[str, Stored]]":
        """The runs by data set and method."""
        from maxk.evaluate.read import read_run, refuse_other_settings

        if not self.runs:
            raise UsageError("no runs are given; name folders of `maxk sample`")
        groups: dict[str, dict[str, Stored]] = {}
        for given in self.runs:
            name, equals, folder = given.rpartition("=")
            run = read_run(folder, name=name if equals else None)
            group = groups.setdefault(run.config["data"]["name"], {})
            if run.name in group:
                raise UsageError(f"two runs are called {run.name!r}; name them: NAME=FOLDER")
            group[run.name] = run
        for group in groups.values():
            refuse_other_settings(list(group.values()))
        return groups

    def over_k(self, runs: "dict[str, Stored]") -> "tuple[forms.Table, list[str]]":
        from maxk.evaluate import compare

        found = compare(
            {name: run.rewards for name, run in runs.items()},
            self.k or None,
            self.metric,
            self.against,
            self.correction,
            ensemble=self.ensemble,
        )
        lines = [f"differences, 95 % interval, p ({found.correction}):"]
        for pair in found.pairs:
            gap = pair.difference
            lines.append(
                f"  {pair.first} - {pair.second}  {found.metric}@{pair.k}  {gap.value:+.3f} "
                f"({gap.low:+.3f} to {gap.high:+.3f})  p = {pair.p_adjusted:.3g}"
            )
        return found.table, lines

    def over_data(self, groups: "dict[str, dict[str, Stored]]") -> "forms.Table":
        from maxk.evaluate import ranked
        from maxk.evaluate.evaluation import equal_counts, scores_of_all

        methods = list(next(iter(groups.values())))
        columns = {}
        for data, runs in groups.items():
            if sorted(runs) != sorted(methods):
                raise ValueError(
                    f"{data} has runs of {', '.join(runs)}; another data set, of "
                    f"{', '.join(methods)}. Give each data set a run of every method: NAME=FOLDER"
                )
            rows = equal_counts({name: runs[name].rewards for name in methods})
            fewest = min(len(row) for run in runs.values() for row in run.rows)
            (k,) = self.k or (fewest,)
            given = {name: list(each.values()) for name, each in rows.items()}
            found = scores_of_all(given, [k], self.metric, ensemble=self.ensemble)
            columns[data] = {name: each[:, 0] for name, each in found.items()}
        return ranked(columns, f"{self.metric}@{self.k[0] if self.k else 'n'}")

    def write(self, table: "forms.Table", lines: Sequence[str]) -> None:
        from maxk.evaluate import tables as forms

        if self.form == "terminal" and self.out is None:
            show(forms.terminal(table, intervals=self.intervals))
            for line in lines:
                console.print(line, markup=False, soft_wrap=True)
            return
        writers: dict[str, Callable[[forms.Table], str]] = {
            "markdown": self.markdown,
            "latex": lambda table: forms.latex(table, intervals=self.intervals),
            "csv": forms.csv,
            "terminal": self.markdown,
        }
        text = writers[self.form](table).rstrip() + "\n"
        if lines and self.form in ("markdown", "terminal"):
            text += "\n" + "\n".join(lines) + "\n"
        if self.out is None:
            print(text, end="")
        else:
            self.out.write_text(text)

    def markdown(self, table: "forms.Table") -> str:
        from maxk.evaluate import tables as forms

        head = f"{table.caption}\n\n" if table.caption else ""
        return head + forms.markdown(table, intervals=self.intervals)


def fewer_compared(runs: "dict[str, Stored]") -> list[str]:
    """A line that says how many samples are compared, where the runs have different numbers."""
    have = {name: min(map(len, run.rows)) for name, run in runs.items()}
    if len(set(have.values())) == 1:
        return []
    counts = ", ".join(f"{name} {count}" for name, count in have.items())
    return [f"samples of a problem: {counts}; the first {min(have.values())} of each are compared"]


@dataclass(frozen=True)
class Forecast:
    """Forecast max@k or pass@k for more samples than a run has."""

    folder: Annotated[Path, POSITIONAL]
    """a run of `maxk sample`"""
    k: tuple[int, ...] = ()
    """values of k; default: n to 16 n, doubling"""
    metric: Literal["max", "pass"] = "max"
    """max@k or pass@k"""

    def run(self) -> int:
        from rich.table import Table

        from maxk.evaluate import forecast, scores
        from maxk.evaluate.read import read_run

        run = read_run(self.folder)
        n = min(map(len, run.rows))
        ks = self.k or tuple(n * 2**i for i in range(5))
        found = forecast(run.rows, ks, self.metric)
        table = Table(box=None, title=f"{run.name}: forecast from {n} samples a problem")
        for column in ("k", f"{self.metric}@k", "95 %", "gain over n"):
            table.add_column(column, justify="right")
        here = float(scores(run.rows, [n], self.metric).mean())
        for point in found.points:
            interval = f"{point.low:.3f} to {point.high:.3f}"
            table.add_row(
                str(point.k), f"{point.value:.3f}", interval, f"{point.value - here:+.3f}"
            )
        console.print(table)
        console.print("beyond about 10 n this is a guess: no sample shows unsolved problems solved")
        return 0
