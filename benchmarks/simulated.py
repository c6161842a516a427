"""Simulated runs whose truth is known, made after the stored runs of the main comparison.

A simulated benchmark draws problems from those of the main comparison (MBPP, HumanEval and
LeetCode, 763 problems): the success rates that GRPO, off-policy training and the base model have
there. A run moves all problems on the logit scale, by as much as gives the wanted standard
deviation between runs at this k, and each problem by itself (0.5 logits). Each problem gets 256
samples. The true difference is a sum over all problems and an integral over runs.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from maxk.estimators import max_at_k

SETS = ("mbpp", "humaneval", "leetcode")
METHODS = {
    "GRPO": "leetcode-grpo-final",
    "off-policy": "leetcode-off-policy-final",
    "base": "base-final",
}
SAMPLES = 256
OWN = 0.5  # standard deviation of a run's effect on a single problem, in logits
CHUNK = 400_000  # scores in memory at a time
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@cache
def data():
    from experiments.grid.data import Data

    return Data()


@cache
def difficulties(method: str) -> np.ndarray:
    """Logits of the success rates of all problems, means over the stored runs."""
    found, cell = data(), METHODS[method]
    rates = [
        np.mean(
            [
                [np.mean(row >= 1) for row in found.rewards(run, name)]
                for run in found.results(cell, name, 128)
            ],
            axis=0,
        )
        for name in SETS
    ]
    return logit((np.concatenate(rates) * SAMPLES + 0.02) / (SAMPLES + 0.04))


@cache
def by_successes(k: int, samples: int = SAMPLES) -> np.ndarray:
    """pass@k of a problem with 0, 1 ... n successes in n samples."""
    rows = np.tril(np.ones((samples + 1, samples)), -1)
    return np.asarray(max_at_k(rows, k))


def truth(method: str, tau: float, k: int) -> tuple[float, float]:
    """The mean of pass@k over problems and runs, and its standard deviation between runs."""
    moved = difficulties(method) + tau * _NODES[:, None]
    mean_T = sum(
        weight * (1 - (1 - expit(moved + OWN * node)) ** k).mean(1)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True)
    )
    mean = _WEIGHTS @ mean_T
    return float(mean), float(np.sqrt(_WEIGHTS @ (mean_T - mean) ** 2))


@cache
def shift(method: str, between: float, k: int) -> float:
    """The standard deviation of runs in logits that gives this one of their means."""
    if between == 0:
        return 0.0
    found: Any = brentq(lambda tau: truth(method, tau, k)[1] - between, 0, 8)
    return float(found)


def simulated(
    rng: np.random.Generator,
    methods: tuple[str, str],
    runs: int,
    problems: int,
    ks: Sequence[int],
    between: float,
    draws: int,
) -> Iterator[tuple[list[np.ndarray], list[float]]]:
    """Scores [runs, problems, draws * ks] of both sides, and the true differences, in chunks.

    The deviation between runs is set at the last k.
    """
    taus = [shift(each, between, ks[-1]) for each in methods]
    true = [truth(methods[0], taus[0], k)[0] - truth(methods[1], taus[1], k)[0] for k in ks]
    tables = np.stack([by_successes(k) for k in ks], axis=1)
    step = max(1, CHUNK // (runs * problems * len(ks)))
    for start in range(0, draws, step):
        now = min(step, draws - start)
        chosen_PD = rng.integers(0, len(difficulties(methods[0])), (problems, now))
        sides = []
        for method, tau in zip(methods, taus, strict=True):
            of_run = tau * rng.standard_normal((runs, 1, now))
            own = OWN * rng.standard_normal((runs, problems, now))
            rate = expit(difficulties(method)[chosen_PD] + of_run + own)
            sides.append(tables[rng.binomial(SAMPLES, rate)].reshape(runs, problems, -1))
        yield sides, true
