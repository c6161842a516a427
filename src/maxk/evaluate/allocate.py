"""Best-of-N from several ways to sample: whom to ask first, and what so many samples are worth.

A way to sample is a model with its settings: a temperature, a hint in the prompt, other weights.
A plan says of each of N samples which way it is drawn. Its first k samples are the plan for k, so
that one order serves whoever stops early.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

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
    drawn = _Drawn(ways, metric, threshold)
    order: list[int] = []
    for _ in range(check_k(k, sum(drawn.sizes))):
        best, least = -1, np.inf
        for way, size in enumerate(drawn.sizes):
            if drawn.taken[way] < size and (missed := drawn.missed(way)) < least - 1e-12:
                best, least = way, missed
        drawn.take(best)
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
    drawn = _Drawn(ways, metric, threshold)
    if len(order) == 0:
        raise ValueError("order is empty; pass the way of one sample or more, as `plan` gives it")
    for way, count in Counter(order).items():
        if not 0 <= way < len(ways):
            raise ValueError(f"order has {way}; there are ways 0 to {len(ways) - 1}")
        if count > drawn.sizes[way]:
            raise ValueError(
                f"order asks way {way} for {count} samples of a problem and ways[{way}] has "
                f"{drawn.sizes[way]}; sample more, or make a shorter plan"
            )
    ks = check_ks(ks, len(order))
    out_PK = np.empty((len(drawn.below_PL), len(ks)))
    for k, way in enumerate(order, start=1):
        drawn.take(way)
        for column in np.flatnonzero(np.equal(ks, k)):
            out_PK[:, column] = drawn.best()
    return out_PK


def planned_elsewhere(
    ways: Sequence[Rewards],
    k: int,
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    threshold: float = 1.0,
    folds: int = 5,
) -> np.ndarray:
    """max@k or pass@k of every problem by a plan that was chosen without it: [problems, ks].

    What `plan` may be expected to be worth on other problems, where there are none to try it on:
    problem i is in fold i % folds, and each fold has the plan for k samples of all the others.

    >>> first, second = [[1.0], [1.0], [0.0]], [[0.0], [0.0], [1.0]]
    >>> plan([first, second], k=1)
    [0]
    >>> planned_elsewhere([first, second], k=1, folds=3).tolist()  # the last by the other two
    [[1.0], [1.0], [0.0]]
    """
    tables = _tables(ways, metric, threshold)
    if not 2 <= folds <= (count := len(tables[0])):
        raise ValueError(f"folds={folds} must be between 2 and the number of problems, {count}")
    ks = check_ks(ks, k)
    out_PK = np.empty((count, len(ks)))
    fold_P = np.arange(count) % folds
    for fold in range(folds):
        order = plan([table[fold_P != fold] for table in tables], k)
        out_PK[fold_P == fold] = planned([table[fold_P == fold] for table in tables], order, ks)
    return out_PK


def as_many_of(ways: Sequence[Rewards], order: Sequence[int], n: int) -> list[list[Any]]:
    """The first samples of each way, n in all and shared as the order shares them.

    For a test beside n samples of one way: with more in all, estimates are less often near 0 and 1,
    which the signed-rank test takes for a difference (docs/evaluation.md). No way has fewer than
    the order asks for if n is not below its length.

    >>> as_many_of([[[1, 2, 3, 4]], [[5, 6, 7, 8]]], order=[1, 0, 1, 1], n=4)
    [[[1]], [[5, 6, 7]]]
    """
    asked = Counter(order)
    shares = [max(-(-n * asked[way] // len(order)), 1) for way in range(len(ways))]
    return [[row[:share] for row in way] for way, share in zip(ways, shares, strict=True)]


class _Drawn:
    """Samples drawn of each way, and the chances that all of them stay below a reward.

    P: problems; L: different rewards of a problem over all ways, ascending, the last repeated.
    """

    def __init__(self, ways: Sequence[Rewards], metric: Metric, threshold: float) -> None:
        tables = _tables(ways, metric, threshold)
        levels = [np.unique(row) for row in np.concatenate(tables, axis=1)]
        longest = max(map(len, levels))
        levels_PL = np.stack([np.pad(row, (0, longest - len(row)), "edge") for row in levels])
        self.lowest_P, self.steps_PL = levels_PL[:, 0], np.diff(levels_PL)
        # None is above the highest, so that nothing is lost with it.
        self.counts = [_not_above(table, levels_PL[:, :-1]) for table in tables]
        self.sizes = [table.shape[1] for table in tables]
        self.taken = [0] * len(tables)
        self.below_PL = np.ones_like(self.steps_PL)  # chance that none drawn is above a reward

    def best(self) -> np.ndarray:
        """The expected best of every problem: each step there is, with the chance to get there."""
        return self.lowest_P + (self.steps_PL * (1.0 - self.below_PL)).sum(axis=1)

    def missed(self, way: int) -> float:
        """How far the mean best is below the highest reward, with one more sample of a way."""
        total = np.vdot(self.steps_PL * self.below_PL, self._left(way))
        return float(total) / len(self.below_PL)

    def take(self, way: int) -> None:
        self.below_PL *= self._left(way)
        self.taken[way] += 1

    def _left(self, way: int) -> np.ndarray:
        """The chances that the next sample of a way is not above either: without replacement."""
        taken = self.taken[way]
        return np.maximum(self.counts[way] - taken, 0) / (self.sizes[way] - taken)


def _tables(ways: Sequence[Rewards], metric: Metric, threshold: float) -> list[np.ndarray]:
    """The rewards of each way, [problems, samples]."""
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
    return tables


def _not_above(rewards_PN: np.ndarray, levels_PL: np.ndarray) -> np.ndarray:
    """How many samples of a problem are not above a reward."""
    rows = zip(np.sort(rewards_PN), levels_PL, strict=True)
    return np.stack([np.searchsorted(row, levels, side="right") for row, levels in rows])
