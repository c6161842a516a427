"""The report as text: for a terminal, and as a section of a model card."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxk.evaluate import Point
from maxk.report.findings import Findings
from maxk.report.gather import RunData
from maxk.report.places import printable
from maxk.report.sentences import signed
from maxk.report.steps import series
from maxk.report.theme import Figure

if TYPE_CHECKING:
    from rich.console import Console

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 1.0) -> str:
    """Numbers between low and high as small bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    span = (high - low) or 1.0
    places = [(min(max(value, low), high) - low) / span for value in values]
    return "".join(_BARS[min(int(place * len(_BARS)), len(_BARS) - 1)] for place in places)


def show(found: Findings, console: "Console") -> None:
    """Headline, tables and sparklines."""
    from rich.table import Table
    from rich.text import Text

    def printed(text: str) -> None:
        console.print(printable(text), markup=False, highlight=False)

    for sentence in [*found.headline, *found.gathered.missing]:
        printed(sentence)
    if found.evaluations:
        table = Table(box=None, pad_edge=False)
        table.add_column("k", justify="right")
        for name in found.evaluations:
            table.add_column(Text(f"max@k {name}"), justify="right")
        for each in found.effects:
            table.add_column(Text(f"{each.other} minus {each.base}"), justify="right")
        curves = [run.max for run in found.evaluations.values()]
        for k in _common_ks(found):
            cells = [_with_interval(curve.at(k)) for curve in curves]
            changes = [next(c for c in each.changes if c.k == k) for each in found.effects]
            gaps = [f"{signed(c.value)} ({signed(c.low)} to {signed(c.high)})" for c in changes]
            table.add_row(str(k), *cells, *gaps)
        console.print(table)
        width = max(len(name) for name in found.evaluations)
        for name, run in found.evaluations.items():
            line = sparkline([point.value for point in run.max.points])
            ends = f"{run.max.points[0].value:.3f} to {run.max.points[-1].value:.3f}"
            printed(f"{name:<{width}}  {line}  max@k from {ends}")
    for run in found.gathered.trained:
        for line in _training_lines(run):
            printed(line)


def _training_lines(run: RunData) -> list[str]:
    """Sparklines of the main metrics of a training run."""
    lines = []
    keys = [
        key
        for key in ("reward", "max_at/1", "max_at/8", "entropy", "groups/zero_variance")
        if series(run.metrics, key)[1].size
    ]
    for key in keys:
        _, values = series(run.metrics, key)
        means = [float(part.mean()) for part in np.array_split(values, min(len(values), 40))]
        line = sparkline(means, min(means), max(means))
        lines.append(f"{run.name}  {key:<20} {line}  {means[0]:.3f} to {means[-1]:.3f}")
    return lines


def card(found: Findings, figures: Sequence[Figure] = ()) -> str:
    """Markdown for a model card: the main result, the numbers, how they were made."""
    lines = ["## Best-of-N", "", *(_markdown(sentence) for sentence in found.headline)]
    if found.evaluations:
        ks = _common_ks(found)
        for metric in ("max", "pass"):
            lines += ["", f"| {metric}@k | " + " | ".join(f"k = {k}" for k in ks) + " |"]
            lines += ["|:--" + "|--:" * len(ks) + "|"]
            for name, run in found.evaluations.items():
                curve = run.max if metric == "max" else run.passed
                cells = [_with_interval(curve.at(k)) for k in ks]
                lines.append(f"| {_markdown(name)} | " + " | ".join(cells) + " |")
        lines += ["", _settings(found.gathered.sampled)]
    for figure in figures:
        lines += ["", f"![{_markdown(figure.title)}]({figure.name}.png)"]
    return "\n".join(lines) + "\n"


def _settings(runs: Sequence[RunData]) -> str:
    run = runs[0]
    data, settings = run.config["data"], run.config["settings"]
    split = f" ({_markdown(data['split'])})" if data.get("split") else ""
    counts = sorted({each.config["n"] for each in runs})
    samples = (
        f"{counts[0]} samples each" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} samples"
    )
    paired = "" if len(counts) == 1 else ", with as many samples of each run"
    variants = run.config.get("prompt_variants")  # compared runs have the same
    turns = f" with {len(variants)} prompt variants in turn" if variants else ""
    return (
        f"{len(run.samples)} problems of {_markdown(data['name'])}{split}, {samples} "
        f"at temperature {settings['temperature']}, top-p {settings['top_p']}{turns}, up to "
        f"{settings['max_tokens']} tokens; programs judged by unit tests in a sandbox. Estimates "
        "are unbiased in the number of samples; intervals are 95 % bootstraps over problems, "
        f"differences paired by problem{paired}. Made with maxk ([arXiv 2510.23393]"
        "(https://arxiv.org/abs/2510.23393))."
    )


def _common_ks(found: Findings) -> list[int]:
    sets = [{point.k for point in run.max.points} for run in found.evaluations.values()]
    return sorted(set.intersection(*sets))


def _with_interval(point: Point) -> str:
    return f"{point.value:.3f} ({point.low:.3f} to {point.high:.3f})"


def _markdown(text: str) -> str:
    for character in "\\`*_<>[]|":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
