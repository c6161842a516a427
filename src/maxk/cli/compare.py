"""`maxk compare`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from maxk.cli.arguments import POSITIONAL, UsageError, check_numbers
from maxk.cli.console import console, show
from maxk.cli.methods import by_data, samples_compared

if TYPE_CHECKING:
    from maxk.evaluate import Comparison, Pair
    from maxk.evaluate import tables as forms
    from maxk.evaluate.read import Stored

Form = Literal["terminal", "markdown", "latex", "csv"]


@dataclass(frozen=True)
class Compare:
    """Compare methods on the same problems: tables, paired differences.

    A method is one run or several: runs that share a NAME are one method, and FOLDER may hold * and
    ?. With two runs or more on both sides an interval covers other runs of the two methods. One run
    each says nothing about another run, and gets no star.

    The best is bold, the second underlined, and * is p < 0.05 of the best against the second. With
    one data set the columns are values of k, with several they are the data sets at one k.
    """

    runs: Annotated[tuple[str, ...], POSITIONAL]
    """folders, or NAME=FOLDER; all runs of one method share their NAME"""
    group: tuple[str, ...] = ()
    """runs with the same value of these fields of their configuration are one method, such as
    method.name; "config": all fields but the seed"""
    untrained: tuple[str, ...] = ()
    """names of base models: no seed made them, so one run is all there is"""
    minimum_runs: int = 3
    """runs that both methods need for a star"""
    metric: Literal["max", "pass"] = "max"
    """max@k or pass@k"""
    k: tuple[int, ...] = ()
    """columns; with several data sets one k for all columns; default: 1, 2, 4, ... n, or n"""
    against: str | None = None
    """list only differences to this method; default: between all methods"""
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
        check_numbers(minimum_runs=self.minimum_runs)
        if not self.runs:
            raise UsageError("no runs are given; name folders of `maxk sample`")
        sets, lines = by_data(self.runs, self.group)
        if len(sets) == 1:
            (methods,) = sets.values()
            table, found = self.over_k(methods)
            lines += told(found, self.minimum_runs)
        else:
            table = self.over_data(sets)
        lines += [line for methods in sets.values() for line in samples_compared(methods)]
        self.write(table, lines)
        return 0

    def compared(
        self, methods: "dict[str, list[Stored]]", ks: Sequence[int] | None
    ) -> "Comparison":
        from maxk.evaluate import compare

        return compare(
            {name: [run.rewards for run in runs] for name, runs in methods.items()},
            ks,
            self.metric,
            self.against,
            self.correction,
            ensemble=self.ensemble,
            untrained=self.untrained,
            minimum_runs=self.minimum_runs,
        )

    def over_k(self, methods: "dict[str, list[Stored]]") -> "tuple[forms.Table, Comparison]":
        found = self.compared(methods, self.k or None)
        return found.table, found

    def over_data(self, sets: "dict[str, dict[str, list[Stored]]]") -> "forms.Table":
        from maxk.evaluate.evaluation import joined

        names = list(next(iter(sets.values())))
        for data, methods in sets.items():
            if sorted(methods) != sorted(names):
                raise ValueError(
                    f"{data} has runs of {', '.join(methods)}; another data set, of "
                    f"{', '.join(names)}. Give each data set a run of every method: NAME=FOLDER"
                )
        if len(self.k) > 1:
            raise UsageError("--k takes one value with several data sets; give one")
        found = {}
        for data, methods in sets.items():
            fewest = min(len(row) for runs in methods.values() for run in runs for row in run.rows)
            ordered = {name: methods[name] for name in names}
            found[data] = self.compared(ordered, self.k or (fewest,))
        caption = f"{self.metric}@{self.k[0] if self.k else 'n'}"
        return joined(found, caption, self.correction, self.minimum_runs)

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


def told(found: "Comparison", minimum_runs: int) -> list[str]:
    """Every difference, by pairs of methods."""
    lines: list[str] = []
    for pair in found.pairs:
        gap = pair.difference
        if pair.k == found.ks[0]:
            lines.append(heading(pair))
        lines.append(
            f"  {pair.first} - {pair.second}  {found.metric}@{pair.k}  {gap.value:+.3f} "
            f"({gap.low:+.3f} to {gap.high:+.3f})  p = {gap.p:.3g}{corrected(found, pair)}"
        )
        lines += beside(pair)
        if pair.k == found.ks[-1]:
            lines += last(found, pair, minimum_runs)
    how = {"holm": "Holm", "bh": "Benjamini-Hochberg"}.get(found.correction)
    lines.append("interval and p come from one t, each line by itself")
    if how:
        lines.append(
            f"{how}: p corrected for all {len(found.pairs)} differences listed; different is below "
            "0.05; a star is corrected over the columns of the table"
        )
    return lines


def heading(pair: "Pair") -> str:
    gap = pair.difference
    unit = "runs, problems and samples" if gap.by_run else "problems and samples"
    return f"{pair.first} - {pair.second}: differences, 95 % intervals over {unit}"


def corrected(found: "Comparison", pair: "Pair") -> str:
    """What the correction makes of p; the verdict speaks of methods, so it needs runs."""
    name = {"holm": "  Holm", "bh": "  BH"}.get(found.correction)
    text = f"{name} {pair.p_adjusted:.3g}" if name else ""
    if not pair.difference.by_run:
        return text
    return f"{text}  {'different' if pair.p_adjusted < 0.05 else 'not told apart'}"


def beside(pair: "Pair") -> list[str]:
    """Welch's t, and the standard deviation between the runs of each side that has two."""
    gap, parts = pair.difference, []
    if gap.by_run and gap.welch is not None:
        low, high, p = gap.welch.low, gap.welch.high, gap.welch.p
        parts.append(f"Welch's t on run means ({low:+.3f} to {high:+.3f})  p = {p:.3g}")
    sides = (
        (pair.first, gap.sd_first, gap.noise_first),
        (pair.second, gap.sd_second, gap.noise_second),
    )
    for name, deviation, noise in sides:
        if deviation is not None:
            of_samples = "" if noise is None else f" (samples alone {noise:.3f})"
            parts.append(f"standard deviation between runs of {name} {deviation:.3f}{of_samples}")
    return [f"    {'; '.join(parts)}"] if parts else []


def last(found: "Comparison", pair: "Pair", minimum_runs: int) -> list[str]:
    """What holds at all k together, and what so few runs cannot say."""
    gaps = [
        each.difference
        for each in found.pairs
        if (each.first, each.second) == (pair.first, pair.second)
    ]
    lines = []
    if len(gaps) > 1:
        above = [str(gap.k) for gap in gaps if gap.low_all > 0]
        below = [str(gap.k) for gap in gaps if gap.high_all < 0]
        lines.append(
            f"  95 % band of all k together: {pair.first} is above at "
            f"{'k = ' + ', '.join(above) if above else 'no k'}, below at "
            f"{'k = ' + ', '.join(below) if below else 'no k'}"
        )
    gap = pair.difference
    single = [
        name
        for name, runs, trained in zip(
            (pair.first, pair.second), gap.runs, gap.trained, strict=True
        )
        if trained and runs == 1
    ]
    if len(single) == 2:
        lines.append("  one run each: says nothing about another run of the same method")
    elif single:
        lines.append(f"  one run of {single[0]}: says nothing about another run of this method")
    elif not gap.has_runs(minimum_runs):
        lines.append(f"  fewer than {minimum_runs} runs of a method: no star")
    return lines
