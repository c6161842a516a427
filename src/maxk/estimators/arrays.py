"""The weights of any objective for numpy and JAX arrays, without torch.

numpy and jax.numpy have the same functions under the same names, so this is written once; `scan`
walks over the samples, as a Python loop for numpy and as one operation of the compiler for JAX. So
jit, vmap and grad work for fixed n and k. JAX computes in the precision it is set to: for float64
set jax_enable_x64, as tests/estimators/test_arrays.py does.

The formulas are those of `ranks`, `ordered` and `exact`, which torch uses; the last has a shorter
way for the best of k than the one for any ranks here.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from maxk.estimators.checks import check_k
from maxk.estimators.combinations import Baseline, Correction, check_combination
from maxk.estimators.objectives import Objective, Part, max_at_k
from maxk.estimators.places import Counts, Parts, counts, places

Array = Any


class Library(NamedTuple):
    """numpy or jax.numpy, and its loop: scan(step, carry, xs) as jax.lax has it."""

    np: Any
    scan: Callable[..., tuple[Any, Any]]


def library_of(x: Any) -> Library:
    """That of an array; lists are numpy's."""
    if type(x).__module__.startswith("jax"):
        jax: Any = import_module("jax")  # not installed where nobody has such an array
        return Library(jax.numpy, jax.lax.scan)
    return Library(np, _loop)


def _loop(step: Callable[..., Any], carry: Any, xs: Any) -> tuple[Any, Any]:
    found = []
    for x in zip(*xs, strict=True):
        carry, y = step(carry, x)
        found.append(y)
    return carry, tuple(np.stack(column) for column in zip(*found, strict=True))


def weights(
    rewards: Any,
    k: int | Objective,
    log_ratios: Any = None,
    correction: Correction = "exact",
    baseline: Baseline = "none",
) -> Any:
    """`maxk.estimators.weights` for lists, numpy arrays and JAX arrays; the same kind comes back.

    Groups are on the last axis. Values are checked where they can be seen: not under jax.jit, where
    a reward that is not finite gives a weight that is not.

    >>> weights([0.0, 1.0, 0.5, 0.0], 2, baseline="loo-1")
    [0.0, 0.4166666666666667, 0.16666666666666666, 0.0]
    """
    lib = library_of(rewards)
    r = lib.np.asarray(rewards)
    if r.ndim == 0 or r.dtype.kind not in "fiub":
        raise ValueError(f"rewards is {rewards!r:.60}; pass numbers, the samples on the last axis")
    r = r.astype(float) if r.dtype.kind != "f" or lib.np is np else r
    objective = k if isinstance(k, Objective) else max_at_k(check_k(k, r.shape[-1]))
    check_combination(objective, correction, baseline, r.shape[-1])
    x = None if log_ratios is None else lib.np.asarray(log_ratios, dtype=r.dtype)
    if x is not None and correction == "none":
        raise ValueError(
            'log_ratios is given but correction="none" ignores it; leave it out, or use '
            'correction="exact"'
        )
    if x is not None and x.shape != r.shape:
        raise ValueError(
            f"log_ratios has shape {x.shape} and rewards {r.shape}; they must be equal: one number "
            "per completion, the sum of its tokens' log-ratios"
        )
    for name, each in (("rewards", r), ("log_ratios", x)):
        if isinstance(each, np.ndarray) and not np.isfinite(each).all():
            raise ValueError(f"{name} has an entry that is not finite; every entry must be finite")
    if objective.threshold is not None:
        r = (r >= objective.threshold).astype(r.dtype)
    elif objective.binary and isinstance(r, np.ndarray) and not np.isin(r, (0, 1)).all():
        raise ValueError(f"rewards must be 0 or 1: {objective} is for binary rewards")
    w = group_weights(lib, r, objective.of(r.shape[-1]), x, correction, baseline)
    if lib.np is not np:
        return w
    kind = rewards.dtype if isinstance(rewards, np.ndarray) else None
    return w.tolist() if kind is None else w.astype(kind if kind.kind == "f" else float)


