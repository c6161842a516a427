"""The figures of the report: what is drawn, and the numbers behind each as a table.

A figure is one panel, so that a page can put several side by side or below each other. Colours are
those of Okabe and Ito, which the colour-blind can tell apart; lines also differ in dash and marker,
for print. The page recolours them in dark mode by their values (`page.css`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk.report.findings import Findings, Moved
from maxk.report.gather import RunData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, FAINT = "#1f2328", "#59636e", "#d1d9e0"
COLOURS = ("#6e7781", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
DASHES = ("-", "-", "-", "--", "--", "--")
MARKERS = ("o", "s", "^", "D", "v", "P")
LOST, GAINED = "#d55e00", "#0072b2"
STAGES = {"sampling": "#0072b2", "verifying": "#e69f00", "pre-pass": "#cc79a7", "update": "#009e73"}
MOST_ROWS = 24  # of a table over steps


@dataclass(frozen=True)
class Numbers:
    """A table of text, its first column the label of the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """One panel: how to draw it, and what is drawn as numbers."""

    name: str  # of its files
    title: str
    caption: str
    draw: Callable[["Axes"], None]
    numbers: Numbers


@dataclass(frozen=True)
class Style:
    """How one run is drawn, in every figure alike."""

    label: str
    colour: str
    dash: str
    marker: str


def styles(names: Sequence[str]) -> dict[str, Style]:
    """The first run is grey: it is what the others are seen against."""
    return {
        name: Style(
            name.replace("$", r"\$"),  # matplotlib would read mathematics
            COLOURS[i % len(COLOURS)],
            DASHES[i % len(DASHES)],
            MARKERS[i % len(MARKERS)],
        )
        for i, name in enumerate(names)
    }


def all_figures(found: Findings) -> dict[str, list[Figure]]:
    """Every figure there are data for, by the section of the report that shows it."""
    look = styles([run.name for run in found.gathered.runs])
    sections: dict[str, list[Figure]] = {}
    if found.gathered.sampled:
        sections["curves"] = [curves(found, look, "pass"), curves(found, look, "max")]
        sections["moves"] = [moves(found, each.after, look) for each in found.effects]
        entropies = [run for run in found.gathered.sampled if run.stored and len(run.stored.entropies)]
        sections["entropy"] = [entropy(entropies, look)] if entropies else []
        sections["cost"] = [cost(found, look)] if _has_tokens(found.gathered.sampled) else []
    logged = [run for run in found.gathered.trained if run.metrics]
    sections["training"] = training(logged, look)
    if any(f"seconds/{stage}" in line for run in logged for line in run.metrics for stage in STAGES):
        sections.setdefault("cost", []).append(seconds(logged))
    return {name: figures for name, figures in sections.items() if figures}


# --- before and after ----------------------------------------------------------------------------


def curves(found: Findings, look: dict[str, Style], metric: str) -> Figure:
    """Figure 1 of the paper: the metric over k with the interval over problems."""
    lines = {
        name: (run.passed if metric == "pass" else run.max)
        for name, run in found.evaluations.items()
    }

    def draw(axes: "Axes") -> None:
        for name, line in lines.items():
            style = look[name]
            ks = [point.k for point in line.points]
            low = [point.low for point in line.points]
            high = [point.high for point in line.points]
            axes.fill_between(ks, low, high, color=style.colour, alpha=0.16, linewidth=0)
            values = [point.value for point in line.points]
            _line(axes, ks, values, style, markersize=3.5)
        axes.set_xscale("log", base=2)
        _ticks_of_k(axes, [point.k for line in lines.values() for point in line.points])
        axes.set_xlabel("k, samples to choose from")
        axes.set_ylabel(f"{metric}@k")
        _legend(axes, "lower right")

    ks = sorted({point.k for line in lines.values() for point in line.points})
    rows = []
    for k in ks:
        cells = [next((p for p in line.points if p.k == k), None) for line in lines.values()]
        rows.append((str(k), *("" if p is None else _with_interval(p) for p in cells)))
    return Figure(
        f"{metric}-at-k",
        f"{metric}@k",
        "Mean over problems; the band is the 95 % interval over problems.",
        draw,
        Numbers(("k", *lines), tuple(rows)),
    )


