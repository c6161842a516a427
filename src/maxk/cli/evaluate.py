"""`maxk evaluate` and `maxk forecast`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from maxk.cli.arguments import POSITIONAL
from maxk.cli.console import console

if TYPE_CHECKING:
    from rich.table import Table

    from maxk.evaluate import Curve


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
            "tokens": run.tokens,
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