def group_weights(
    lib: Library, r: Array, parts: Parts, log_ratios: Array | None, correction: str, baseline: str
) -> Array:
    """The weights of checked arguments; groups on the last axis."""
    position = lib.np.argsort(r, axis=-1)
    r = lib.np.take_along_axis(r, position, -1)
    if log_ratios is None or correction == "none":
        w = _at_ratio_1(lib, r, parts, "mean" if correction == "normalized" else baseline)
    else:
        x = lib.np.take_along_axis(log_ratios, position, -1)
        w = {"first": _first_order, "exact": _exact, "normalized": _normalized}[correction](
            lib, r, x, parts, baseline
        )
    return lib.np.take_along_axis(w, lib.np.argsort(position, axis=-1), -1)


# --- at and near ratio 1 --------------------------------------------------------------------------


def _at_ratio_1(lib: Library, r: Array, parts: Parts, baseline: str) -> Array:
    n = r.shape[-1]
    if baseline == "loo-1":
        return _marginals(_first_order_marginal, lib, r, parts, 0 * r)
    if baseline == "loo":
        more = tuple(part._replace(weight=part.weight / (1 - part.k / n)) for part in parts)
        return _centred(lib, _on_policy(lib, r, counts(more, n)))
    return _against(lib, baseline, _on_policy(lib, r, counts(parts, n)))


def _on_policy(lib: Library, r: Array, c: Counts) -> Array:
    r = lib.np.clip(r, r[..., c.first : c.first + 1], r[..., c.last : c.last + 1])
    w = c.own * r + _after(lib, c.below * r) + _before(lib, c.above * r)
    # Equal rewards get the weight of the last of them, bit for bit.
    n = r.shape[-1]
    ends = lib.np.concatenate([r[..., 1:] != r[..., :-1], lib.np.ones_like(r[..., :1]) > 0], -1)
    last = lib.np.where(ends, lib.np.arange(n), n - 1)[..., ::-1]
    return lib.np.take_along_axis(w, lib.np.minimum.accumulate(last, axis=-1)[..., ::-1], -1)


def _first_order(lib: Library, r: Array, x: Array, parts: Parts, baseline: str) -> Array:
    n, deltas = r.shape[-1], lib.np.expm1(x)
    if baseline == "loo-1":
        return _marginals(_first_order_marginal, lib, r, parts, deltas)
    c, lower, higher = counts(parts, n), _before(lib, deltas), _after(lib, deltas)
    w = (
        r * (c.own * (1 + deltas) + c.below * lower + c.above * higher)
        + (1 + deltas) * (_after(lib, c.below * r) + _before(lib, c.above * r))
        + _after(lib, r * (c.below * deltas + c.below_above * higher))
        + _before(lib, r * (c.above * deltas + c.below_above * lower))
        + _beside(lib, r * c.below_below, deltas, lower)
        + _beside_above(lib, r * c.above_above, deltas, higher)
    )
    if baseline != "loo":
        return _against(lib, baseline, w, x)
    c = counts(tuple(p._replace(weight=p.weight * p.k / (n - p.k)) for p in parts), n)
    without = (
        _after(lib, r * (c.no_below * (1 + deltas) + c.no_below_above * higher))
        + _before(lib, r * (c.no_above * (1 + deltas) + c.no_above_below * lower))
        + _beside(lib, r * c.no_below_below, deltas, lower)
        + _beside_above(lib, r * c.no_above_above, deltas, higher)
    )
    return w - lib.np.exp(x) * without


def _beside(lib: Library, x: Array, deltas: Array, lower: Array) -> Array:
    """sum_{j > i} x_j sum_{l < j, l not i} delta_l."""
    later = _after(lib, x)
    return lower * later + _after(lib, deltas * later)


def _beside_above(lib: Library, x: Array, deltas: Array, higher: Array) -> Array:
    flipped = (each[..., ::-1] for each in (x, deltas, higher))
    return _beside(lib, *flipped)[..., ::-1]


