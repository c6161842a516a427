"""Sample allocation: which of several sampling configurations draws each of k samples.

A sampling configuration is a model with its settings: weights, a temperature, prompt variants. An
allocation names the configuration of each of N samples. Its first k samples are the allocation for
k, so that one order serves whoever stops early.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxk.estimators.checks import check_k
from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, check_metric


def allocate(
    configurations: Sequence[Rewards], k: int, metric: Metric = "max", threshold: float = 1.0
) -> list[int]:
    """The configuration of each of k samples, chosen one by one to raise max@k the most.

    configurations: rewards of the same problems in the same order, one entry per configuration. The
    choice uses unbiased estimates, so it never takes more samples of a configuration than there
    are. The expected best reward is submodular (each further sample gains less), so the best
    allocation of k gains at most 1 / (1 - 1/e) = 1.58 times what this one gains over the worst
    reward. Of equally good configurations the first is taken. Choose on other problems than you
    report: the allocation is fitted to these.

    >>> first, second = [[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]
    >>> allocate([first, second], k=2)  # each solves one of two problems
    [0, 1]
    """
    drawn = _Drawn(configurations, metric, threshold)
    order: list[int] = []
    for _ in range(check_k(k, sum(drawn.sizes))):
        best, least = -1, np.inf
        for i, size in enumerate(drawn.sizes):
            if drawn.taken[i] < size and (missed := drawn.missed(i)) < least - 1e-12:
                best, least = i, missed
        drawn.take(best)
        order.append(best)
    return order


def allocated(
    configurations: Sequence[Rewards],
    order: Sequence[int],
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    threshold: float = 1.0,
) -> np.ndarray:
    """max@k or pass@k of every problem by the first k samples of an allocation: [problems, ks].

    Unbiased: the mean over every choice of so many samples of each configuration. ks: None for 1,
    2, 4 ... and the whole allocation.

    >>> allocated([[[1.0, 0.0]], [[0.5, 0.5]]], order=[1, 0, 0], ks=[1, 2, 3])
    array([[0.5 , 0.75, 1.  ]])
    """
    drawn = _Drawn(configurations, metric, threshold)
    if len(order) == 0:
        raise ValueError("order is empty; pass one configuration or more, as `allocate` gives them")
    for i, count in Counter(order).items():
        if not 0 <= i < len(configurations):
            raise ValueError(
                f"order has {i}; there are configurations 0 to {len(configurations) - 1}"
            )
        if count > drawn.sizes[i]:
            raise ValueError(
                f"order asks configuration {i} for {count} samples of a problem and "
                f"configurations[{i}] has {drawn.sizes[i]}; sample more, or pass a shorter order"
            )
    ks = check_ks(ks, len(order))
    out_PK = np.empty((len(drawn.below_PL), len(ks)))
    for k, i in enumerate(order, start=1):
        drawn.take(i)
        for column in np.flatnonzero(np.equal(ks, k)):
            out_PK[:, column] = drawn.best()
    return out_PK


def cross_validated(
    configurations: Sequence[Rewards],
    k: int,
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    threshold: float = 1.0,
    folds: int = 5,
) -> np.ndarray:
    """max@k or pass@k of every problem by an allocation chosen on other folds: [problems, ks].

    It estimates what `allocate` is worth on new problems. Problem i is in fold i % folds; each fold
    is measured with the allocation of k samples chosen on all the other folds.

    >>> first, second = [[1.0], [1.0], [0.0]], [[0.0], [0.0], [1.0]]
    >>> allocate([first, second], k=1)
    [0]
    >>> cross_validated([first, second], k=1, folds=3).tolist()  # the last by the other two
    [[1.0], [1.0], [0.0]]
    """
    tables = _tables(configurations, metric, threshold)
    if not 2 <= folds <= (count := len(tables[0])):
        raise ValueError(f"folds={folds} must be between 2 and the number of problems, {count}")
    ks = check_ks(ks, k)
    out_PK = np.empty((count, len(ks)))
    fold_P = np.arange(count) % folds
    for fold in range(folds):
        order = allocate([table[fold_P != fold] for table in tables], k)
        out_PK[fold_P == fold] = allocated([table[fold_P == fold] for table in tables], order, ks)
    return out_PK


def scaled_to(configurations: Sequence[Rewards], order: Sequence[int], n: int) -> list[list[Any]]:
    """The first samples of each configuration, n in all, in the proportions of the order.

    Needed for a test against n samples of one configuration: with more samples in all, estimates
    are less often near 0 and 1, which the signed-rank test takes for a difference
    (docs/explanation/intervals.md). If n is at least the length of the order, no configuration has
    fewer samples than the order asks for.

    >>> scaled_to([[[1, 2, 3, 4]], [[5, 6, 7, 8]]], order=[1, 0, 1, 1], n=4)
    [[[1]], [[5, 6, 7]]]
    """
    asked = Counter(order)
    sizes = [max(-(-n * asked[i] // len(order)), 1) for i in range(len(configurations))]
    return [[row[:size] for row in rows] for rows, size in zip(configurations, sizes, strict=True)]


class _Drawn:
    """Samples drawn of each configuration, and the chances that all of them stay below a reward.

    P: problems; L: different rewards of a problem over all configurations, ascending, the last
    repeated.
    """

    def __init__(self, configurations: Sequence[Rewards], metric: Metric, threshold: float) -> None:
        tables = _tables(configurations, metric, threshold)
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
        """The expected best of every problem: each step up in reward, times the chance of it."""
        return self.lowest_P + (self.steps_PL * (1.0 - self.below_PL)).sum(axis=1)

    def missed(self, i: int) -> float:
        """How far the mean best stays below the highest reward after one more sample of i."""
        total = np.vdot(self.steps_PL * self.below_PL, self._left(i))
        return float(total) / len(self.below_PL)

    def take(self, i: int) -> None:
        self.below_PL *= self._left(i)
        self.taken[i] += 1

    def _left(self, i: int) -> np.ndarray:
        """The chances that the next sample of i is not above either: without replacement."""
        taken = self.taken[i]
        return np.maximum(self.counts[i] - taken, 0) / (self.sizes[i] - taken)


def _tables(
    configurations: Sequence[Rewards], metric: Metric, threshold: float
) -> list[np.ndarray]:
    """The rewards of each configuration, [problems, samples]."""
    check_metric(metric)
    if len(configurations) == 0:
        raise ValueError("configurations is empty; pass the rewards of one or more")
    if len(sizes := {len(each) for each in configurations}) > 1:
        raise ValueError(
            f"configurations have {sorted(sizes)} problems; all must have the same ones"
        )
    tables = []
    for i, each in enumerate(configurations):
        if len(parts := blocks(each)) > 1:
            seen = [part.rewards.shape[1] for part in parts]
            raise ValueError(
                f"problems of configurations[{i}] have {seen} samples; all must have equally many"
            )
        rewards_PN = parts[0].rewards
        tables.append((rewards_PN >= threshold).astype(float) if metric == "pass" else rewards_PN)
    return tables


def _not_above(rewards_PN: np.ndarray, levels_PL: np.ndarray) -> np.ndarray:
    """How many samples of a problem are not above a reward."""
    rows = zip(np.sort(rewards_PN), levels_PL, strict=True)
    return np.stack([np.searchsorted(row, levels, side="right") for row, levels in rows])
