"""An objective of a group, off-policy or on, and the weight of each sample in its policy gradient.

    S(r, rho) = mean over k-subsets I of  prod_{i in I} rho_i * f(r_I),  for max@k f is the maximum
    grad S    = sum_i w_i grad log pi(y_i | x),     w_i = dS / d log rho_i

`rewards` and `log_ratios` are [..., n]: any number of prompts, n samples each. A log-ratio is
log pi(y|x) - log pi_old(y|x) summed over the tokens of y. Everything is computed in float64.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from maxk.estimators import exact, ordered, ranks, subsets
from maxk.estimators.checks import check_k
from maxk.estimators.combinations import Baseline, Correction, check_combination
from maxk.estimators.objectives import Objective, Part, max_at_k
from maxk.estimators.places import Parts
from maxk.estimators.tensors import check_finite, check_log_ratios, check_rewards, result_dtype

OVERFLOW = "a product of k ratios is past the range of float64: clamp the log-ratios"


def weights(
    rewards: Shaped[Tensor, "*batch n"],
    k: int | Objective,
    log_ratios: Float[Tensor, "*batch n"] | None = None,
    correction: Correction = "exact",
    baseline: Baseline = "none",
) -> Float[Tensor, "*batch n"]:
    r"""Weight w_i of every sample in the gradient of max@k: minimise -sum_i w_i log pi(y_i|x).

    .. math:: w_i = \frac{\partial S_k}{\partial l_i} = \binom{n}{k}^{-1} \sum_{I \ni i}
              \prod_{j \in I} \rho_j \max_{j \in I} r_j, \quad \rho_i = e^{l_i}

    k: the k of max@k, or another objective (`maxk.estimators.objectives`), whose f takes the place
    of the maximum. Several parts are summed, each with its weight.

    correction: how the ratios enter.

    - "none": w_i = dS_k/dl_i at rho = 1 (paper eq. 8-9), O(n log n); takes no log_ratios.
    - "first": to first order in rho - 1 (paper section 3.3), O(n log n); biased off-policy.
    - "exact": at the actual rho (paper eq. 10), O(nk); without log_ratios it is "none".
    - "normalized": the gradient of S_k(r, rho) / S_k(1, rho) at the actual rho, O(nk): subsets
      count in proportion to their ratios and no more. Biased, but by less the larger n is; bounded
      whatever the ratios are, and never of the wrong sign for the best or the worst sample. Sums to
      0 without a baseline, and takes none. k < n.

    baseline: what is subtracted to reduce variance.

    - "none": nothing. Unbiased.
    - "loo": rho_i k/(n-k) S_k(without i): centred and unbiased, on- and off-policy. k < n.
    - "loo-1": in every subset, the best without i: unbiased, never negative. k >= 2.
    - "mean": the mean weight: (1 - k/n) times the gradient on-policy. k < n.
    - "zscore": the mean, then divided by the standard deviation (n - 1 in it). k < n.
    - "ratio-mean": rho_i sum(w) / sum(rho): "mean" on-policy; off-policy it sums to 0 too, but a
      sample that has become unlikely is no longer pushed. k < n.

    The result is detached: weights are constants of the loss. Its dtype is that of the inputs.

    >>> weights(torch.tensor([0.0, 1.0, 0.5, 0.0]), k=2)
    tensor([0.2500, 0.5000, 0.3333, 0.2500])
    >>> weights(torch.tensor([0.0, 1.0, 0.5, 0.0]), k=2, baseline="loo")
    tensor([-0.1667,  0.3333,  0.0000, -0.1667])

    Bagirov et al. 2025 (arXiv 2510.23393) for both off-policy forms; Walder & Karkhanis 2025
    (arXiv 2505.15201) for the on-policy weights and "loo-1"; MaxPO and OrderGrad have n/k times
    "loo".
    """
    r = check_rewards(rewards)
    objective = k if isinstance(k, Objective) else max_at_k(check_k(k, r.shape[-1]))
    check_combination(objective, correction, baseline, r.shape[-1])
    if log_ratios is not None and correction == "none":
        raise ValueError(
            'log_ratios is given but correction="none" ignores it; leave it out, or use '
            'correction="exact"'
        )
    check_binary(objective, r)
    log_rho = None if log_ratios is None else check_log_ratios(log_ratios, rewards)
    with torch.no_grad():
        w = group_weights(r, objective, log_rho, correction, baseline)
    check_finite("the weight", w, OVERFLOW)
    return w.to(result_dtype(rewards, log_ratios))


def subset_max(
    rewards: Shaped[Tensor, "*batch n"], log_ratios: Float[Tensor, "*batch n"], k: int
) -> Float[Tensor, "*batch"]:
    r"""S_k: unbiased estimate of max@k of pi from n samples of pi_old, in O(nk).

    .. math:: S_k(r, \rho) = \binom{n}{k}^{-1} \sum_{|I| = k} \prod_{i \in I} \rho_i
              \max_{i \in I} r_i, \quad \rho_i = e^{l_i}

    Differentiable once in `log_ratios` (the gradient is `weights(rewards, k, log_ratios)`) and in
    `rewards`; a second derivative raises an error.

    >>> log_ratios = torch.zeros(4, requires_grad=True)
    >>> best = subset_max(torch.tensor([0.0, 1.0, 0.5, 0.0]), log_ratios, k=2)
    >>> best.item()  # the mean of max over the 6 pairs: (3 * 1.0 + 2 * 0.5 + 1 * 0.0) / 6
    0.6666666865348816
    >>> torch.autograd.grad(best, log_ratios)[0]
    tensor([0.2500, 0.5000, 0.3333, 0.2500])
    """
    check_rewards(rewards)
    check_log_ratios(log_ratios, rewards)
    k = check_k(k, rewards.shape[-1])
    out: Tensor = SubsetMax.apply(rewards, log_ratios, k)  # pyright: ignore[reportAssignmentType]
    check_finite("max@k", out, OVERFLOW)
    return out


class SubsetMax(torch.autograd.Function):
    """S_k with its exact gradient, which plain autograd would take n steps of n x k to find."""

    @staticmethod
    def forward(ctx, rewards: Tensor, log_ratios: Tensor, k: int) -> Tensor:
        r, position = rewards.double().sort(dim=-1)
        coins = exact.coins(log_ratios.double().gather(-1, position), k)
        out, d_rewards = exact.value(coins, r, k)
        wanted = ctx.needs_input_grad[1]
        d_log_ratios = unsort(exact.inside(coins, r), position) if wanted else None
        ctx.save_for_backward(unsort(d_rewards, position), d_log_ratios)
        ctx.dtypes = rewards.dtype, log_ratios.dtype
        return out.to(result_dtype(rewards, log_ratios))

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise NotImplementedError(
                "subset_max has no second derivative; call backward without create_graph=True"
            )
        grad = grad.double().unsqueeze(-1)
        both = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return *(None if x is None else (grad * x).to(dtype) for x, dtype in both), None


def group_weights(
    r: Tensor, objective: Objective, log_ratios: Tensor | None, correction: str, baseline: str
) -> Tensor:
    """`weights` of checked float64 arguments."""
    parts = objective.of(r.shape[-1])
    if objective.threshold is not None:
        r = (r >= objective.threshold).double()
    r, position = r.sort(dim=-1)
    if log_ratios is None or correction == "none":
        w = at_ratio_1(r, parts, "mean" if correction == "normalized" else baseline)
    else:
        w = OFF_POLICY[correction](r, log_ratios.gather(-1, position), parts, baseline)
    return unsort(w, position)


def check_binary(objective: Objective, r: Tensor) -> None:
    if not objective.binary or objective.threshold is not None or torch.compiler.is_compiling():
        return
    if not bool(((r == 0) | (r == 1)).all()):
        bad = r[(r != 0) & (r != 1)][0].item()
        raise ValueError(
            f"rewards has an entry {bad}; {objective} is for binary rewards: pass "
            "(rewards >= 1).float()"
        )


def at_ratio_1(r: Tensor, parts: Parts, baseline: str) -> Tensor:
    if baseline == "loo-1":
        return sum_of(parts, lambda part: at_either_end(subsets.on_policy_marginal, part, r))
    if baseline != "loo":
        return against(baseline, ranks.on_policy(r, parts))
    # All samples share one value, and `loo` is the mean baseline with its scale restored.
    return centred(ranks.on_policy(r, scaled(parts, lambda k: 1 / (1 - k / r.shape[-1]))))


def first_order_weights(r: Tensor, log_ratios: Tensor, parts: Parts, baseline: str) -> Tensor:
    deltas = log_ratios.expm1()
    if baseline == "loo-1":
        way = subsets.first_order_marginal
        return sum_of(parts, lambda part: at_either_end(way, part, r, deltas))
    w = ranks.first_order(r, deltas, parts)
    if baseline == "loo":
        others = scaled(parts, lambda k: k / (r.shape[-1] - k))
        return w - log_ratios.exp() * ranks.first_order_without(r, deltas, others)
    return against(baseline, w, log_ratios)


def exact_weights(r: Tensor, log_ratios: Tensor, parts: Parts, baseline: str) -> Tensor:
    if baseline in ("loo", "loo-1"):
        way = exact_loo if baseline == "loo" else exact_marginal
        return sum_of(parts, lambda part: at_either_end(way, part, r, log_ratios))
    w = sum_of(parts, lambda part: at_either_end(exact_inside, part, r, log_ratios))
    return against(baseline, w, log_ratios)


def normalized_weights(r: Tensor, log_ratios: Tensor, parts: Parts, _: str) -> Tensor:
    return sum_of(parts, lambda part: at_either_end(normalized, part, r, log_ratios))


def at_either_end(way: Callable[..., Tensor], part: Part, r: Tensor, *others: Tensor) -> Tensor:
    """A way that is linear in the rewards; the worst of k is the best of negated rewards."""
    if not part.is_worst or part.is_best:
        return way(r, *others, part)
    best = Part(part.weight, part.ranks[::-1])
    return -way(-r.flip(-1), *(x.flip(-1) for x in others), best).flip(-1)


def exact_inside(r: Tensor, log_ratios: Tensor, part: Part) -> Tensor:
    coins = exact.coins(log_ratios, part.k)
    if part.is_best:
        return exact.inside(coins, r)
    return ordered.inside_and_outside(coins, r, part.ranks)[0]


def exact_loo(r: Tensor, log_ratios: Tensor, part: Part) -> Tensor:
    """w_i - rho_i k/(n-k) (the value over the subsets without i): rho_i k/n times the others'."""
    coins = exact.coins(log_ratios, part.k)
    if part.is_best:
        w, without = exact.inside_and_outside(coins, r, part.k)
    else:
        w, without = ordered.inside_and_outside(coins, r, part.ranks)
    return w - log_ratios.exp() * (part.k / (r.shape[-1] - part.k)) * without