def moves(found: Findings, after: str, look: dict[str, Style]) -> Figure:
    """Success of every problem before against after, on a log scale with a place for zero."""
    before = found.gathered.sampled[0].name
    moved = found.moves(after)
    n = min(len(samples) for run in found.gathered.sampled for samples in run.samples.values())
    zero = 0.4 / n

    def draw(axes: "Axes") -> None:
        kinds = {
            "lost": (LOST, "v", "lost"),
            "gained": (GAINED, "^", "gained"),
            "solved": (MUTED, "o", "solved by both"),
            "never": (FAINT, "o", "by neither"),
        }
        axes.plot([zero, 1], [zero, 1], color=FAINT, linewidth=0.8, zorder=0)
        for kind, (colour, marker, label) in kinds.items():
            places: dict[tuple[float, float], int] = {}
            for each in moved:
                if each.move == kind:
                    place = (max(each.before, zero), max(each.after, zero))
                    places[place] = places.get(place, 0) + 1
            for size in sorted({_size(count) for count in places.values()}):
                chosen = [place for place, count in places.items() if _size(count) == size]
                xs, ys = zip(*chosen, strict=True)
                axes.plot(xs, ys, marker, color=colour, ms=size, mew=0, alpha=0.75)
            total = sum(places.values())
            axes.plot([], [], marker, color=colour, ms=5, mew=0, label=f"{label} ({total})")
        for side in ("x", "y"):
            _log_ticks_with_zero(axes, side, zero, n)
        axes.set_xlabel(f"success with {look[before].label}")
        axes.set_ylabel(f"success with {look[after].label}")
        _legend(axes, "lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, **_TIGHT)

    counts = {kind: [m for m in moved if m.move == kind] for kind in ("lost", "gained", "solved", "never")}
    rows = [
        ("solved before, never after", str(len(counts["lost"])), str(_beyond_chance(counts["lost"]))),
        ("never before, solved after", str(len(counts["gained"])), str(_beyond_chance(counts["gained"]))),
        ("solved by both", str(len(counts["solved"])), str(_beyond_chance(counts["solved"]))),
        ("solved by neither", str(len(counts["never"])), "0"),
    ]
    return Figure(
        f"moves-{_file_name(after)}",
        f"Where problems moved, {after}",
        f"Share of {n} samples that pass, on log scales. Below the diagonal a problem became harder to "
        "reach; on the line at 0 it is out of reach. A larger mark is several problems.",
        draw,
        Numbers(("problems", "number", "beyond chance"), tuple(rows)),
    )


def _size(count: int) -> float:
    """Of a mark for so many problems; few sizes, as each is another shape in the file."""
    return (3.0, 4.5, 6.5, 9.0)[min(int(np.log2(count)), 3)]


def _beyond_chance(moved: Sequence[Moved]) -> int:
    return sum(each.chance < 0.05 for each in moved)


def entropy(runs: Sequence[RunData], look: dict[str, Style]) -> Figure:
    """Figure 2 of the paper: how sure the model is of what it writes."""
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
        _legend(axes, "upper right")

    marks = (5, 25, 50, 75, 95)
    rows = tuple(
        (name, f"{each.mean():.3f}", *(f"{x:.3f}" for x in np.percentile(each, marks)))
        for name, each in values.items()
    )
    return Figure(
        "entropy",
        "Entropy of completions",
        "Mean over the tokens of each completion, at temperature 1, up to the 99.5th percentile; the "
        "dashed lines are medians.",
        draw,
        Numbers(("run", "mean", *(f"{mark} %" for mark in marks)), rows),
    )


# --- training ------------------------------------------------------------------------------------


def training(runs: Sequence[RunData], look: dict[str, Style]) -> list[Figure]:
    """Reward, max@k, entropy, drift and dead groups over the steps."""

    def keys(*wanted: str) -> list[str]:
        there = {key for run in runs for line in run.metrics for key in line}
        return [key for key in wanted if key in there]

    ks = sorted(
        {int(key[7:]) for run in runs for line in run.metrics for key in line if key[:7] == "max_at/"}
    )
    shown_ks = [ks[0], ks[-1]] if len(runs) > 1 and len(ks) > 1 else ks
    last = max(
        (key for run in runs for line in run.metrics for key in line if key[:16] == "drift/iteration_"),
        key=lambda key: int(key[16:].split("/")[0]),
        default="drift/iteration_1/mean",
    ).split("/")[1]
    panels = [
        ("reward", "Reward", "Mean reward of the sampled completions.", keys("reward")),
        (
            *("training-max-at-k", "max@k of the training groups"),
            "From the samples at hand; max@1 is the mean reward. The gap is what diversity buys.",
            keys(*(f"max_at/{k}" for k in shown_ks)),
        ),
        ("training-entropy", "Entropy", "Mean entropy of a token, nats.", keys("entropy")),
        (
            *("drift", "Drift"),
            f"|log ratio| of whole completions in PPO {last.replace('_', ' ')}, against the policy "
            "that sampled.",
            keys(f"drift/{last}/mean", f"drift/{last}/max"),
        ),
        (
            *("dead-groups", "Dead groups"),
            "No signal: every weight is 0. Saturated: nothing is left to gain at this k.",
            keys("groups/no_signal", "groups/saturated"),
        ),
    ]
    return [over_steps(runs, look, *panel) for panel in panels if panel[3]]


def over_steps(
    runs: Sequence[RunData],
    look: dict[str, Style],
    name: str,
    title: str,
    caption: str,
    keys: Sequence[str],
) -> Figure:
    """Metrics over steps: faint as logged, strong as a running mean."""
    lines = {
        (run.name, key): series(run.metrics, key)
        for run in runs
        for key in keys
        if series(run.metrics, key)[0].size
    }
    dashes = ("-", "--", "-.", ":")

    def label(run: str, key: str) -> str:
        what = key.split("/")[-1].replace("_", " ")
        what = f"max@{what}" if key.startswith("max_at/") else what
        return what if len(runs) == 1 else f"{look[run].label}, {what}"

    def draw(axes: "Axes") -> None:
        for (run, key), (steps, values) in lines.items():
            dash = dashes[keys.index(key) % len(dashes)]
            colour = look[run].colour if len(runs) > 1 else COLOURS[1]
            if len(keys) > 1 and len(runs) == 1:
                colour = COLOURS[1 + keys.index(key) % (len(COLOURS) - 1)]
            smooth = running_mean(values)
            if len(values) > 8:
                axes.plot(steps, values, color=colour, linewidth=0.7, alpha=0.3)
            axes.plot(steps, smooth, dash, color=colour, linewidth=1.6, label=label(run, key))
        axes.set_xlabel("step")
        if len(lines) > 1:
            _legend(axes, "best")

    return Figure(name, title, caption, draw, _binned(lines, label))


def series(metrics: Sequence[dict[str, Any]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one metric, where it was logged and is a number."""
    pairs = [
        (line["step"], float(line[key]))
        for line in metrics
        if isinstance(line.get(key), int | float) and np.isfinite(line[key])
    ]
    steps, values = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(steps, dtype=float), np.array(values, dtype=float)


def running_mean(values: np.ndarray) -> np.ndarray:
    """Over about a tenth of the run around each point; at the ends over what there is.

    >>> running_mean(np.array([0.0, 1.0, 2.0])).tolist()
    [0.0, 1.0, 2.0]
    """
    reach = len(values) // 20
    totals = np.concatenate([[0.0], np.cumsum(values)])
    left = np.maximum(np.arange(len(values)) - reach, 0)
    right = np.minimum(np.arange(len(values)) + reach + 1, len(values))
    return (totals[right] - totals[left]) / (right - left)


def _binned(
    lines: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]], label: Callable[[str, str], str]
) -> Numbers:
    """Means over equal ranges of steps, few enough for a table."""
    steps = np.unique(np.concatenate([steps for steps, _ in lines.values()]))
    rows = []
    for part in np.array_split(steps, min(len(steps), MOST_ROWS)):
        first, last = int(part[0]), int(part[-1])
        cells = []
        for at, values in lines.values():
            inside = values[(at >= first) & (at <= last)]
            cells.append(f"{inside.mean():.4g}" if inside.size else "")
        rows.append((str(first) if first == last else f"{first} to {last}", *cells))
    heads = [label(*key).replace(r"\$", "$") for key in lines]
    return Numbers(("steps", *heads), tuple(rows))


# --- cost ----------------------------------------------------------------------------------------


def _has_tokens(runs: Sequence[RunData]) -> bool:
    return any(run.stored is not None and run.stored.tokens for run in runs)


def cost(found: Findings, look: dict[str, Style]) -> Figure:
    """max@k by what the samples cost: a model that writes longer pays for it here."""
    lines = {}
    for run in found.gathered.sampled:
        if run.stored is not None and run.stored.tokens:
            each = run.stored.tokens / run.stored.samples
            points = found.evaluations[run.name].max.points
            lines[run.name] = [(each * point.k, point.value, point.k) for point in points]

    def draw(axes: "Axes") -> None:
        for name, points in lines.items():
            _line(axes, [x for x, _, _ in points], [y for _, y, _ in points], look[name], 3.5)
        axes.set_xscale("log")
        axes.set_xlabel("tokens sampled for a problem, k times the mean length")
        axes.set_ylabel("max@k")
        _legend(axes, "lower right")

    rows = tuple(
        (name, str(k), f"{tokens:,.0f}", f"{value:.3f}")
        for name, points in lines.items()
        for tokens, value, k in points
    )
    return Figure(
        "cost",
        "max@k by tokens",
        "The same curves over what their samples cost.",
        draw,
        Numbers(("run", "k", "tokens a problem", "max@k"), rows),
    )


def seconds(runs: Sequence[RunData]) -> Figure:
    """Where the time of training went."""
    totals = {
        run.name: {stage: float(series(run.metrics, f"seconds/{stage}")[1].sum()) for stage in STAGES}
        for run in runs
    }

    def draw(axes: "Axes") -> None:
        names = list(totals)[::-1]
        left = np.zeros(len(names))
        for stage, colour in STAGES.items():
            width = np.array([totals[name][stage] for name in names]) / 60
            axes.barh(names, width, 0.5, left, color=colour, label=stage)
            left += width
        axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
        axes.set_ylim(-0.6, len(names) - 0.1)
        axes.set_xlabel("minutes")
        axes.grid(False, axis="y")
        _legend(axes, "lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, **_TIGHT)

    rows = tuple(
        (name, *(f"{value:,.1f}" for value in each.values()), f"{sum(each.values()):,.1f}")
        for name, each in totals.items()
    )
    return Figure(
        "seconds",
        "Time of training",
        "Sum over the logged steps. Verifying is what was waited for: judging runs beside the rest.",
        draw,
        Numbers(("seconds", *STAGES, "all"), rows),
    )


# --- how things are drawn ------------------------------------------------------------------------


def _line(
    axes: "Axes", xs: Sequence[float], ys: Sequence[float], style: Style, markersize: float
) -> None:
    axes.plot(
        *(xs, ys, style.dash),
        color=style.colour,
        marker=style.marker,
        markersize=markersize,
        markeredgewidth=0,
        linewidth=1.6,
        label=style.label,
    )


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
        axes.set_ylim(zero / 1.5, 1.35 if zero > 0 else 1)
        axes.axhline(zero * 1.6, color=FAINT, linewidth=0.8)
    axes.minorticks_off()


_TIGHT: dict[str, Any] = {"handlelength": 1.0, "handletextpad": 0.4, "columnspacing": 1.0}


def _legend(axes: "Axes", where: str, **more: Any) -> None:
    axes.legend(loc=where, frameon=False, fontsize=8, labelcolor=INK, **more)


def _with_interval(point: Any) -> str:
    return f"{point.value:.3f} ({point.low:.3f} to {point.high:.3f})"


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
