"""Methods with several runs: the difference of two, by one procedure for interval and test.

`maxk.evaluate.crossed` has the model and the variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maxk.evaluate.crossed import Estimate, difference_of
from maxk.evaluate.samples import Metric, Rewards, blocks, scores
from maxk.evaluate.variance import sampling_variance


@dataclass(frozen=True)
class Replicates:
    """The runs of one method: scores[run, problem, k], with the same problems in one order.

    noise[run, k]: the variance of each run's mean that comes from its samples, where known.
    trained: False for a base model, which no seed has made: its runs are more samples of one model.
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

    def at(self, place: int) -> "Replicates":
        """The same at one k alone, by its place."""
        noise = None if self.noise is None else self.noise[:, [place]]
        return Replicates(self.scores[:, :, [place]], noise, self.trained)

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
    kept = Estimate(a_RK.mean(0) - b_RK.mean(0), np.sqrt(a_K + b_K), degrees_K)
    half_K = kept.half(confidence)
    columns = (kept.value - half_K, kept.value + half_K, kept.p(), degrees_K)
    return [Welch(*map(float, row)) for row in zip(*columns, strict=True)]
