"""The figure of README.md: max@k of the main comparison, every line a mean over runs.

python -m experiments.grid.band --out docs/images/curves.svg
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from experiments.grid.data import Data
from experiments.grid.plan import HERE

matplotlib.use("Agg")
matplotlib.rcParams |= {"svg.hashsalt": "maxk", "svg.fonttype": "none", "font.size": 11}
from matplotlib import pyplot  # noqa: E402

SETS = ("mbpp", "humaneval", "leetcode")
KS = [1, 2, 4, 8, 16, 32, 64, 128]
LINES = {
    "before training": (["base-final"], "#6b7280"),
    "GRPO": (["leetcode-grpo-final"], "#c2410c"),
    "for max@4, off-policy": (
        ["leetcode-off-policy-final", "leetcode-off-policy-exact-final"],
        "#1d4ed8",
    ),
}  # fmt: skip


def runs(data: Data, cells: list[str]) -> np.ndarray:
    """max@k over the problems of all sets, of every run with 256 samples of each: [runs, ks]."""
    return np.array(
        [
            np.concatenate([data.scores_of(each, name, KS, "max") for name in SETS]).mean(0)
            for cell in cells
            for each in data.cells[cell]
            if all(name in each.sets and each.sets[name]["n"] >= 256 for name in SETS)
        ]
    )


def draw(data: Data, out: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(7.2, 3.9), layout="constrained")
    for label, (cells, colour) in LINES.items():
        runs_RK = 100 * runs(data, cells)
        count = len(runs_RK)
        said = f"{label} ({count} runs)" if count > 1 else label
        axes.plot(KS, runs_RK.mean(0), color=colour, marker="o", markersize=4, label=said)
        if count > 1:
            axes.fill_between(
                KS, runs_RK.min(0), runs_RK.max(0), color=colour, alpha=0.18, linewidth=0
            )
        print(said, runs_RK.mean(0).round(1), runs_RK.std(0, ddof=1).round(1) if count > 1 else "")
    axes.set_xscale("log", base=2)
    axes.set_xticks(KS, [str(k) for k in KS])
    axes.set_xlabel("k: the best of so many samples counts")
    axes.set_ylabel("max@k, %")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images/curves.svg"))
    draw(Data(HERE / "results"), parser.parse_args().out)


if __name__ == "__main__":
    main()
