"""How wrong are the first-order weights? Their error against the exact ones as ratios leave 1.

    python examples/first_order.py   # writes docs/images/first_order.svg, prints its numbers

Groups of n = 8 with fractions of tests passed as rewards. Log-ratios are normal with standard
deviation d, shifted so that the mean ratio is 1. The error is |w_first - w_exact| / |w_exact|,
both mean-centred, the median over 4,000 groups.
"""

import math
from pathlib import Path

import matplotlib
import torch

from maxk.estimators import weights
from maxk.estimators.clipping import clamp

matplotlib.use("agg")
import matplotlib.pyplot as plt

N, GROUPS = 8, 4000
KS = [2, 4, 7]
LAGS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]
COLOURS = {2: "#56b4e9", 4: "#0072b2", 7: "#d55e00"}


def error(k: int, lag: float, clamp_delta: float) -> float:
    """Median relative error of the first-order weights over random groups."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randint(0, 6, (GROUPS, N), generator=generator) / 5
    log_ratios = lag * torch.randn(GROUPS, N, generator=generator) - lag**2 / 2
    exact = weights(rewards, k, log_ratios, correction="exact", baseline="mean")
    first = weights(rewards, k, clamp(log_ratios, clamp_delta), correction="first", baseline="mean")
    return ((first - exact).norm(dim=-1) / exact.norm(dim=-1)).nanmedian().item()


def main() -> None:
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    print("lag     " + "".join(f"k = {k:<6d}k = {k}, clamped   " for k in KS))
    errors = {(k, c): [error(k, d, c) for d in LAGS] for k in KS for c in (math.inf, 0.5)}
    for i, lag in enumerate(LAGS):
        cells = (f"{errors[k, math.inf][i]:<10.2%}{errors[k, 0.5][i]:<18.2%}" for k in KS)
        print(f"{lag:<8g}" + "".join(cells))
    print("\nlag, k = 4, delta within     0.2       0.5       1         2         no clamp")
    for lag in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0):
        clamps = (0.2, 0.5, 1.0, 2.0, math.inf)
        print(f"{lag:<29g}" + "".join(f"{error(4, lag, c):<10.1%}" for c in clamps))
    for k in KS:
        axis.plot(LAGS, errors[k, math.inf], color=COLOURS[k], label=f"k = {k}")
        label = f"k = {k}, delta within 0.5"
        axis.plot(LAGS, errors[k, 0.5], "--", color=COLOURS[k], label=label)
    axis.set(xscale="log", yscale="log", xlabel="standard deviation of the log-ratios")
    axis.set_ylabel("relative error of the first-order weights")
    axis.set_xticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
    axis.set_yticks([0.0001, 0.001, 0.01, 0.1, 1.0], ["0.01%", "0.1%", "1%", "10%", "100%"])
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = Path(__file__).parent.parent / "docs" / "images" / "first_order.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "maxk"}):
        figure.savefig(path, metadata={"Date": None})
    print(f"picture: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
