"""The figures of training: metrics over the steps, and where the time went."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk.report.gather import RunData
from maxk.report.theme import COLOURS, Figure, Numbers, Style, legend, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STAGES = {"sampling": "#0072b2", "verifying": "#e69f00", "pre-pass": "#cc79a7", "update": "#009e73"}
_LAG = re.compile(r"policy_lag/iteration_(\d+)/")
_DASHES = ("-", "--", "-.", ":")
MOST_ROWS = 24  # of a table over steps


def training(runs: Sequence[RunData], look: dict[str, Style]) -> list[Figure]:
    """Reward, max@k, entropy, policy lag and zero-variance groups over the steps, where logged."""
    there = {key for run in runs for line in run.metrics for key in line}
    ks = sorted(int(key.removeprefix("max_at/")) for key in there if key.startswith("max_at/"))
    if len(runs) > 1:  # or there are too many lines to tell apart
        ks = ks[:1] + ks[1:][-1:]
    iteration = max((int(found[1]) for key in there if (found := _LAG.match(key))), default=1)
    panels = [
        ("reward", "Reward", "Mean reward of the sampled completions.", ["reward"]),
        (
            *("training-max-at-k", "max@k of the training groups"),
            "From the samples at hand; max@1 is the mean reward. The gap is what diversity buys.",
            [f"max_at/{k}" for k in ks],
        ),
        ("training-entropy", "Entropy", "Mean entropy of a token, nats.", ["entropy"]),
        (
            *("policy-lag", "Policy lag"),
            f"|log ratio| of whole completions in PPO iteration {iteration}, against the policy "
            "that sampled.",
            [f"policy_lag/iteration_{iteration}/{which}" for which in ("mean", "max")],
        ),
        (
            *("groups", "Groups that change nothing"),
            "Zero variance: every weight is 0. All correct: nothing is left to gain at this k.",
            ["groups/zero_variance", "groups/all_correct"],
        ),
    ]
    return [
        over_steps(runs, look, name, title, caption, logged)
        for name, title, caption, keys in panels
        if (logged := [key for key in keys if key in there])
    ]


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

    def label(run: str, key: str) -> str:
        what = key.split("/")[-1].replace("_", " ")
        what = f"max@{what}" if key.startswith("max_at/") else what
        return what if len(runs) == 1 else f"{look[run].label}, {what}"

    def draw(axes: "Axes") -> None:
        for (run, key), (steps, values) in lines.items():
            number = keys.index(key)  # of a line of its run
            dash = _DASHES[number % len(_DASHES)]
            colour = look[run].colour if len(runs) > 1 else COLOURS[1:][number % 5]
            axes.plot(steps, values, color=colour, linewidth=0.7, alpha=0.3)
            mean = running_mean(values)
            axes.plot(steps, mean, dash, color=colour, linewidth=1.6, label=label(run, key))
        axes.set_xlabel("step")
        if len(lines) > 1:
            legend(axes, "best")

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


def seconds(runs: Sequence[RunData]) -> Figure:
    """Where the time of training went."""
    totals = {
        run.name: {
            stage: float(series(run.metrics, f"seconds/{stage}")[1].sum()) for stage in STAGES
        }
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
        legend_above(axes)

    rows = tuple(
        (name, *(f"{value:,.1f}" for value in each.values()), f"{sum(each.values()):,.1f}")
        for name, each in totals.items()
    )
    return Figure(
        "seconds",
        "Time of training",
        "Sum over the logged steps. Verifying is what was waited for; most runs beside the rest.",
        draw,
        Numbers(("seconds", *STAGES, "all"), rows),
    )