def _first_order_marginal(lib: Library, r: Array, part: Part, deltas: Array) -> Array:
    """`loo-1`, for the best of k: only subsets whose best is i count."""
    n, k = r.shape[-1], part.k
    j = np.arange(1, n + 1)
    top = places(n, k, k)
    pair = top * (k - 1) / np.maximum(j - 1, 1)
    triple = pair * (k - 2) / np.maximum(j - 2, 1)
    earlier = _before(lib, deltas)
    best = r * (top * (1 + deltas) + pair * earlier)
    pair, triple = (np.append(x[1:], 0.0) for x in (pair, triple))
    second = (1 + deltas) * _before(lib, pair * r)
    return best - second - _before(lib, r * (pair * deltas + triple * earlier))


# --- at any ratio ---------------------------------------------------------------------------------


class Coins(NamedTuple):
    """Coins with heads in the odds t * ratio; given k heads they are the tilted k-subsets."""

    heads: Array
    tails: Array
    half_scale: Array  # times its square: from E[...; k heads] to a mean over subsets


def _coins(lib: Library, x: Array, k: int) -> Coins:
    n = x.shape[-1]
    ordered = lib.np.sort(x, axis=-1)
    log_t = -(ordered[..., n - k, None] + ordered[..., max(n - k - 1, 0), None]) / 2
    wanted = math.log((k + 0.5) / (n - k + 0.5))
    for _ in range(2):  # `exact.coins` says why
        heads = lib.np.exp(-lib.np.logaddexp(0.0, -(x + log_t)))
        share = (heads.sum(-1, keepdims=True) + 0.5) / (n + 1)
        log_t = log_t + wanted - lib.np.log(share / (1 - share))
    odds = x + log_t
    log_choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    log_product = lib.np.logaddexp(odds, 0.0).sum(-1, keepdims=True)
    return Coins(
        heads=lib.np.exp(-lib.np.logaddexp(0.0, -odds)),
        tails=lib.np.exp(-lib.np.logaddexp(0.0, odds)),
        half_scale=lib.np.exp((log_product - k * log_t - log_choose) / 2),
    )


def _met(lib: Library, c: Coins, r: Array, ranks: tuple[float, ...]) -> tuple[Array, Array, Array]:
    """E[worth; i in I], E[worth; i not in I] and P(i in I) of every sample: `ordered.meet`."""
    xp, k = lib.np, len(ranks)
    weight = xp.asarray(ranks, dtype=r.dtype)
    heads, tails, own = (xp.moveaxis(x, -1, 0)[..., None] for x in (c.heads, c.tails, r))
    none = xp.zeros_like(own[0])
    zeros = xp.concatenate([none] * (k + 1), -1)
    start = xp.concatenate([none + 1.0, zeros[..., 1:-1]], -1), zeros

    def up(carry: Any, coin: Any) -> Any:
        (below, earned), (h, t, mine) = carry, coin
        more = earned[..., :-1] + weight * mine * below
        later = t * earned + xp.concatenate([none, h * more], -1)
        return (t * below + xp.concatenate([none, h * below[..., :-1]], -1), later), carry

    def down(carry: Any, at: Any) -> Any:
        (chance, later), (h, t, mine, below, earned) = carry, at
        adds = weight * mine * chance[..., 1:] + later[..., 1:]
        inside = (earned[..., :-1] * chance[..., 1:] + below * adds).sum(-1)
        outside = (earned * chance).sum(-1) + (below * later[..., :-1]).sum(-1)
        held = (below * chance[..., 1:]).sum(-1)
        chance = t * chance + xp.concatenate([h * chance[..., 1:], none], -1)
        later = t * later + xp.concatenate([h * adds, none], -1)
        return (chance, later), (inside, outside, held)

    _, (below, earned) = lib.scan(up, start, (heads, tails, own))
    end = xp.concatenate([zeros[..., :-1], none + 1.0], -1), zeros
    backward = tuple(x[::-1] for x in (heads, tails, own, below, earned))
    _, met = lib.scan(down, end, backward)
    inside, outside, held = (xp.moveaxis(x[::-1], 0, -1) for x in met)
    return c.heads * inside, c.tails * outside, c.heads * held


