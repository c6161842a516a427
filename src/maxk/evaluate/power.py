"""How many runs, problems and samples tell a difference of two methods apart.

The variance of the difference is that of `maxk.evaluate.crossed`, with R runs a side:

    Var D = 2 (between^2 + (within^2 + noise^2 / n) / P) / R  +  by_problem^2 / P

between      standard deviation between the true means of runs of one method
within       of a run on a single problem, beside its method's and its own mean
noise        of one problem's max@k with one sample; noise^2 / n with n samples
by_problem   of the true difference of the two methods over problems
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import nctdtr, stdtrit

from maxk.evaluate.crossed import variances_of
from maxk.evaluate.replicates import Replicates

MOST_RUNS = 1000


@dataclass(frozen=True)
class Variances:
    """Standard deviations, and the problems and samples that a measurement has."""

    between: float
    within: float
    problems: int
    samples: int
    noise: float = 0.0
    by_problem: float = 0.0

    def __post_init__(self) -> None:
        for name in ("between", "within", "noise", "by_problem"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name}={getattr(self, name)} is no standard deviation; use >= 0")
        for name in ("problems", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is below 1; use 1 or more")
        if self.problems < 2:
            raise ValueError("problems=1 has no variance over problems; use 2 or more")

    @property
    def on_a_problem(self) -> float:
        """The variance of a run on one problem, samples included."""
        return self.within**2 + self.noise**2 / self.samples


def variances(runs: Replicates, place: int, samples: int) -> Variances:
    """Those of the runs of one method at one k; at least two runs.

    What two methods differ by from problem to problem is not known from one: by_problem is 0.
    """
    if runs.runs < 2:
        raise ValueError(f"runs holds {runs.runs} run; variances need two or more of one method")
    one = runs.at(place)
    of_means, left = variances_of(one.scores)
    problems = one.scores.shape[1]
    noise = 0.0 if one.noise is None else max(float(one.noise.mean()) * problems, 0.0)
    return Variances(
        between=float(np.sqrt(max(of_means[0] - left[0] / problems, 0.0))),
        within=float(np.sqrt(max(left[0] - noise, 0.0))),
        problems=problems,
        samples=samples,
        noise=float(np.sqrt(noise * samples)),
    )


def power(found: Variances, runs: int, delta: float, level: float = 0.05) -> float:
    """The chance that `compare_runs` with so many runs a side tells a difference of delta apart.

    >>> alike = Variances(between=0.0, within=0.2, problems=100, samples=64)
    >>> round(power(alike, 3, 0.0), 3)  # without a difference: the level
    0.05
    """
    if runs < 2:
        raise ValueError(f"runs={runs} has no deviation between runs; use 2 or more")
    by_runs = 2 * (found.between**2 + found.on_a_problem / found.problems) / runs
    by_problems = found.by_problem**2 / found.problems
    total = by_runs + by_problems
    if total == 0:
        return 1.0 if delta else level
    spread = by_runs**2 / (2 * (runs - 1)) + by_problems**2 / (found.problems - 1)
    degrees = total**2 / spread
    edge, shift = stdtrit(degrees, 1 - level / 2), abs(delta) / np.sqrt(total)
    return float(1 - nctdtr(degrees, shift, edge) + nctdtr(degrees, shift, -edge))


def runs_needed(
    found: Variances, delta: float, wanted: float = 0.8, level: float = 0.05
) -> int | None:
    """The fewest runs a side that find a difference of delta so often; None above MOST_RUNS."""
    enough = (
        runs for runs in range(2, MOST_RUNS + 1) if power(found, runs, delta, level) >= wanted
    )
    return next(enough, None)


def smallest(found: Variances, runs: int, wanted: float = 0.8, level: float = 0.05) -> float:
    """The smallest difference that so many runs a side find so often."""
    low, high = 0.0, 1e-6
    while power(found, runs, high, level) < wanted:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if power(found, runs, middle, level) >= wanted else (middle, high)
    return high


def with_more(found: Variances, problems: int = 1, samples: int = 1) -> Variances:
    """The same with so many times the problems and samples."""
    return replace(found, problems=found.problems * problems, samples=found.samples * samples)