def exact_marginal(r: Tensor, log_ratios: Tensor, part: Part) -> Tensor:
    return exact.marginal(exact.coins(log_ratios, part.k), r, part.k)


def normalized(r: Tensor, log_ratios: Tensor, part: Part) -> Tensor:
    coins = exact.coins(log_ratios, part.k)
    if part.is_best:
        return exact.normalized(coins, r, part.k)
    return ordered.normalized(coins, r, part.ranks)


OFF_POLICY = {
    "first": first_order_weights,
    "exact": exact_weights,
    "normalized": normalized_weights,
}


def scaled(parts: Parts, by: Callable[[int], float]) -> Parts:
    """The parts with weights times a number that depends on k."""
    return tuple(part._replace(weight=part.weight * by(part.k)) for part in parts)


def sum_of(parts: Parts, each: Callable[[Part], Tensor]) -> Tensor:
    first, *others = (part.weight * each(part) for part in parts)
    return sum(others, start=first)


def against(baseline: str, w: Tensor, log_ratios: Tensor | None = None) -> Tensor:
    """The baselines that need nothing but the weights, and for "ratio-mean" the ratios."""
    if baseline == "ratio-mean" and log_ratios is not None:
        return w - log_ratios.softmax(-1) * w.sum(-1, keepdim=True)
    ways = {"none": lambda x: x, "mean": centred, "ratio-mean": centred, "zscore": zscore}
    return ways[baseline](w)


def centred(x: Tensor) -> Tensor:
    """x minus its mean over the group; exactly 0 where all are equal."""
    return torch.where(all_equal(x), 0.0, x - x.mean(-1, keepdim=True))


def zscore(x: Tensor) -> Tensor:
    """(x - mean) / standard deviation over the group; exactly 0 where all are equal.

    Equal up to rounding counts as equal: a quotient of two rounding errors is noise of size 1.
    """
    centre = centred(x)
    peak = centre.abs().amax(-1, keepdim=True)
    differ = peak > 1e-12 * x.abs().amax(-1, keepdim=True)
    unit = centre / torch.where(differ, peak, 1.0)  # its squares stay in range
    variance = unit.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return torch.where(differ, unit / torch.where(differ, variance, 1.0).sqrt(), 0.0)


def all_equal(x: Tensor) -> Tensor:
    """[..., 1]: whether every sample of the group has the same value."""
    return x.amax(-1, keepdim=True) == x.amin(-1, keepdim=True)


def unsort(x: Tensor, position: Tensor) -> Tensor:
    """Undo `sort`: entry i of the sorted row goes back to position[i]."""
    return torch.zeros_like(x).scatter(-1, position, x)