def _exact(lib: Library, r: Array, x: Array, parts: Parts, baseline: str) -> Array:
    n = r.shape[-1]
    if baseline == "loo-1":
        return _marginals(_exact_marginal, lib, r, parts, x)
    total = 0.0
    for part in parts:
        c = _coins(lib, x, part.k)
        inside, outside, _ = (
            part.weight * y * c.half_scale * c.half_scale for y in _met(lib, c, r, part.ranks)
        )
        if baseline == "loo":
            inside = inside - lib.np.exp(x) * (part.k / (n - part.k)) * outside
        total = total + inside
    return total if baseline == "loo" else _against(lib, baseline, total, x)


def _normalized(lib: Library, r: Array, x: Array, parts: Parts, _: str) -> Array:
    total = 0.0
    r = r - r.mean(-1, keepdims=True)
    for part in parts:
        inside, outside, held = _met(lib, _coins(lib, x, part.k), r, part.ranks)
        whole = held.sum(-1, keepdims=True) / part.k
        mean = (inside + outside)[..., -1:] / whole
        total = total + part.weight * (inside - held * mean) / whole
    return total


def _exact_marginal(lib: Library, r: Array, part: Part, x: Array) -> Array:
    c, k = _coins(lib, x, part.k), part.k
    heads, tails = (lib.np.moveaxis(y, -1, 0)[..., None] for y in (c.heads, c.tails))
    none = lib.np.zeros_like(heads[0])

    def up(below: Any, coin: Any) -> Any:
        h, t = coin
        return t * below + lib.np.concatenate([none, h * below[..., :-1]], -1), (below,)

    start = lib.np.concatenate([none + 1.0, *[none] * (k - 1)], -1)
    _, (below,) = lib.scan(up, start, (heads, tails))
    below = lib.np.moveaxis(below, 0, -2)
    above = lib.np.cumprod(c.tails[..., ::-1], axis=-1)[..., ::-1] / c.tails
    best, second = (c.heads * below[..., m] * above * r for m in (k - 1, k - 2))
    return (best - c.heads / c.tails * _before(lib, second)) * c.half_scale * c.half_scale


# --- helpers --------------------------------------------------------------------------------------


def _marginals(way: Any, lib: Library, r: Array, parts: Parts, x: Array) -> Array:
    """`loo-1` of every part; the worst of k is the best of negated rewards."""
    total = 0.0
    for part in parts:
        if part.is_best:
            total = total + part.weight * way(lib, r, part, x)
        else:
            total = total - part.weight * way(lib, -r[..., ::-1], part, x[..., ::-1])[..., ::-1]
    return total


def _before(lib: Library, x: Array) -> Array:
    """Sum of the entries with a smaller index."""
    return lib.np.concatenate([0 * x[..., :1], lib.np.cumsum(x[..., :-1], axis=-1)], -1)


def _after(lib: Library, x: Array) -> Array:
    return _before(lib, x[..., ::-1])[..., ::-1]


def _centred(lib: Library, w: Array) -> Array:
    equal = w.max(-1, keepdims=True) == w.min(-1, keepdims=True)
    return lib.np.where(equal, 0.0, w - w.mean(-1, keepdims=True))


def _against(lib: Library, baseline: str, w: Array, x: Array | None = None) -> Array:
    if baseline == "none":
        return w
    if baseline == "ratio-mean" and x is not None:
        share = lib.np.exp(x - x.max(-1, keepdims=True))
        return w - share / share.sum(-1, keepdims=True) * w.sum(-1, keepdims=True)
    centre = _centred(lib, w)
    if baseline != "zscore":
        return centre
    peak = lib.np.abs(centre).max(-1, keepdims=True)
    differ = peak > 1e-12 * lib.np.abs(w).max(-1, keepdims=True)
    unit = centre / lib.np.where(differ, peak, 1.0)
    variance = (unit**2).sum(-1, keepdims=True) / (w.shape[-1] - 1)
    return lib.np.where(differ, unit / lib.np.sqrt(lib.np.where(differ, variance, 1.0)), 0.0)
