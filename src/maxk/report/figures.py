"""The figures of sampling runs: what is drawn, and the data of each as a table."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxk.evaluate import Point
from maxk.report.findings import Findings
from maxk.report.gather import RunData
from maxk.report.steps import STAGES, seconds, training
from maxk.report.theme import (
    FAINT,
    MUTED,
    Figure,
    Numbers,
    Style,
    draw_line,
    legend,
    legend_above,
    styles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOVES = {  # colour, marker, in the legend, in the table
    "lost": ("#d55e00", "v", "lost", "solved by the base model alone"),
    "gained": ("#0072b2", "^", "gained", "not solved by the base model"),
    "solved": (MUTED, "o", "solved by both", "solved by both"),
    "never": (FAINT, "o", "by neither", "solved by neither"),
}


def all_figures(found: Findings) -> dict[str, list[Figure]]:
    """Every figure that has data, by the section of the report that shows it."""
    methods = dict.fromkeys(run.method or run.name for run in found.gathered.runs)
    by_method = styles(list(methods))
    look = by_method | {
        run.name: replace(by_method[run.method or run.name], label=run.name.replace("$", r"\$"))
        for run in found.gathered.runs
    }
    sections: dict[str, list[Figure]] = {}
    if found.gathered.sampled:
        sections["curves"] = [curves(found, look, "pass"), curves(found, look, "max")]
        sections["moves"] = [moves(found, each.other, look) for each in found.effects]
        entropies = [
            run for run in found.gathered.sampled if run.stored and len(run.stored.entropies)
        ]
        sections["entropy"] = [entropy(entropies, look)] if entropies else []
        sections["cost"] = [cost(found, look)] if _has_tokens(found.gathered.sampled) else []
    logged = [run for run in found.gathered.trained if run.metrics]
    sections["training"] = training(logged, look)
    if any(
        f"seconds/{stage}" in line for run in logged for line in run.metrics for stage in STAGES
    ):
        sections.setdefault("cost", []).append(seconds(logged))
    return {name: figures for name, figures in sections.items() if figures}


# --- against the base model ----------------------------------------------------------------------


def curves(found: Findings, look: dict[str, Style], metric: str) -> Figure:
    """Figure 1 of the paper: the metric over k, a line for each method.

    The band is over runs where a method has several, with a thin line for each, else over problems.
    """
    single = {
        name: (run.passed if metric == "pass" else run.max)
        for name, run in found.evaluations.items()
    }
    lines, behind = {}, {}
    for name, runs in found.gathered.methods.items():
        if len(runs) == 1:
            lines[name] = single[runs[0].name]
        else:
            lines[name] = found.over_runs[name][metric]
            behind[name] = [single[run.name] for run in runs]

    def draw(axes: "Axes") -> None:
        for name, line in lines.items():
            style = look[name]
            ks = [point.k for point in line.points]
            for run in behind.get(name, ()):
                values = [point.value for point in run.points]
                axes.plot(ks, values[: len(ks)], color=style.colour, alpha=0.45, linewidth=0.6)
            low = [point.low for point in line.points]
            high = [point.high for point in line.points]
            axes.fill_between(ks, low, high, color=style.colour, alpha=0.16, linewidth=0)
            values = [point.value for point in line.points]
            draw_line(axes, ks, values, style)
        axes.set_xscale("log", base=2)
        _ticks_of_k(axes, [point.k for line in lines.values() for point in line.points])
        axes.set_xlabel("k, samples to choose from")
        axes.set_ylabel(f"{metric}@k")
        legend(axes, "lower right")

    ks = sorted({point.k for line in lines.values() for point in line.points})
    rows = []
    for k in ks:
        cells = [next((p for p in line.points if p.k == k), None) for line in lines.values()]
        rows.append((str(k), *("" if p is None else _with_interval(p) for p in cells)))
    return Figure(
        f"{metric}-at-k",
        f"{metric}@k",
        _of_band(found),
        draw,
        Numbers(("k", *lines), tuple(rows)),
    )


def _of_band(found: Findings) -> str:
    several = [f"{name} ({len(runs)})" for name, runs in found.gathered.methods.items() if runs[1:]]
    if not several:
        return "Mean over problems; the band is the 95 % interval over problems."
    text = (
        f"Mean over problems and runs: {', '.join(several)}. Of these a thin line is a run, and "
        "the band is the 95 % interval over runs, on the same problems"
    )
    if len(several) == len(found.gathered.methods):
        return f"{text}."
    return f"{text}; of the others the band is over problems."


def moves(found: Findings, other: str, look: dict[str, Style]) -> Figure:
    """Share of passing samples of every problem, base model against another run, on log scales."""
    base = next(iter(found.gathered.methods))
    moved = found.moves(other)
    both = [found.gathered.pooled(name) for name in (base, other)]
    n = max(len(samples) for run in both for samples in run.samples.values())
    zero = 0.4 / n

    by_kind = {kind: [each for each in moved if each.move == kind] for kind in _MOVES}

    def draw(axes: "Axes") -> None:
        axes.plot([zero, 1], [zero, 1], color=FAINT, linewidth=0.8, zorder=0)
        for kind, (colour, marker, label, _) in _MOVES.items():
            places = Counter(
                (max(each.base, zero), max(each.other, zero)) for each in by_kind[kind]
            )
            for size in sorted({_size(count) for count in places.values()}):
                chosen = [place for place, count in places.items() if _size(count) == size]
                xs, ys = zip(*chosen, strict=True)
                axes.plot(xs, ys, marker, color=colour, ms=size, mew=0, alpha=0.75)
            label = f"{label} ({places.total()})"
            axes.plot([], [], marker, color=colour, ms=5, mew=0, label=label)
        for side in ("x", "y"):
            _log_ticks_with_zero(axes, side, zero, n)
        axes.set_xlabel(f"success with {look[base].label}")
        axes.set_ylabel(f"success with {look[other].label}")
        legend_above(axes)

    rows = tuple(
        (text, str(len(by_kind[kind])), str(sum(each.chance < 0.05 for each in by_kind[kind])))
        for kind, (_, _, _, text) in _MOVES.items()
    )
    return Figure(
        f"moves-{_file_name(other)}",
        f"Where problems moved, {other}",
        f"Share of up to {n} samples that pass, on log scales. Below the diagonal a problem became "
        "harder than for the base; at 0 it is never solved. A larger mark is several problems.",
        draw,
        Numbers(("problems", "number", "beyond chance"), rows),
    )


def _size(count: int) -> float:
    """The size of a mark for several problems; few sizes, as each adds a shape to the file."""
    return (3.0, 4.5, 6.5, 9.0)[min(int(np.log2(count)), 3)]


def entropy(runs: Sequence[RunData], look: dict[str, Style]) -> Figure:
    """Figure 2 of the paper: the entropy of completions."""
    values = {run.name: run.stored.entropies for run in runs if run.stored is not None}
    top = max(float(np.percentile(each, 99.5)) for each in values.values()) or 1.0
    edges = np.linspace(0, top, 41)

    def draw(axes: "Axes") -> None:
        for name, each in values.items():
            style = look[name]
            density = np.histogram(each, edges)[0] / (len(each) * edges[1])
            axes.stairs(density, edges, fill=True, color=style.colour, alpha=0.16)
            axes.stairs(density, edges, color=style.colour, label=style.label, linestyle=style.dash)
            axes.axvline(float(np.median(each)), color=style.colour, linewidth=0.9, dashes=(2, 2))
        axes.set_xlim(0, top)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("entropy of a completion, nats a token")
        axes.set_ylabel("density")
        legend(axes, "upper right")

    marks = (5, 25, 50, 75, 95)
    rows = tuple(
        (name, f"{each.mean():.3f}", *(f"{x:.3f}" for x in np.percentile(each, marks)))
        for name, each in values.items()
    )
    return Figure(
        "entropy",
        "Entropy of completions",
        "Mean over the tokens of each completion, at temperature 1, up to the 99.5th percentile; "
        "the dashed lines are medians.",
        draw,
        Numbers(("run", "mean", *(f"{mark} %" for mark in marks)), rows),
    )


# --- cost ----------------------------------------------------------------------------------------


def _has_tokens(runs: Sequence[RunData]) -> bool:
    return any(run.stored is not None and run.stored.tokens for run in runs)


def cost(found: Findings, look: dict[str, Style]) -> Figure:
    """max@k over the number of tokens sampled, which charges longer completions."""
    lines = {}
    for run in found.gathered.sampled:
        if run.stored is not None and run.stored.tokens:
            each = run.stored.tokens / run.stored.samples
            points = found.evaluations[run.name].max.points
            lines[run.name] = [(each * point.k, point.value, point.k) for point in points]

    def draw(axes: "Axes") -> None:
        for name, points in lines.items():
            draw_line(axes, [x for x, _, _ in points], [y for _, y, _ in points], look[name])
        axes.set_xscale("log")
        axes.set_xlabel("tokens sampled for a problem, k times the mean length")
        axes.set_ylabel("max@k")
        legend(axes, "lower right")

    rows = tuple(
        (name, str(k), f"{tokens:,.0f}", f"{value:.3f}")
        for name, points in lines.items()
        for tokens, value, k in points
    )
    return Figure(
        "cost",
        "max@k by tokens",
        "max@k over the number of sampled tokens.",
        draw,
        Numbers(("run", "k", "tokens a problem", "max@k"), rows),
    )


# --- axes ------------------------------------------------------------------------


def _ticks_of_k(axes: "Axes", ks: Sequence[int]) -> None:
    """Every k that has a point; every other one where there are many."""
    shown = sorted(set(ks))
    shown = shown[:: 2 if len(shown) > 9 else 1]
    axes.set_xticks(shown, [str(k) for k in shown])
    axes.minorticks_off()


def _log_ticks_with_zero(axes: "Axes", side: str, zero: float, n: int) -> None:
    marks = [mark for mark in (0.001, 0.01, 0.1, 1.0) if mark >= 1.3 * zero and mark * n > 0.5]
    labels = ["0", *(f"{mark:g}" for mark in marks)]
    if side == "x":
        axes.set_xscale("log")
        axes.set_xticks([zero, *marks], labels)
        axes.set_xlim(zero / 1.5, 1.35)
        axes.axvline(zero * 1.6, color=FAINT, linewidth=0.8)
    else:
        axes.set_yscale("log")
        axes.set_yticks([zero, *marks], labels)
        axes.set_ylim(zero / 1.5, 1.35)
        axes.axhline(zero * 1.6, color=FAINT, linewidth=0.8)
    axes.minorticks_off()


def _with_interval(point: Point) -> str:
    return f"{point.value:.3f} ({point.low:.3f} to {point.high:.3f})"


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
