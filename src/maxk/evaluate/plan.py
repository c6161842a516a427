"""Best-of-N from several ways to sample: whom to ask first, and what so many samples are worth.

A way to sample is a model with its settings: a temperature, a hint in the prompt, other weights.
A plan says of each of N samples which way it is drawn. Its first k samples are the plan for k, so
that one order serves whoever stops early.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from maxk.estimators.checks import check_k
from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, check_metric


def plan(
    ways: Sequence[Rewards], k: int, metric: Metric = "max", threshold: float = 1.0
) -> list[int]:
    """The way of each of k samples, chosen one after the other for the most max@1, max@2 ... max@k.

    ways: rewards of the same problems in the same order, one entry per way. What is chosen by is
    without bias, so no way is asked for more samples than there are of it. The best of more samples
    gains less by each further one (it is submodular), so the best plan of k has at most
    1 / (1 - 1/e) = 1.58 times the gain of this one over the worst reward there is. Of equally good
    ways the first is taken. Choose on other problems than you report: it is fitted to these.

    >>> plan([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]], k=2)  # each solves one of two
    [0, 1]
    """
    arms = _arms(ways, metric, threshold)
    k = check_k(k, sum(arm.n for arm in arms))
    order: list[int] = []
    for _ in range(k):
        best, most = -1, -np.inf
        for i, arm in enumerate(arms):
            if arm.taken == arm.n:
                continue
            others = [other.below_PL for other in arms if other is not arm]
            value = _worth(arms[0], [*others, arm.one_more()])
            if value > most + 1e-12:
                best, most = i, value
        arms[best].take()
        order.append(best)
    return order


def planned(
    ways: Sequence[Rewards],
    order: Sequence[int],
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    threshold: float = 1.0,
) -> np.ndarray:
    """max@k or pass@k of every problem by the first k samples of a plan: [problems, ks].

    Unbiased: the mean over every choice of so many samples of each way. ks: None for 1, 2, 4 ...
    and all of the plan.

    >>> ways = [[[1.0, 0.0]], [[0.5, 0.5]]]
    >>> planned(ways, order=[1, 0, 0], ks=[1, 2, 3])
    array([[0.5 , 0.75, 1.  ]])
    """
    arms = _arms(ways, metric, threshold)
    for way, count in Counter(order).items():
        if not 0 <= way < len(arms):
            raise ValueError(f"order has {way}; there are ways 0 to {len(arms) - 1}")
        if count > arms[way].n:
            raise ValueError(
                f"order asks way {way} for {count} samples of a problem and ways[{way}] has "
                f"{arms[way].n}; sample more, or make a shorter plan"
            )
    ks = check_ks(ks, len(order))
    out_PK = np.empty((len(arms[0].below_PL), len(ks)))
    for k, way in enumerate(order, start=1):
        arms[way].take()
        for column in np.flatnonzero(np.equal(ks, k)):
            out_PK[:, column] = _best(arms[0], [arm.below_PL for arm in arms])
    return out_PK


class _Arm:
    """A way to sample, of which some samples were taken.

    P: problems; L: different rewards of a problem over all ways, ascending, the last repeated.
    """

    def __init__(self, count_PL: np.ndarray, n: int, steps_PL: np.ndarray) -> None:
        self.count_PL, self.n, self.steps_PL = count_PL, n, steps_PL
        self.taken = 0
        self.below_PL = np.ones(count_PL.shape)  # chance that no sample taken is above a reward

    def one_more(self) -> np.ndarray:
        """The chances after one more sample: without replacement."""
        left = np.maximum(self.count_PL - self.taken, 0) / (self.n - self.taken)
        return self.below_PL * left

    def take(self) -> None:
        self.below_PL = self.one_more()
        self.taken += 1


def _arms(ways: Sequence[Rewards], metric: Metric, threshold: float) -> list[_Arm]:
    check_metric(metric)
    if len(ways) == 0:
        raise ValueError("ways is empty; pass the rewards of one or more")
    if len(sizes := {len(way) for way in ways}) > 1:
        raise ValueError(f"ways have {sorted(sizes)} problems; all must have the same ones")
    tables = []
    for i, way in enumerate(ways):
        if len(parts := blocks(way)) > 1:
            seen = [part.rewards.shape[1] for part in parts]
            raise ValueError(
                f"problems of ways[{i}] have {seen} samples; all must have equally many"
            )
        rewards_PN = parts[0].rewards
        tables.append((rewards_PN >= threshold).astype(float) if metric == "pass" else rewards_PN)
    levels = [np.unique(row) for row in np.concatenate(tables, axis=1)]
    longest = max(map(len, levels))
    levels_PL = np.stack([np.pad(row, (0, longest - len(row)), "edge") for row in levels])
    # The best is the lowest reward, and each step above it with the chance to get there.
    steps_PL = np.diff(levels_PL, prepend=0.0)
    return [
        _Arm(
            np.stack(
                [
                    np.searchsorted(np.sort(row), each, side="right")
                    for row, each in zip(table, levels_PL, strict=True)
                ]
            ),
            table.shape[1],
            steps_PL,
        )
        for table in tables
    ]


def _best(arm: _Arm, below: Sequence[np.ndarray]) -> np.ndarray:
    """The expected best of every problem, of samples whose chances to stay below these are."""
    most_PL = np.prod(below, axis=0)
    return arm.steps_PL[:, 0] + (arm.steps_PL[:, 1:] * (1.0 - most_PL[:, :-1])).sum(axis=1)


def _worth(arm: _Arm, below: Sequence[np.ndarray]) -> float:
    return float(_best(arm, below).mean())
