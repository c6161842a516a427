"""The methods people compare, one function each, and the registry that names them.

A method turns the rewards of a group (and, off-policy, its log-ratios) into one advantage per
sample, which multiplies grad log pi(y_i|x). In the formulas r are the rewards of the group, n is
its size, and w are the weights of `maxk.estimators.weights`.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from maxk.estimators.checks import check_k
from maxk.estimators.clipping import clamp
from maxk.estimators.combinations import Baseline, Correction, check_combination
from maxk.estimators.gradient import (
    OVERFLOW,
    all_equal,
    centred,
    check_binary,
    group_weights,
    zscore,
)
from maxk.estimators.objectives import Objective, max_at_k
from maxk.estimators.settings import FACTS, MethodFacts
from maxk.estimators.tensors import check_finite, check_log_ratios, check_rewards, result_dtype


def on_policy(r: Tensor, k: int, baseline: str = "none") -> Tensor:
    """The on-policy weights, eq. 9, against a baseline."""
    check_combination(max_at_k(k), "none", baseline, r.shape[-1])
    return group_weights(r, max_at_k(k), None, "none", baseline)


def grpo(r: Tensor) -> Tensor:
    r"""(r_i - mean) / std, std with n - 1 in it and nothing added to it: paper eq. 5.

    .. math:: A_i = (r_i - \bar r) / s_r

    Shao et al. 2024, arXiv 2402.03300.
    """
    return zscore(r)


def dr_grpo(r: Tensor) -> Tensor:
    r"""r_i - mean. Liu et al. 2025, arXiv 2503.20783.

    .. math:: A_i = r_i - \bar r
    """
    return centred(r)


def rloo(r: Tensor) -> Tensor:
    r"""r_i - mean of the other n - 1. Ahmadian et al. 2024, arXiv 2402.14740.

    .. math:: A_i = r_i - \frac{1}{n-1} \sum_{j \ne i} r_j
    """
    return centred(r) / (1 - 1 / r.shape[-1])


def max_rl(r: Tensor) -> Tensor:
    r"""(r_i - mean) / mean, 0 if nothing was rewarded. Tajwar et al. 2026, arXiv 2602.02710.

    .. math:: A_i = r_i / \bar r - 1

    For binary rewards n times the gradient of :math:`\sum_{t<n} \text{pass@}t / t`, which tends to
    log pass@1 as n grows. Takes rewards >= 0.
    """
    if not torch.compiler.is_compiling() and bool((r < 0).any()):
        raise ValueError(
            f"rewards has a minimum of {r.min().item()}; method='max-rl' divides by the mean "
            "reward and needs rewards >= 0: shift them, or use another method"
        )
    mean = r.mean(-1, keepdim=True)
    return centred(r) / torch.where(mean > 0, mean, 1.0)


def pass_at_k(r: Tensor, k: int) -> Tensor:
    r"""(n/k w_i - pass@k) / sqrt(pass@k (1 - pass@k)): pass@k given that i is drawn, standardised.

    .. math:: A_i = \frac{\frac{n}{k} w_i - p}{\sqrt{p (1 - p)}}, \quad p = \text{pass@}k

    For binary r this is the analytic advantage of Chen Z. et al. 2025, arXiv 2508.10751: with c
    passes, 1 - pass@k over the deviation for a pass, and C(n-c-1, k-1)/C(n-1, k-1) less otherwise.
    """
    if not torch.compiler.is_compiling() and not bool(((r == 0) | (r == 1)).all()):
        bad = r[(r != 0) & (r != 1)][0].item()
        raise ValueError(
            f"rewards has an entry {bad}; method='pass-at-k' is for binary rewards: pass "
            "(rewards >= 1).float(), or use a method for continuous rewards such as 'bon-centered'"
        )
    n = r.shape[-1]
    # With fewer than k failures no subset fails: pass@k is 1 and nothing is left to prefer.
    w = on_policy(r, k)
    rate = w.sum(-1, keepdim=True) / k
    spread = (rate * (1 - rate)).clamp(min=0.0).sqrt()
    advantage = n / k * centred(w) / torch.where(spread > 0, spread, 1.0)
    solved_by_any = (r == 0).sum(-1, keepdim=True) < k
    return torch.where(solved_by_any, 0.0, advantage)


def bon_max_mean(r: Tensor) -> Tensor:
    r"""r_i - mean for every sample that has the best reward, 0 for the rest: paper appendix A.

    .. math:: A_i = (r_i - \bar r) \, 1[r_i = \max_j r_j]

    Chow et al. 2024, arXiv 2412.15287. Ties for the best all get it, as the appendix reads.
    """
    return torch.where(r == r.amax(-1, keepdim=True), centred(r), 0.0)


def bon_max_second(r: Tensor) -> Tensor:
    r"""r_max - (best reward below r_max) for every sample that has r_max, 0 for the rest.

    .. math:: A_i = \bigl(r_{\max} - \max_{r_j < r_{\max}} r_j\bigr) \, 1[r_i = r_{\max}]

    Tang et al. 2025, arXiv 2503.19595, with ties as in the paper's appendix A: each of several best
    samples gets the lead over the rest. verl's grpo_passk gives all of them 0, and divides by the
    group's standard deviation unless told not to.
    """
    best = r.amax(-1, keepdim=True)
    second = torch.where(r == best, -torch.inf, r).amax(-1, keepdim=True)
    return torch.where((r == best) & second.isfinite(), best - second, 0.0)


def bon_loo(r: Tensor, k: int) -> Tensor:
    r"""On-policy weights against the best of each subset without i: BoN LOO-1 of the paper.

    .. math:: A_i = \binom{n}{k}^{-1} \sum_{I \ni i} \bigl(\max_{j \in I} r_j
              - \max_{j \in I \setminus i} r_j\bigr)

    PKPO's sloo-minus-one: Walder & Karkhanis 2025, arXiv 2505.15201.
    """
    return on_policy(r, k, "loo-1")


def bon_mean(r: Tensor, k: int) -> Tensor:
    r"""z-score of the on-policy weights: BoN mean of the paper (appendix A, eq. 5 and 9).

    .. math:: A_i = (w_i - \bar w) / s_w
    """
    return on_policy(r, k, "zscore")


def bon_centered(r: Tensor, k: int) -> Tensor:
    r"""On-policy weights against the other samples' max@k: unbiased, not divided by the spread.

    .. math:: A_i = w_i - \frac{k}{n} \, \text{max@}k(r_{-i}) = \frac{w_i - \bar w}{1 - k/n}

    k/n times the leave-two-out estimator of MaxPO (arXiv 2606.06080) and the leave-one-out one of
    OrderGrad (arXiv 2606.06096). Not PKPO's sloo (arXiv 2505.15201) as listed there, which
    subtracts k/(n-1) of the others' max@k where this subtracts k/n: its mean is not 0, and its
    direction changes when a constant is added to all rewards.
    """
    return on_policy(r, k, "loo")


def off_policy(r: Tensor, k: int, log_ratios: Tensor | None) -> Tensor:
    r"""First-order off-policy weights, mean-centred: the paper's method (section 3.3).

    .. math:: A_i = w'_i - \bar{w'}, \quad
              w'_i = \binom{n}{k}^{-1} \sum_{I \ni i}
              \Bigl(1 + \sum_{j \in I} (\rho_j - 1)\Bigr) \max_{j \in I} r_j
    """
    return group_weights(r, max_at_k(k), log_ratios, "first", "mean")


def off_policy_exact(r: Tensor, k: int, log_ratios: Tensor | None) -> Tensor:
    r"""Exact off-policy weights (paper eq. 10), mean-centred.

    .. math:: A_i = w_i - \bar w, \quad
              w_i = \binom{n}{k}^{-1} \sum_{I \ni i} \prod_{j \in I} \rho_j \max_{j \in I} r_j
    """
    return group_weights(r, max_at_k(k), log_ratios, "exact", "mean")


def off_policy_normalized(r: Tensor, k: int, log_ratios: Tensor | None) -> Tensor:
    r"""Exact weights of the self-normalised estimate of max@k: S_k(r, rho) / S_k(1, rho).

    .. math:: A_i = \frac{\partial}{\partial \log \rho_i} \frac{S_k(r, \rho)}{S_k(1, \rho)}
    """
    return group_weights(r, max_at_k(k), log_ratios, "normalized", "none")


@dataclass(frozen=True, kw_only=True)
class Method(MethodFacts):
    """The facts of a method and its function of rewards and, if it uses them, k and log-ratios."""

    function: Callable[..., Tensor]


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "grpo": grpo,
    "dr-grpo": dr_grpo,
    "rloo": rloo,
    "max-rl": max_rl,
    "pass-at-k": pass_at_k,
    "bon-max-mean": bon_max_mean,
    "bon-max-second": bon_max_second,
    "bon-loo": bon_loo,
    "bon-mean": bon_mean,
    "bon-centered": bon_centered,
    "off-policy": off_policy,
    "off-policy-exact": off_policy_exact,
    "off-policy-normalized": off_policy_normalized,
}

METHODS: dict[str, Method] = {
    name: Method(function=function, **vars(FACTS[name])) for name, function in _FUNCTIONS.items()
}


def advantages(
    method: str | Objective,
    rewards: Shaped[Tensor, "*batch n"],
    k: int | None = None,
    log_ratios: Float[Tensor, "*batch n"] | int | None = None,
    *,
    correction: Correction | None = None,
    baseline: Baseline | None = None,
    clamp_delta: float | None = None,
) -> Float[Tensor, "*batch n"]:
    r"""Advantage of every sample under a named method (the keys of `METHODS`) or an objective.

    .. math:: \nabla J \approx \sum_i A_i \nabla \log \pi(y_i \mid x)

    k is the k of max@k, needed by the methods built on it and ignored by the others, so that one
    loop can run them all. log_ratios are taken by the off-policy methods only; log_ratios=0 says
    that the policy is the one that sampled, and an off-policy method without either warns that it
    takes that for granted. clamp_delta bounds |rho - 1| there: None is the method's default
    (`maxk.estimators.settings.FACTS`), math.inf no clamp.

    With an objective (`maxk.estimators.objectives`) instead of a name, `correction` says how the
    log-ratios enter ("none", "first", "exact" or "normalized") and `baseline` what is subtracted;
    the latter is "loo" unless given, and "none" for "normalized". `weights` explains both. Ratios
    are not clamped unless clamp_delta is given.

    The result is detached, in the dtype of the inputs. A group whose rewards are all equal says
    nothing about which sample is better and gets exactly 0.

    >>> advantages("grpo", torch.tensor([[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]]))
    tensor([[-1.2247,  1.2247,  0.0000,  0.0000],
            [ 0.0000,  0.0000,  0.0000,  0.0000]])
    """
    if isinstance(method, str) and method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; use one of {', '.join(METHODS)}")
    r = check_rewards(rewards)
    n = r.shape[-1]
    if n < 2:
        raise ValueError(f"rewards has n={n} sample per prompt; method='{method}' needs n >= 2")
    if isinstance(method, Objective):
        way = combined(method, k, correction, baseline, n)
        check_binary(method, r)
    else:
        way = named(method, k, n)
        if correction is not None or baseline is not None:
            name = "correction" if correction is not None else "baseline"
            raise ValueError(
                f"{name} is given but method={method!r} has its own; leave it out, or pass an "
                "objective such as maxk.estimators.objectives.max_at_k(4) in place of the name"
            )
    if isinstance(log_ratios, int):
        if log_ratios != 0:
            raise ValueError(
                f"log_ratios={log_ratios} is no tensor; pass one number per completion, or 0 if "
                "the policy is the one that sampled"
            )
        log_ratios = None
    elif log_ratios is None and way.off_policy and not torch.compiler.is_compiling():
        warnings.warn(
            f"{way.name} without log_ratios takes the samples for the policy's own; pass their "
            "log-ratios, or log_ratios=0 if they are",
            stacklevel=2,
        )
    log_rho = None
    if way.off_policy:
        bound = way.clamp_delta if clamp_delta is None else clamp_delta
        if log_ratios is not None:
            log_rho = clamp(check_log_ratios(log_ratios, rewards), bound)
    elif log_ratios is not None or clamp_delta is not None:
        name = "log_ratios" if log_ratios is not None else "clamp_delta"
        raise ValueError(f"{name} is given but {way.name} ignores it; leave it out, or {way.fix}")
    with torch.no_grad():
        out = torch.where(all_equal(r), 0.0, way.function(r, log_rho))
    if log_ratios is not None:
        check_finite("the advantage", out, OVERFLOW)
    return out.to(result_dtype(rewards, log_ratios))


@dataclass(frozen=True)
class Way:
    """What `advantages` was asked for: a function of checked rewards and log-ratios."""

    name: str
    function: Callable[[Tensor, Tensor | None], Tensor]
    off_policy: bool
    clamp_delta: float
    fix: str  # if log-ratios are given and it takes none


def named(method: str, k: Any, n: int) -> Way:
    chosen = METHODS[method]
    if chosen.uses_k and k is None:
        raise ValueError(f"k=None but method={method!r} optimises max@k; pass k, e.g. k={n // 2}")
    arguments = [check_k(k, n)] if chosen.uses_k else []
    if chosen.needs_k_below_n and k == n:
        raise ValueError(
            f"k={k} equal to n={n} with method={method!r}: every sample has the same weight "
            f"and centring leaves nothing to train on; use k < n (k <= {n - 1}) or "
            "method='bon-loo'"
        )

    def function(r: Tensor, log_ratios: Tensor | None) -> Tensor:
        return chosen.function(r, *arguments, *[log_ratios] * chosen.off_policy)

    return Way(
        name=f"method={method!r}",
        function=function,
        off_policy=chosen.off_policy,
        clamp_delta=math.inf if chosen.clamp_delta is None else chosen.clamp_delta,
        fix="use method='off-policy-exact'",
    )


def combined(
    objective: Objective,
    k: Any,
    correction: Correction | None,
    baseline: Baseline | None,
    n: int,
) -> Way:
    if k is not None:
        raise ValueError(f"k={k} is given but {objective} has its own; leave k out")
    how = "none" if correction is None else correction
    against = ("none" if how == "normalized" else "loo") if baseline is None else baseline
    check_combination(objective, how, against, n)
    return Way(
        name=f'{objective} with correction="{how}"',
        function=lambda r, log_ratios: group_weights(r, objective, log_ratios, how, against),
        off_policy=how != "none",
        clamp_delta=math.inf,
        fix='pass correction="normalized"',
    )
