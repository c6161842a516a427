"""pass@k and max@k curves with two kinds of uncertainty.

low, high        a BCa bootstrap over problems: how the mean varies with the problems
sampling_error   a standard error over samples: how the mean varies when the same problems are
                 sampled again
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from maxk.evaluate.bootstrap import DEFAULT, Interval, mean_interval
from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, check_metric, fewest, scores
from maxk.evaluate.variance import sampling_variance


@dataclass(frozen=True)
class Point:
    """A metric at one k: mean over problems, confidence interval, standard error of sampling."""

    k: int
    value: float
    low: float
    high: float
    sampling_error: float


@dataclass(frozen=True)
class Curve:
    """A metric over k. `samples` is the smallest n of any problem."""

    metric: Metric
    points: tuple[Point, ...]
    problems: int
    samples: int

    def at(self, k: int) -> Point:
        """The point at k, or KeyError."""
        for point in self.points:
            if point.k == k:
                return point
        raise KeyError(f"no point at k={k}; there are {[point.k for point in self.points]}")


def curve(
    rewards: Rewards,
    metric: Metric = "max",
    ks: Sequence[int] | None = None,
    threshold: float = 1.0,
    interval: Interval = DEFAULT,
) -> Curve:
    """The metric for every k, by default k = 1, 2, 4 ... n.

    rewards: [problems, samples], or a list of rows where problems have different n; every k must
    be within the smallest n. A sample passes if its reward is >= threshold.

    >>> curve([[0.0, 1.0], [0.0, 0.0]], metric="pass").at(2).value
    0.5
    """
    check_metric(metric)
    parts = blocks(rewards)
    ks = check_ks(ks, fewest(parts))
    values_PK = scores(rewards, ks, metric, threshold)
    low_K, high_K = mean_interval(values_PK, interval)
    variance_K = np.zeros(len(ks))
    for block in parts:
        counted_PN = block.rewards >= threshold if metric == "pass" else block.rewards
        variance_K += sampling_variance(counted_PN, ks).sum(0)
    # One problem's unbiased estimate may be negative, and so, rarely, a sum over few problems.
    error_K = np.sqrt(np.maximum(variance_K, 0.0)) / len(values_PK)
    columns = zip(ks, values_PK.mean(0), low_K, high_K, error_K, strict=True)
    return Curve(
        metric=metric,
        points=tuple(Point(k, *map(float, numbers)) for k, *numbers in columns),
        problems=len(values_PK),
        samples=fewest(parts),
    )


def curves_by_group(
    rewards: Rewards,
    groups: Sequence[Hashable],
    metric: Metric = "max",
    ks: Sequence[int] | None = None,
    threshold: float = 1.0,
    interval: Interval = DEFAULT,
) -> dict[Hashable, Curve]:
    """One curve per label, labels in order of first appearance; the rest as in `curve`.

    Without ks, each group goes up to its own smallest n.

    >>> list(curves_by_group([[0.0], [1.0], [1.0]], ["hard", "easy", "easy"]))
    ['hard', 'easy']
    """
    if len(groups) != len(rewards):
        raise ValueError(
            f"groups has {len(groups)} labels and rewards {len(rewards)} problems; pass one label "
            "per problem"
        )
    members: dict[Hashable, list[int]] = {}
    for problem, label in enumerate(groups):
        members.setdefault(label, []).append(problem)
    options = (metric, ks, threshold, interval)
    return {
        label: curve([rewards[problem] for problem in chosen], *options)
        for label, chosen in members.items()
    }
