"""What a group is trained for: means over k-subsets of their rewards, sorted. No torch.

Sort the k rewards of a subset I, r_(1,I) <= ... <= r_(k,I). An objective is a sum of parts

    weight * E[ sum_m c_m r_(m,I) ],     I: k independent samples,

which is all that the maximum, the minimum, the mean, a median, a trimmed mean, a tail or a quantile
of k samples are, and any mixture of them over several k. `maxk.estimators.ranks` and
`maxk.estimators.exact` estimate it and its gradient, on- and off-policy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from maxk.estimators.checks import check_k


class Part(NamedTuple):
    """weight * mean over k-subsets of the sum of ranks[m - 1] * (m-th smallest reward)."""

    weight: float
    ranks: tuple[float, ...]

    @property
    def k(self) -> int:
        return len(self.ranks)

    @property
    def is_best(self) -> bool:
        return self.ranks[-1] == 1.0 and not any(self.ranks[:-1])

    @property
    def is_worst(self) -> bool:
        return self.ranks[0] == 1.0 and not any(self.ranks[1:])


@dataclass(frozen=True)
class Objective:
    """An objective by name and parameters; make one by the functions of this module.

    threshold: rewards count as 1 from there on and as 0 below. binary: rewards must be 0 or 1.
    shift is added to the value, and has no gradient.

    >>> max_at_k(2).of(8)
    (Part(weight=1.0, ranks=(0.0, 1.0)),)
    """

    name: str
    parts: tuple[Part, ...]
    threshold: float | None = None
    binary: bool = False
    shift: float = 0.0

    def of(self, n: int) -> tuple[Part, ...]:
        """The parts for groups of n samples; ValueError if a group holds too few for one."""
        if n < self.k:
            raise ValueError(
                f"{self.name} needs groups of n >= {self.k} samples, not {n}: sample more per "
                "prompt, or use a smaller k"
            )
        return self.parts

    @property
    def k(self) -> int:
        """The size of the largest subset."""
        return max(part.k for part in self.parts)

    def __str__(self) -> str:
        return self.name


def mean() -> Objective:
    """The mean reward, max@1: what REINFORCE, RLOO and GRPO train for."""
    return Objective("mean()", (Part(1.0, (1.0,)),))


def max_at_k(k: int) -> Objective:
    """The best of k samples."""
    k = _check_size("k", k)
    return Objective(f"max_at_k({k})", (_best(k),))


def min_at_k(k: int) -> Objective:
    """The worst of k samples: for rewards that must hold every time (pass^k if binary)."""
    k = _check_size("k", k)
    return Objective(f"min_at_k({k})", (Part(1.0, (1.0, *[0.0] * (k - 1))),))


def pass_at_k(k: int, threshold: float = 1.0) -> Objective:
    """The chance that one of k samples reaches the threshold."""
    k = _check_size("k", k)
    return Objective(f"pass_at_k({k}, threshold={threshold:g})", (_best(k),), float(threshold))


def mixture(weights: Mapping[int, float]) -> Objective:
    """A sum of max@k over several k, each with its weight.

    >>> mixture({1: 0.5, 4: 0.5}).of(8)[1]
    Part(weight=0.5, ranks=(0.0, 0.0, 0.0, 1.0))
    """
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(
            f"weights={weights!r} must give a weight to each k, such as {{1: 0.5, 4: 0.5}}"
        )
    parts = []
    for k, weight in weights.items():
        parts.append(
            _best(_check_size("weights: k", k))._replace(
                weight=_check_number(f"weights[{k}]", weight)
            )
        )
    if not any(part.weight for part in parts):
        raise ValueError(f"weights={dict(weights)!r} are all 0; give one k a weight")
    told = ", ".join(f"{k}: {weight:g}" for k, weight in weights.items())
    return Objective(f"mixture({{{told}}})", tuple(part for part in parts if part.weight))


def uniform(k: int) -> Objective:
    """The mean of max@1, max@2, ... max@k."""
    k = _check_size("k", k)
    return Objective(f"uniform({k})", mixture(dict.fromkeys(range(1, k + 1), 1 / k)).parts)


def max_rl(order: int) -> Objective:
    """max@t with weight 1/t for t = 1 ... order, the objective of MaxRL for binary rewards.

    For binary rewards it is log pass@1 without the terms of its series above `order`. The method
    'max-rl' is the estimator of that paper, for order n; this one is unbiased for any order and
    for rewards of any kind, and another estimator: at order n, with c passes and no baseline, the
    weights of a pass and a failure differ by 1/(c+1) where MaxRL's differ by 1/c.
    """
    order = _check_size("order", order)
    parts = mixture({t: 1 / t for t in range(1, order + 1)}).parts
    return Objective(f"max_rl({order})", parts)


def l_statistic(weights: Sequence[float]) -> Objective:
    """A sum over the ranks of k = len(weights) samples, the first weight for the smallest reward.

    (0, 1, 0) is the median of 3, (0, 0, 0.5, 0.5) the mean of the two best of 4.
    """
    given = [_check_number(f"weights[{i}]", weight) for i, weight in enumerate(weights)]
    if not any(given):
        raise ValueError(f"weights={weights!r} are all 0; give one rank a weight")
    told = ", ".join(f"{weight:g}" for weight in given)
    return Objective(f"l_statistic({told})", (Part(1.0, tuple(given)),))


def cvar(alpha: float, k: int) -> Objective:
    """The mean of the best share alpha of k samples; of the worst for alpha below 0.

    A sample that lies in the share by part counts by part: cvar(0.5, 3) has weights 0, 1/3, 2/3.
    """
    k = _check_size("k", k)
    if not 0 < abs(alpha) <= 1:
        raise ValueError(f"alpha={alpha} must be a share between 0 and 1, or below 0 for the worst")
    share = abs(alpha) * k
    best = [min(max(share - i, 0.0), 1.0) / share for i in range(k)]
    ranks = tuple(best[::-1] if alpha > 0 else best)
    return Objective(f"cvar({alpha:g}, {k})", (Part(1.0, ranks),))


def quantile(q: float, k: int) -> Objective:
    """The q-quantile of k samples, linear between the two it lies between: 0.5 is the median."""
    k = _check_size("k", k)
    if not 0 <= q <= 1:
        raise ValueError(f"q={q} must be a share between 0 and 1; 0.5 is the median")
    below = min(math.floor(q * (k - 1)), k - 1)
    share = q * (k - 1) - below
    ranks = [0.0] * k
    ranks[below] = 1 - share
    if share:
        ranks[below + 1] = share
    return Objective(f"quantile({q:g}, {k})", (Part(1.0, tuple(ranks)),))


def denoised(objective: Objective, false_positive: float, false_negative: float) -> Objective:
    """The objective of the true binary rewards, for rewards that a verifier reads with errors.

    A wrong sample passes with chance `false_positive`, a right one fails with `false_negative`,
    each by itself. The value and the gradient are those that error-free rewards would give, in
    expectation. A subset with c right samples is worth f(c); it is given the value g(o) of the o
    that passed, such that E[g(o) | c] = f(c). Both are sums over ranks, so any correction and any
    baseline goes with it. Every reward is in effect divided by 1 - false_positive - false_negative,
    so the standard deviation grows as its k-th power: estimate the rates, and keep k small.
    """
    rates = {"false_positive": false_positive, "false_negative": false_negative}
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name}={rate} must be a chance from 0 to below 1")
    kept = 1 - false_positive - false_negative
    if kept <= 0:
        raise ValueError(
            f"false_positive={false_positive} and false_negative={false_negative} sum to 1 or "
            "more: passing says nothing then, or the opposite; use a better verifier"
        )
    failed, passed = -false_positive / kept, (1 - false_positive) / kept  # a reward made unbiased
    parts, shift = [], objective.shift
    for part in objective.parts:
        worth = _by_count(part.ranks)
        found = [
            _dot(_counts([failed] * (part.k - o) + [passed] * o), worth) for o in range(part.k + 1)
        ]
        steps = [after - before for before, after in pairwise(found)]
        parts.append(part._replace(ranks=tuple(steps[::-1])))
        shift += part.weight * found[0]
    name = f"denoised({objective.name}, {false_positive:g}, {false_negative:g})"
    return Objective(name, tuple(parts), objective.threshold, True, shift)


def _by_count(ranks: Sequence[float]) -> list[float]:
    """What a subset with 0, 1 ... k rewards of 1 is worth: its c largest ranks."""
    found = [0.0]
    for weight in reversed(ranks):
        found.append(found[-1] + weight)
    return found


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def _counts(chances: Sequence[float]) -> list[float]:
    """The chance of 0, 1 ... passes; each chance may lie outside 0 to 1."""
    row = [1.0]
    for chance in chances:
        row = [
            (row[c] * (1 - chance) if c < len(row) else 0.0) + (row[c - 1] * chance if c else 0.0)
            for c in range(len(row) + 1)
        ]
    return row


def _best(k: int) -> Part:
    return Part(1.0, (*[0.0] * (k - 1), 1.0))


def _check_size(name: str, k: Any) -> int:
    return check_k(k, name=name)


def _check_number(name: str, x: Any) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        raise ValueError(f"{name} is {x!r}; every weight must be a finite number")
    return float(x)
