"""The variance of a difference of two methods whose runs have the same problems.

A score is Y[r, p], max@k of run r on problem p. Runs are nested in methods, problems are crossed
with runs, and samples are nested in both:

    Y[r, p] = method + run r + problem p + method x problem + (run x problem and samples)

Problems are a sample from a population, and so are runs: an interval says what another set of runs
on another benchmark of the same kind would give. The variance of the difference D of two means
over R_a and R_b runs and P problems is estimated in closed form,

    Var D = S_a^2 / R_a + S_b^2 / R_b  +  G / P - M_a / (R_a P) - M_b / (R_b P)

    S^2  variance between the means of the runs of a method
    G    variance over problems of the difference of the two methods' means
    M    mean square of what is left of Y without its row and column means: run x problem, samples

S_a^2 / R_a + S_b^2 / R_b is not below what it would be if both methods had the pooled S^2, which
matters where R_a and R_b differ. The last terms take out what the first ones hold already
(two-way clustering; Owen 2007, Cameron, Gelbach and Miller 2011) and may exceed them, so the sum is
kept at half of the first two terms or more. The noise of the samples is in S^2, G and M alike, so
it is in the interval. Degrees of freedom are Satterthwaite's; interval and p-value come from the
same t. docs/explanation/intervals.md has the measured coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

_DRAWS = 10_000  # of the largest of all k, for bands
_LEAST = 0.5  # of the variance by runs is kept where that by problems comes out negative
_TINY = 1e-12  # of the largest score: rounding


class Part(NamedTuple):
    """A term of a variance: sign * factor.T @ factor, with its degrees of freedom."""

    sign: int
    factor: np.ndarray
    degrees: int


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference for every k, its standard error and degrees of freedom."""

    value: np.ndarray
    error: np.ndarray
    degrees: np.ndarray
    parts: tuple[Part, ...] = ()

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
        covariance_KK = sum(
            part.sign * part.factor.T @ part.factor for part in self.parts
        ) + np.diag(np.full(len(self.value), 1e-300))
        values, vectors = np.linalg.eigh(covariance_KK / max(covariance_KK.max(), 1e-300))
        root_KX = vectors * np.sqrt(np.maximum(values, 0))
        size_K1 = np.sqrt((root_KX**2).sum(1, keepdims=True))
        root_KX = np.divide(root_KX, size_K1, where=size_K1 > 0, out=np.zeros_like(root_KX))
        drawn_RK = np.random.default_rng(0).standard_normal((_DRAWS, len(values))) @ root_KX.T
        alone = float(ndtri((1 + confidence) / 2))
        return max(alone, float(np.quantile(np.abs(drawn_RK).max(1), confidence)))


def difference_of(a_RPK: np.ndarray, b_RPK: np.ndarray) -> Estimate:
    """The difference of two methods. A single run is taken to be all that its method can give."""
    gap_PK = a_RPK.mean(0) - b_RPK.mean(0)
    scale_K = np.maximum(np.abs(a_RPK).max((0, 1)), np.abs(b_RPK).max((0, 1)))
    return _estimate(np.where(np.abs(gap_PK) > _TINY * scale_K, gap_PK, 0.0), (a_RPK, b_RPK))


def mean_of(a_RPK: np.ndarray) -> Estimate:
    """The mean of one method over its runs and problems."""
    return _estimate(a_RPK.mean(0), (a_RPK,))


def variances_of(y_RPK: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S^2 and M of one method, at every k."""
    runs, problems = y_RPK.shape[:2]
    between_K = (_runs(y_RPK).factor ** 2).sum(0) * runs
    return between_K, (_rest(y_RPK).factor ** 2).sum(0) * runs * problems


def _estimate(gap_PK: np.ndarray, sides: tuple[np.ndarray, ...]) -> Estimate:
    problems = len(gap_PK)
    fewer = max(problems - 1, 1)
    value_K = gap_PK.mean(0)
    runs = _at_least_pooled([_runs(y_RPK) for y_RPK in sides if len(y_RPK) > 1])
    crossed = [Part(1, (gap_PK - value_K) / np.sqrt(fewer * problems), fewer)]
    crossed += [_rest(y_RPK) for y_RPK in sides if len(y_RPK) > 1]
    between_K, spread_K = _summed(runs)
    over_K, more_K = _summed(crossed)
    counted = over_K > (_LEAST - 1) * between_K
    variance_K = np.where(counted, between_K + over_K, _LEAST * between_K)
    spread_K = np.where(counted, spread_K + more_K, _LEAST**2 * spread_K)
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees_K = np.where(spread_K > 0, np.maximum(variance_K**2 / spread_K, 1.0), fewer)
    # Equal gaps on a handful of problems are no proof: as if one more had shown no difference.
    floor_K = value_K**2 / (problems * (problems + 1))
    return Estimate(
        value=value_K,
        error=np.sqrt(np.maximum(variance_K, floor_K)),
        degrees=np.where(variance_K < floor_K, fewer, degrees_K),
        parts=(*runs, *crossed),
    )


def _runs(y_RPK: np.ndarray) -> Part:
    """Of the mean over runs, by the means of the runs."""
    runs, mean_RK = len(y_RPK), y_RPK.mean(1)
    return Part(1, (mean_RK - mean_RK.mean(0)) / np.sqrt((runs - 1) * runs), runs - 1)


def _at_least_pooled(parts: list[Part]) -> list[Part]:
    """With a variance of runs as large as if all methods had the same, if that is larger.

    Only where the numbers of runs differ do the two differ. Few runs that happen to lie close to
    each other would otherwise hide behind the many of the other side.
    """
    if len(parts) < 2:
        return parts
    squares = [(part.degrees, (part.factor**2).sum(0)) for part in parts]
    own_K = sum(term_K for _, term_K in squares)
    # A term is S^2 / R with R - 1 degrees of freedom.
    free = sum(degrees for degrees, _ in squares)
    pooled_K = sum(degrees * (degrees + 1) * term_K for degrees, term_K in squares) / free
    pooled_K = pooled_K * sum(1 / (degrees + 1) for degrees, _ in squares)
    grown_K = np.sqrt(np.divide(pooled_K, own_K, out=np.ones_like(pooled_K), where=own_K > 0))
    return [part._replace(factor=part.factor * np.maximum(grown_K, 1.0)) for part in parts]


def _rest(y_RPK: np.ndarray) -> Part:
    """Of the mean over runs and problems, by what is left without rows and columns."""
    runs, problems, ks = y_RPK.shape
    mean_RK = y_RPK.mean(1, keepdims=True)
    left_XK = (y_RPK - y_RPK.mean(0) - mean_RK + mean_RK.mean(0)).reshape(-1, ks)
    free = (runs - 1) * max(problems - 1, 1)
    return Part(-1, left_XK / np.sqrt(free * runs * problems), free)


def _summed(parts: Sequence[Part]) -> tuple[np.ndarray | float, np.ndarray | float]:
    """The variance at each k, and the sum of squared terms over their degrees of freedom."""
    terms = [(part.factor**2).sum(0) for part in parts]
    total = sum(part.sign * term_K for part, term_K in zip(parts, terms, strict=True))
    return total, sum(term_K**2 / part.degrees for part, term_K in zip(parts, terms, strict=True))
