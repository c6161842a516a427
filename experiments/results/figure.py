"""The figure of README.md and of the results page: max@k of the main comparison."""

import io

import matplotlib
import numpy as np

from experiments.results.claims import BASE, BOTH, CURVE, GRPO, METHODS, POOLED, Runs

matplotlib.use("Agg")
matplotlib.rcParams |= {"svg.hashsalt": "maxk", "svg.fonttype": "none", "font.size": 11}
from matplotlib import pyplot  # noqa: E402

LINES = {
    BASE: ("before training", "#6b7280"),
    GRPO: ("GRPO", "#c2410c"),
    BOTH: ("for max@4, off-policy", "#1d4ed8"),
}
SAMPLES = 128  # a run has so many of every problem, or it is not drawn


def drawn(runs: Runs) -> str:
    """The figure as SVG: means over runs, bands from the lowest to the highest, thin lines runs."""
    figure, axes = pyplot.subplots(figsize=(7.2, 3.9), layout="constrained")
    for name, (label, colour) in LINES.items():
        there = runs.measured(METHODS[name], POOLED, SAMPLES)
        runs_RK = 100 * np.array([[runs.of(x, POOLED, k).mean() for k in CURVE] for x in there])
        several = len(there) > 1
        said = f"{label} ({len(there)} runs)" if several else label
        axes.plot(CURVE, runs_RK.mean(0), color=colour, marker="o", markersize=4, label=said)
        if several:
            low, high = runs_RK.min(0), runs_RK.max(0)
            axes.fill_between(CURVE, low, high, color=colour, alpha=0.18, linewidth=0)
            for run_K in runs_RK:
                axes.plot(CURVE, run_K, color=colour, alpha=0.35, linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(CURVE, [str(k) for k in CURVE])
    axes.set_xlabel("k: the best of so many samples counts")
    axes.set_ylabel("max@k, %")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return out.getvalue()
