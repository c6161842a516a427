"""`maxk forecast` against what it forecasts: a real run, of which it is shown a few samples.

    python benchmarks/forecast.py RUN

Ten times, some samples of every problem are drawn without replacement, and the metric is predicted
from them at a k that all samples together can measure. Printed are the error of the forecast, the
width of its 95 % interval, and how often that held the measured value. The ten share their
problems, so they say little about how forecasts vary from benchmark to benchmark.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from maxk import max_at_k, pass_at_k
from maxk.evaluate import Interval, forecast
from maxk.evaluate.samples import Metric
from maxk.store.run import Run

TRIES = 10


def rewards_of(folder: Path) -> np.ndarray:
    """Of the problems that have all their samples judged."""
    by_problem: dict[str, list[float]] = defaultdict(list)
    for row in Run.open(folder).read("verdicts", ["problem", "reward"]).to_pylist():
        by_problem[row["problem"]].append(row["reward"])
    most = max(map(len, by_problem.values()))
    return np.array([row for row in by_problem.values() if len(row) == most])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    rewards_PN = rewards_of(parser.parse_args().run)
    problems, n = rewards_PN.shape
    print(f"{problems} problems, {n} samples")
    rng = np.random.default_rng(0)
    measures: dict[Metric, Callable[..., np.ndarray]] = {"pass": pass_at_k, "max": max_at_k}
    for metric, measure in measures.items():
        for shown, k in ((n // 16, n // 2), (n // 8, n // 2), (n // 8, n), (n // 4, n)):
            measured = float(measure(rewards_PN, k).mean())
            points = []
            for _ in range(TRIES):
                drawn = rng.permuted(rewards_PN, axis=1)[:, :shown]
                points.append(
                    forecast(drawn, [k], metric, interval=Interval(resamples=500)).points[0]
                )
            errors = [point.value - measured for point in points]
            width = np.mean([point.high - point.low for point in points])
            held = sum(point.low <= measured <= point.high for point in points)
            print(
                f"{metric}@{k} from {shown:3d} samples: measured {measured:.3f}, error "
                f"{np.mean(errors):+.3f} (sd {np.std(errors):.3f}), interval {width:.3f} wide, "
                f"held it {held} times of {TRIES}",
                flush=True,
            )


if __name__ == "__main__":
    main()
