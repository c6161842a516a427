"""max@k of a group, off-policy or on, and the weight of each sample in its policy gradient.

    S_k(r, rho) = mean over k-subsets I of  prod_{i in I} rho_i * max_{i in I} r_i
    grad S_k    = sum_i w_i grad log pi(y_i | x),     w_i = dS_k / d log rho_i

`rewards` and `log_ratios` are [..., n]: any number of prompts, n samples each. A log-ratio is
log pi(y|x) - log pi_old(y|x) summed over the tokens of y. Everything is computed in float64.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from maxk.estimators import exact, subsets
from maxk.estimators.checks import check_k
from maxk.estimators.tensors import check_finite, check_log_ratios, check_rewards, result_dtype

Order = Literal["on-policy", "first", "exact", "normalized"]
Baseline = Literal["none", "mean", "zscore", "loo", "loo-1", "ratio-mean"]

ORDERS: tuple[Order, ...] = get_args(Order)
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
OVERFLOW = "a product of k ratios is past the range of float64: clamp the log-ratios"


def weights(
    rewards: Shaped[Tensor, "*batch n"],
    k: int,
    log_ratios: Float[Tensor, "*batch n"] | None = None,
    order: Order = "exact",
    baseline: Baseline = "none",
) -> Float[Tensor, "*batch n"]:
    r"""Weight w_i of every sample in the gradient of max@k: minimise -sum_i w_i log pi(y_i|x).

    .. math:: w_i = \frac{\partial S_k}{\partial l_i} = \binom{n}{k}^{-1} \sum_{I \ni i}
              \prod_{j \in I} \rho_j \max_{j \in I} r_j, \quad \rho_i = e^{l_i}

    order: how the ratios enter.

    - "on-policy": w_i = dS_k/dl_i at rho = 1 (paper eq. 8-9), O(n log n); takes no log_ratios.
    - "first": to first order in rho - 1 (paper section 3.3), O(n log n); biased off-policy.
    - "exact": at the actual rho (paper eq. 10), O(nk); without log_ratios it is "on-policy".
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
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown; use one of {', '.join(ORDERS)}")
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r} is unknown; use one of {', '.join(BASELINES)}")
    if log_ratios is not None and order == "on-policy":
        raise ValueError(
            'log_ratios is given but order="on-policy" ignores it; leave it out, or use '
            'order="exact"'
        )
    r = check_rewards(rewards)
    k = check_k(k, r.shape[-1])
    if order == "normalized":
        check_normalized(baseline, k, r.shape[-1])
    check_baseline(baseline, k, r.shape[-1])
    log_rho = None if log_ratios is None else check_log_ratios(log_ratios, rewards)
    with torch.no_grad():
        w = group_weights(r, k, log_rho, order, baseline)
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
    r: Tensor, k: int, log_ratios: Tensor | None, order: str, baseline: str
) -> Tensor:
    """`weights` of checked float64 arguments."""
    r, position = r.sort(dim=-1)
    if log_ratios is None:
        w = on_policy_weights(r, k, "mean" if order == "normalized" else baseline)
    else:
        w = OFF_POLICY[order](r, log_ratios.gather(-1, position), k, baseline)
    return unsort(w, position)


def check_baseline(baseline: str, k: int, n: int) -> None:
    """ValueError where a baseline is undefined or leaves nothing to train on."""
    if baseline in ("mean", "zscore", "loo", "ratio-mean") and k == n:
        raise ValueError(
            f"baseline={baseline!r} with k={k} equal to n={n}: there is one subset, every sample "
            "has the same weight, and centring leaves nothing to train on; use k < n "
            f'(k <= {n - 1}) or baseline="loo-1"'
        )
    if baseline == "loo-1" and k == 1:
        raise ValueError(
            'baseline="loo-1" with k=1 asks for the best of no samples; use k >= 2 or '
            'baseline="loo"'
        )


def check_normalized(baseline: str, k: int, n: int) -> None:
    """ValueError where normalized weights are asked for something that they are not."""
    if baseline != "none":
        raise ValueError(
            f'baseline={baseline!r} with order="normalized": its weights are centred without one; '
            'leave it out, or use order="exact"'
        )
    if k == n:
        raise ValueError(
            f'order="normalized" with k={k} equal to n={n}: there is one subset, and no sample '
            f'makes it better than it is; use k < n (k <= {n - 1}) or order="exact"'
        )


def on_policy_weights(rewards: Tensor, k: int, baseline: str) -> Tensor:
    if baseline == "loo-1":
        return subsets.on_policy_marginal(rewards, k)
    w = subsets.on_policy(rewards, k)
    # At ratio 1 all samples share one S_k, and `loo` is the mean baseline with its scale restored.
    return centred(w) / (1 - k / w.shape[-1]) if baseline == "loo" else against(baseline, w)


def first_order_weights(rewards: Tensor, log_ratios: Tensor, k: int, baseline: str) -> Tensor:
    deltas = log_ratios.expm1()
    if baseline == "loo-1":
        return subsets.first_order_marginal(rewards, deltas, k)
    w = subsets.first_order(rewards, deltas, k)
    if baseline == "loo":
        return leave_one_out(w, log_ratios, subsets.first_order_without(rewards, deltas, k), k)
    return in_proportion(w, log_ratios) if baseline == "ratio-mean" else against(baseline, w)


def exact_weights(rewards: Tensor, log_ratios: Tensor, k: int, baseline: str) -> Tensor:
    coins = exact.coins(log_ratios, k)
    if baseline == "loo-1":
        return exact.marginal(coins, rewards, k)
    if baseline == "loo":
        w, without = exact.inside_and_outside(coins, rewards, k)
        return leave_one_out(w, log_ratios, without, k)
    w = exact.inside(coins, rewards)
    return in_proportion(w, log_ratios) if baseline == "ratio-mean" else against(baseline, w)


def normalized_weights(rewards: Tensor, log_ratios: Tensor, k: int, _: str) -> Tensor:
    return exact.normalized(exact.coins(log_ratios, k), rewards, k)


def leave_one_out(w: Tensor, log_ratios: Tensor, without: Tensor, k: int) -> Tensor:
    """w_i - rho_i k/(n-k) (S_k over the subsets without i), which is rho_i k/n S_k(others)."""
    return w - log_ratios.exp() * (k / (w.shape[-1] - k)) * without


def in_proportion(w: Tensor, log_ratios: Tensor) -> Tensor:
    """w_i - rho_i sum(w) / sum(rho)."""
    return w - log_ratios.softmax(-1) * w.sum(-1, keepdim=True)


OFF_POLICY = {
    "first": first_order_weights,
    "exact": exact_weights,
    "normalized": normalized_weights,
}


def against(baseline: str, w: Tensor) -> Tensor:
    """The baselines that need nothing but the weights."""
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
