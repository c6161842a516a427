"""Ensembles: max@k and pass@k where several models share the k samples evenly."""

from collections.abc import Sequence
from math import comb

import numpy as np

from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, check_metric, fewest


def ensemble(
    runs: Sequence[Rewards], ks: Sequence[int], metric: Metric = "max", threshold: float = 1.0
) -> np.ndarray:
    r"""max@k or pass@k of every problem where the k samples are divided over runs: [problems, ks].

    .. math:: P(\text{best} \le r) = \prod_m \binom{c_m(r)}{q_m} \binom{n_m}{q_m}^{-1}, \quad
              \sum_m q_m = k, \quad c_m(r) = \text{samples of run } m \text{ with reward} \le r

    runs: rewards of the same problems in the same order. Each of m runs gives k // m samples;
    k % m of them, drawn at random, give one more, so k = 1 is the mean of the runs. Unbiased. In
    expectation it is at no k and on no problem below the mean of the runs' own scores, since a
    product of chances to stay below a reward is at most the mean of their powers.

    >>> ensemble([[[1.0, 1.0]], [[0.0, 0.0]]], ks=[1, 2])  # one solves it, one does not
    array([[0.5, 1. ]])
    """
    check_metric(metric)
    if not runs:
        raise ValueError("runs is empty; pass the rewards of two or more models")
    parts = [blocks(each) for each in runs]
    if len(sizes := {len(each) for each in runs}) > 1:
        raise ValueError(f"runs have {sorted(sizes)} problems; all must have the same ones")
    most = len(runs) * min(fewest(each) for each in parts)
    ks = check_ks(ks, most)
    rows = zip(*([np.asarray(row, float) for row in each] for each in runs), strict=True)
    if metric == "pass":
        rows = (tuple((row >= threshold).astype(float) for row in each) for each in rows)
    return np.array([_of_problem(each, ks) for each in rows])


def _of_problem(rows: Sequence[np.ndarray], ks: Sequence[int]) -> np.ndarray:
    """The expected best of k, from the chances that all of them are at most each reward there is.

    m: runs; L: different rewards, ascending; q: samples of one run.
    """
    m, rewards_L = len(rows), np.unique(np.concatenate(rows))
    below_mLq = [_below(row, rewards_L, -(-max(ks) // m)) for row in rows]
    steps_L = np.diff(rewards_L, prepend=0.0)
    out = []
    for k in ks:
        each, over = divmod(k, m)
        # Coefficients of the product over runs of (each samples + x * one more): the x^over term
        # has all choices of the runs that give one more.
        chance_oL = np.zeros((over + 1, len(rewards_L)))
        chance_oL[0] = 1.0
        for below_Lq in below_mLq:
            before_oL = chance_oL.copy()
            chance_oL *= below_Lq[:, each]
            if over:
                chance_oL[1:] += before_oL[:-1] * below_Lq[:, each + 1]
        most_L = chance_oL[over] / comb(m, over)
        # Above a reward with the chance that not all are at most the one before it.
        above_L = 1.0 - np.concatenate([[0.0], most_L[:-1]])
        out.append(steps_L @ above_L)
    return np.array(out)


def _below(row: np.ndarray, rewards_L: np.ndarray, most: int) -> np.ndarray:
    """C(c, q) / C(n, q) for q = 0 ... most: none of q samples is above a reward, of which c are."""
    n, drawn = len(row), np.arange(most)
    count_L = np.searchsorted(np.sort(row), rewards_L, side="right")
    left = np.maximum(count_L[:, None] - drawn, 0) / (n - drawn)
    return np.cumprod(np.concatenate([np.ones((len(rewards_L), 1)), left], axis=1), axis=1)
