"""Methods with several runs: the difference of two, with one procedure for interval and test.

A score is Y[r, p], max@k of run r on problem p. Runs are nested in methods, problems are crossed
with runs, and samples are nested in both:

    Y[r, p] = method + run r + problem p + method x problem + (run x problem and samples)

Problems are a sample from a population, and so are runs: an interval says what another set of runs
on another benchmark of the same kind would give. The variance of the difference D of two means
over R_a and R_b runs and P problems is estimated in closed form,

    Var D = S_a^2 / R_a + S_b^2 / R_b  +  max(0, G / P - M_a / (R_a P) - M_b / (R_b P))

    S^2  variance between the means of the runs of a method
    G    variance over problems of the difference of the two methods' means
    M    mean square of what is left of Y without its row and column means: run x problem, samples

The last terms take out what the first ones hold already (two-way clustering; Owen 2007, Cameron,
Gelbach and Miller 2011). The noise of the samples is in S^2, G and M alike, so it is in the
interval. Degrees of freedom are Satterthwaite's; interval and p-value come from the same t.
docs/explanation/intervals.md has the measured coverage, also beside the bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from maxk.evaluate.samples import Metric, Rewards, blocks, scores
from maxk.evaluate.variance import sampling_variance

_DRAWS = 10_000  # of the largest of all k, for bands
_TINY = 1e-12  # of the largest gap: rounding


@dataclass(frozen=True)
class Replicates:
    """The runs of one method: scores[run, problem, k], with the same problems in one order.

    noise[run, k]: the variance of each run's mean that comes from its samples, where known. trained:
    False for a base model, which no seed has made. Its runs are more samples of the same model.
    """

    scores: np.ndarray
    noise: np.ndarray | None = None
    trained: bool = True

    def __post_init__(self) -> None:
        shape = np.shape(self.scores)
        if len(shape) != 3 or 0 in shape:
            raise ValueError(
                f"scores has shape {shape}; give [runs, problems, ks], none of them empty"
            )

    @property
    def runs(self) -> int:
        return len(self.scores)

    @property
    def means(self) -> np.ndarray:
        return self.scores.mean(1)

    @property
    def between(self) -> np.ndarray | None:
        """Standard deviation between the means of the runs; None with one run."""
        return self.means.std(0, ddof=1) if self.runs > 1 else None

    @property
    def sampling(self) -> np.ndarray | None:
        """The part of `between` that the samples alone would give."""
        return None if self.noise is None else np.sqrt(np.maximum(self.noise, 0).mean(0))


def replicates(
    runs: Sequence[Rewards],
    ks: Sequence[int],
    metric: Metric = "max",
    threshold: float = 1.0,
    trained: bool = True,
) -> Replicates:
    """The runs of one method from their rewards; each run has the same problems in one order.

    >>> replicates([[[0.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]], [1]).means
    array([[0.25],
           [0.5 ]])
    """
    return Replicates(
        np.stack([scores(run, ks, metric, threshold) for run in runs]),
        np.stack([_noise(run, ks, metric, threshold) for run in runs]),
        trained,
    )


def _noise(run: Rewards, ks: Sequence[int], metric: Metric, threshold: float) -> np.ndarray:
    total_K = np.zeros(len(ks))
    for block in blocks(run):
        counted_PN = block.rewards >= threshold if metric == "pass" else block.rewards
        total_K += sampling_variance(counted_PN, ks).sum(0)
    return total_K / len(run) ** 2


@dataclass(frozen=True)
class Welch:
    """Welch's t on the means of the runs alone: the problems are kept as they are."""

    low: float
    high: float
    p: float
    degrees: float


@dataclass(frozen=True)
class RunDifference:
    """First minus second at one k. low, high and p are of the same t with `degrees`.

    low_all, high_all: the band that holds for all k at once. sd_first, sd_second: between the means
    of the runs; None with one run. noise_first, noise_second: what samples alone give of it.
    """

    k: int
    first: float
    second: float
    value: float
    low: float
    high: float
    p: float
    error: float
    degrees: float
    low_all: float
    high_all: float
    runs: tuple[int, int]
    trained: tuple[bool, bool]
    sd_first: float | None
    sd_second: float | None
    noise_first: float | None
    noise_second: float | None
    welch: Welch | None

    @property
    def by_run(self) -> bool:
        """Whether the interval covers other runs: two or more on each side that was trained."""
        return self.has_runs(2)

    def has_runs(self, minimum: int) -> bool:
        """Whether each trained side has so many runs, and at least one side was trained."""
        sides = zip(self.runs, self.trained, strict=True)
        return any(self.trained) and all(runs >= minimum for runs, trained in sides if trained)


def compare_runs(
    first: Replicates, second: Replicates, ks: Sequence[int], confidence: float = 0.95
) -> list[RunDifference]:
    """First minus second at every k; both have the same problems in one order.

    With two or more runs on each side that was trained, the interval covers runs, problems and
    samples. Otherwise it covers the problems and samples of these very runs.

    >>> rng = np.random.default_rng(0)
    >>> a, b = (Replicates(rng.random((3, 50, 1))) for _ in range(2))
    >>> (row,) = compare_runs(a, b, [8])
    >>> row.by_run, row.low < 0 < row.high, row.p > 0.05
    (True, True, True)
    """
    a_RPK, b_RPK = (np.asarray(each.scores, dtype=np.float64) for each in (first, second))
    if a_RPK.shape[1:] != b_RPK.shape[1:] or a_RPK.shape[2] != len(ks):
        raise ValueError(
            f"first has scores of shape {a_RPK.shape}, second of {b_RPK.shape}, and ks has "
            f"{len(ks)} values; give the same problems and ks on both sides"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1, for example 0.95")
    sides = (first, second)
    by_run = any(each.trained for each in sides) and all(
        each.runs > 1 for each in sides if each.trained
    )
    kept = [
        y_RPK if by_run and each.trained else y_RPK.mean(0, keepdims=True)
        for y_RPK, each in zip((a_RPK, b_RPK), sides, strict=True)
    ]
    estimate = difference_of(*kept)
    half_K = estimate.half(confidence)
    band_K = estimate.half_of_band(confidence)
    p_K = estimate.p()
    numbers = {
        "first": a_RPK.mean((0, 1)),
        "second": b_RPK.mean((0, 1)),
        "value": estimate.value,
        "low": estimate.value - half_K,
        "high": estimate.value + half_K,
        "p": p_K,
        "error": estimate.error,
        "degrees": estimate.degrees,
        "low_all": estimate.value - band_K,
        "high_all": estimate.value + band_K,
        "sd_first": first.between,
        "sd_second": second.between,
        "noise_first": first.sampling,
        "noise_second": second.sampling,
    }
    beside = _welch(first, second, confidence)
    return [
        RunDifference(
            k=k,
            runs=(first.runs, second.runs),
            trained=(first.trained, second.trained),
            welch=None if beside is None else beside[i],
            **{name: None if x_K is None else float(x_K[i]) for name, x_K in numbers.items()},
        )
        for i, k in enumerate(ks)
    ]


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference for every k, its standard error, degrees of freedom, covariance."""

    value: np.ndarray
    error: np.ndarray
    degrees: np.ndarray
    covariance: np.ndarray

    def half(self, confidence: float) -> np.ndarray:
        """Half the width of the interval at every k, each by itself."""
        return self.error * stdtrit(self.degrees, (1 + confidence) / 2)

    def half_of_band(self, confidence: float) -> np.ndarray:
        """Half the width of the band that holds at all k together with this confidence."""
        return self.half(2 * ndtr(self._largest(confidence)) - 1)

    def p(self) -> np.ndarray:
        """Two-sided, that the true value is 0, at every k by itself."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t_K = np.where(self.error > 0, -np.abs(self.value) / self.error, 0.0)
        return 2 * stdtr(self.degrees, t_K)

    def _largest(self, confidence: float) -> float:
        """The quantile of the largest |z| of all k, which are correlated."""
        scale_K = np.sqrt(np.maximum(np.diag(self.covariance), 0))
        used = scale_K > 0
        if not used.any():
            used[0], scale_K[0] = True, 1.0
        of_all = np.outer(scale_K[used], scale_K[used])
        values, vectors = np.linalg.eigh(self.covariance[np.ix_(used, used)] / of_all)
        root = vectors * np.sqrt(np.maximum(values, 0))
        size = np.sqrt((root**2).sum(1, keepdims=True))
        root /= np.where(size > 0, size, 1)
        drawn = np.random.default_rng(0).standard_normal((_DRAWS, len(values))) @ root.T
        one = float(stdtrit(np.inf, (1 + confidence) / 2))
        return max(one, float(np.quantile(np.abs(drawn).max(1), confidence)))


def difference_of(a_RPK: np.ndarray, b_RPK: np.ndarray) -> Estimate:
    """The difference of two methods. One run of a method is taken to be all there can be."""
    gap_PK = a_RPK.mean(0) - b_RPK.mean(0)
    scale_K = np.maximum(np.abs(a_RPK).max((0, 1)), np.abs(b_RPK).max((0, 1)))
    gap_PK = np.where(np.abs(gap_PK) > _TINY * scale_K, gap_PK, 0.0)
    return _estimate(gap_PK, [a_RPK, b_RPK])


def mean_of(a_RPK: np.ndarray) -> Estimate:
    """The mean of one method over its runs and problems."""
    return _estimate(a_RPK.mean(0), [a_RPK])


def _estimate(gap_PK: np.ndarray, sides: Sequence[np.ndarray]) -> Estimate:
    problems, ks = gap_PK.shape
    off_PK = gap_PK - gap_PK.mean(0)
    fewer = max(problems - 1, 1)
    over_problems_KK = off_PK.T @ off_PK / fewer / problems
    between_KK, rest_KK = np.zeros((ks, ks)), np.zeros((ks, ks))
    between_K, rest_K = np.zeros(ks), np.zeros(ks)  # sums of squares over degrees of freedom
    for y_RPK in sides:
        runs = len(y_RPK)
        if runs < 2:
            continue
        mean_RK = y_RPK.mean(1)
        run_RK = mean_RK - mean_RK.mean(0)
        left_XK = (y_RPK - y_RPK.mean(0) - run_RK[:, None]).reshape(-1, ks)
        free = (runs - 1) * fewer
        of_runs = run_RK.T @ run_RK / (runs - 1) / runs
        of_rest = left_XK.T @ left_XK / free / (runs * problems)
        between_KK += of_runs
        rest_KK += of_rest
        between_K += np.diag(of_runs) ** 2 / (runs - 1)
        rest_K += np.diag(of_rest) ** 2 / free
    of_problems_KK = over_problems_KK - rest_KK
    counted = np.diag(of_problems_KK) > 0
    variance_K = np.diag(between_KK) + np.where(counted, np.diag(of_problems_KK), 0.0)
    over_K = np.diag(over_problems_KK)
    spread_K = between_K + np.where(counted, over_K**2 / fewer + rest_K, 0.0)
    # Equal gaps on a handful of problems are no proof: as if one more had shown no difference.
    value_K = gap_PK.mean(0)
    floor_K = value_K**2 / (problems * (problems + 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees_K = np.where(spread_K > 0, variance_K**2 / spread_K, fewer)
    degrees_K = np.where(variance_K < floor_K, fewer, np.maximum(degrees_K, 1.0))
    return Estimate(
        value=value_K,
        error=np.sqrt(np.maximum(variance_K, floor_K)),
        degrees=degrees_K,
        covariance=between_KK + of_problems_KK,
    )


def _welch(first: Replicates, second: Replicates, confidence: float) -> list[Welch] | None:
    """None unless both sides have two runs or more."""
    if min(first.runs, second.runs) < 2:
        return None
    a_RK, b_RK = first.means, second.means
    a_K, b_K = (x_RK.var(0, ddof=1) / len(x_RK) for x_RK in (a_RK, b_RK))
    spread_K = a_K**2 / (len(a_RK) - 1) + b_K**2 / (len(b_RK) - 1)
    fewest = min(len(a_RK), len(b_RK)) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees_K = np.where(spread_K > 0, (a_K + b_K) ** 2 / spread_K, fewest)
    kept = Estimate(
        a_RK.mean(0) - b_RK.mean(0), np.sqrt(a_K + b_K), degrees_K, np.zeros((len(a_K),) * 2)
    )
    half_K = kept.half(confidence)
    columns = (kept.value - half_K, kept.value + half_K, kept.p(), degrees_K)
    return [Welch(*map(float, row)) for row in zip(*columns, strict=True)]
