"""Forecasts: max@k and pass@k for k beyond the n samples at hand.

For one threshold t, problem p reaches it with chance s_p per sample, and P(max@k >= t) is the mean
of 1 - (1 - s_p)^k. For large k only problems with small s_p matter, and those were seen to succeed
rarely or never. So the model describes the low end alone:

    s = 0 for a share z of the problems, and s ~ Beta(a, b) for the others,

fitted to the problems with at most n/8 successes (or 4), given that they have so few. Fitted to all
problems, the easy ones would decide the shape near zero: on a half easy, half hard benchmark a
plain zero-inflated beta-binomial was 0.09 off at k = 8n, and its 95 % intervals nearly all missed.

A reward with several values is several thresholds: E max@k = sum over levels of the step to the
level times the chance to reach it.

Uncertainty: problems are drawn again, and for each draw (a, b, z) come from their likelihood over a
grid, where z = 0 has half of the prior. The second part matters because z can hardly be told from
a low a: on the data both look like problems that were never solved. A point is the mean over (a, b,
z), an interval the percentiles over draws.

Where this fails. n samples cannot separate a problem solved once in 100 n samples from one that is
never solved. Up to k = 4n forecasts are mostly data; trust them up to about 10n; beyond that
they assume that the low end goes on like a power of s. If success rates spread
over many orders of magnitude (log-normal, sigma 2.5), forecasts are too low, by 0.07 at k = 8n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from maxk.evaluate.bootstrap import Interval, resampled_counts
from maxk.evaluate.samples import Block, Metric, Rewards, blocks, check_metric, fewest

_A, _B, _ZERO = (
    axis.ravel()
    for axis in np.meshgrid(
        np.geomspace(0.02, 20, 24),
        np.geomspace(0.05, 200, 24),
        [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995],
        indexing="ij",
    )
)
_PRIOR = np.log(np.where(_ZERO == 0, 0.5, 0.5 / 13))
_CHUNK = 250  # resamples at a time: the grid has 8064 points
FEWER = Interval(resamples=1000)  # every resample is a fit over the grid


@dataclass(frozen=True)
class ForecastPoint:
    """The expected metric at k and its interval."""

    k: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """A metric forecast over k, from `samples` samples (the smallest n) of each problem."""

    metric: Metric
    points: tuple[ForecastPoint, ...]
    problems: int
    samples: int


def forecast(
    rewards: Rewards,
    ks: Sequence[int],
    metric: Metric = "max",
    threshold: float = 1.0,
    levels: int = 10,
    interval: Interval = FEWER,
) -> Forecast:
    """The metric at each k, usually above n; the module says how, and how far to trust it.

    rewards as in `curve`. levels: rewards with more distinct values than this are cut into so many
    equal steps. The interval is for problems of the same kind, like that of `curve`.
    """
    check_metric(metric)
    if len(ks) == 0 or min(ks) < 1:
        raise ValueError(f"ks={list(ks)} must hold one or more whole numbers from 1 up")
    parts = blocks(rewards)
    if metric == "pass":
        parts = [Block(b.problems, (b.rewards >= threshold).astype(float)) for b in parts]
    problems = sum(len(block.problems) for block in parts)
    resamples = interval.resamples
    base, steps, cuts = _levels(parts, levels)
    counts_RP = np.concatenate(list(resampled_counts(problems, resamples, interval.seed)))
    # The same quantile of the fit for every level, as a benchmark with a fat low end has it at all.
    rng = np.random.default_rng([interval.seed, 1])
    draws_R, even_R = rng.random(resamples), (np.arange(200) + 0.5) / 200
    itself_RP = np.ones((200, problems))
    left_P = _beyond_levels(parts, problems, base, steps, cuts)
    drawn_RK = base + (counts_RP @ left_P / problems)[:, None]
    point_RK = base + (itself_RP @ left_P / problems)[:, None]
    for step, cut in zip(steps, cuts, strict=True):
        fitted = [_Fitted(block, cut) for block in parts]
        drawn_RK = drawn_RK + step * _reached(fitted, counts_RP, draws_R, ks)
        point_RK = point_RK + step * _reached(fitted, itself_RP, even_R, ks)
    tails = [(1 - interval.confidence) / 2, (1 + interval.confidence) / 2]
    columns = zip(ks, point_RK.mean(0), *np.quantile(drawn_RK, tails, axis=0), strict=True)
    return Forecast(
        metric=metric,
        points=tuple(ForecastPoint(int(k), *map(float, numbers)) for k, *numbers in columns),
        problems=problems,
        samples=fewest(parts),
    )


def _levels(parts: list[Block], most: int) -> tuple[float, np.ndarray, np.ndarray]:
    """The lowest reward, and the steps up from it with the threshold of each."""
    values = np.unique(np.concatenate([np.unique(block.rewards) for block in parts]))
    if len(values) <= most + 1:
        return float(values[0]), np.diff(values), values[1:]
    edges = np.linspace(values[0], values[-1], most + 1)
    return float(values[0]), np.diff(edges), (edges[1:] + edges[:-1]) / 2


def _beyond_levels(
    parts: list[Block], problems: int, base: float, steps: np.ndarray, cuts: np.ndarray
) -> np.ndarray:
    """Per problem, what its best reward so far is above or below the sum of steps it reached."""
    left_P = np.zeros(problems)
    for block in parts:
        best_P = block.rewards.max(1)
        left_P[block.problems] = best_P - base - (best_P[:, None] >= cuts) @ steps
    return left_P


class _Fitted:
    """Success counts of equally sampled problems, and their likelihood over the grid."""

    def __init__(self, block: Block, cut: float):
        self.problems = block.problems
        self.n = n = block.rewards.shape[1]
        self.successes_P = (block.rewards >= cut).sum(1)
        self.low = low = min(n, max(4, n // 8))
        c = np.arange(low + 1)
        log_choose = gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1)
        a, b = _A[:, None], _B[:, None]
        table_GC = np.log1p(-_ZERO)[:, None] + log_choose + betaln(a + c, b + n - c) - betaln(a, b)
        with np.errstate(divide="ignore"):  # log 0 where there is no zero mass
            table_GC[:, 0] = np.logaddexp(np.log(_ZERO), table_GC[:, 0])
        self.never_G = _ZERO / np.exp(table_GC[:, 0])  # chance of s = 0 given no success
        self.log_likelihood_GC = table_GC - logsumexp(table_GC, axis=1, keepdims=True)

    def counts(self, weights_RP: np.ndarray) -> np.ndarray:
        """How many problems have c = 0 ... n successes, under each row of weights."""
        is_PC = self.successes_P[:, None] == np.arange(self.n + 1)
        return weights_RP[:, self.problems] @ is_PC.astype(float)

    def reached(self, grid_R: np.ndarray, counts_RC: np.ndarray, k: int) -> np.ndarray:
        """Expected number of problems that reach the cut in k new samples."""
        seen = np.flatnonzero(counts_RC.any(0))
        a, b = _A[grid_R, None] + seen, _B[grid_R, None] + self.n - seen
        chance_RC = -np.expm1(betaln(a, b + k) - betaln(a, b))
        if len(seen) and seen[0] == 0:
            chance_RC[:, 0] *= 1 - self.never_G[grid_R]
        return (counts_RC[:, seen] * chance_RC).sum(1)


def _reached(
    fitted: list[_Fitted], weights_RP: np.ndarray, quantiles_R: np.ndarray, ks: Sequence[int]
) -> np.ndarray:
    """Per resample and k, the share of problems that reach the cut, for one drawn (a, b, z)."""
    # Quantiles run from pessimistic to hopeful grid points, so that they mean the same everywhere.
    n, far = max(each.n for each in fitted), max(ks)
    hope_G = -np.expm1(betaln(_A, _B + n + far) - betaln(_A, _B + n)) * (1 - fitted[0].never_G)
    order = np.argsort(hope_G)
    out_RK = np.empty((len(weights_RP), len(ks)))
    for start in range(0, len(weights_RP), _CHUNK):
        rows = slice(start, start + _CHUNK)
        counts = [each.counts(weights_RP[rows]) for each in fitted]
        log_RG = _PRIOR[order] + sum(
            counts_RC[:, : each.low + 1] @ each.log_likelihood_GC[order].T
            for each, counts_RC in zip(fitted, counts, strict=True)
        )
        log_RG -= log_RG.max(1, keepdims=True)
        heaped_RG = np.cumsum(np.exp(log_RG), axis=1)
        wanted_R = quantiles_R[rows, None] * heaped_RG[:, -1:]
        grid_R = order[(heaped_RG < wanted_R).sum(1)]
        for column, k in enumerate(ks):
            out_RK[rows, column] = sum(
                each.reached(grid_R, counts_RC, k)
                for each, counts_RC in zip(fitted, counts, strict=True)
            )
    return out_RK / weights_RP.shape[1]
