"""The definitions, executed: every k-subset is visited, exactly as the formulas read.

Plain Python on lists. Each function returns one `Sum` per sample: the value, and the sum of the
absolute values of its terms, which is what a relative error is measured against.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import NamedTuple


class Sum(NamedTuple):
    value: float
    scale: float


def total(terms: Iterable[float]) -> Sum:
    terms = list(terms)
    return Sum(math.fsum(terms), math.fsum(map(abs, terms)))


def product(ratios: Sequence[float], subset: Iterable[int]) -> float:
    """prod_{i in I} rho_i: the factor of the exact estimator."""
    return math.prod(ratios[i] for i in subset)


def linearised(ratios: Sequence[float], subset: Iterable[int]) -> list[float]:
    """1 + sum_{i in I} delta_i, as separate terms: the factor of the first-order estimator."""
    return [1.0, *(ratios[i] - 1 for i in subset)]


def factors(order: str, ratios: Sequence[float], subset: Sequence[int]) -> list[float]:
    return [product(ratios, subset)] if order == "exact" else linearised(ratios, subset)


def subset_max(r: Sequence[float], ratios: Sequence[float], k: int) -> Sum:
    """S_k = 1/C(n,k) sum_I prod_{i in I} rho_i max_{i in I} r_i."""
    c = math.comb(len(r), k)
    subsets = combinations(range(len(r)), k)
    return total(product(ratios, s) * max(r[i] for i in s) / c for s in subsets)


def per_sample(
    r: Sequence[float],
    k: int,
    terms: Callable[[int, tuple[int, ...]], Iterable[float]],
) -> list[Sum]:
    """1/C(n,k) sum over I of the terms that sample i has in subset I."""
    c = math.comb(len(r), k)
    subsets = list(combinations(range(len(r)), k))
    return [total(t / c for s in subsets for t in terms(i, s)) for i in range(len(r))]


def plain(r, ratios, k, order) -> list[Sum]:
    """sum over I that contain i of factor(I) max_I r: eq. 10, or its first order."""
    return _plain(tuple(r), tuple(ratios), k, order)


@cache  # three baselines begin with it
def _plain(r, ratios, k, order) -> list[Sum]:
    def terms(i, s):
        if i in s:
            yield from (f * max(r[j] for j in s) for f in factors(order, ratios, s))

    return per_sample(r, k, terms)


def loo(r, ratios, k, order) -> list[Sum]:
    """w_i - rho_i k/(n-k) sum over I that do not contain i of factor(I) max_I r."""
    n = len(r)

    def terms(i, s):
        scale = 1.0 if i in s else -ratios[i] * k / (n - k)
        yield from (scale * f * max(r[j] for j in s) for f in factors(order, ratios, s))

    return per_sample(r, k, terms)


def loo_1(r, ratios, k, order) -> list[Sum]:
    """sum over I that contain i of factor(I) (max_I r - max_{I without i} r)."""

    def terms(i, s):
        if i in s:
            for f in factors(order, ratios, s):
                yield f * max(r[j] for j in s)
                yield -f * max(r[j] for j in s if j != i)

    return per_sample(r, k, terms)


def mean(r, ratios, k, order) -> list[Sum]:
    """w_i minus the mean of w."""
    w = plain(r, ratios, k, order)
    average = total(x.value / len(w) for x in w)
    scale = math.fsum(x.scale for x in w) / len(w)
    return [Sum(x.value - average.value, x.scale + scale) for x in w]


def ratio_mean(r, ratios, k, order) -> list[Sum]:
    """w_i minus its share rho_i / sum(rho) of the sum of w."""
    w = plain(r, ratios, k, order)
    whole, scale = math.fsum(x.value for x in w), math.fsum(x.scale for x in w)
    shares = [ratio / math.fsum(ratios) for ratio in ratios]
    return [
        Sum(x.value - share * whole, x.scale + share * scale)
        for x, share in zip(w, shares, strict=True)
    ]


def normalized(r, ratios, k) -> list[Sum]:
    """The chance of a subset with i, drawn by its product of ratios, times its best less the mean.

    In rational arithmetic, for the mean is subtracted from rewards that may be next to equal.
    """
    exact = [Fraction(x) for x in r]
    factors = [Fraction(x) for x in ratios]
    drawn = {s: math.prod(factors[i] for i in s) for s in combinations(range(len(r)), k)}
    whole = sum(drawn.values())
    best = sum(p * max(exact[i] for i in s) for s, p in drawn.items()) / whole
    out = []
    for i in range(len(r)):
        terms = [p / whole * (max(exact[j] for j in s) - best) for s, p in drawn.items() if i in s]
        chance = sum(p for s, p in drawn.items() if i in s) / whole
        out.append(Sum(float(sum(terms)), float(chance * max(abs(x) for x in exact))))
    return out


BASELINES = {"none": plain, "loo": loo, "loo-1": loo_1, "mean": mean, "ratio-mean": ratio_mean}


def weights(r, ratios, k, order, baseline) -> list[Sum]:
    """The weights by enumeration; "none" is "exact" at ratio 1."""
    if order == "normalized":
        return normalized(r, ratios, k)
    if order == "none":
        order, ratios = "exact", [1.0] * len(r)
    return BASELINES[baseline](r, ratios, k, order)
