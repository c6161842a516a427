"""Every fast function against enumeration of all subsets, to 1e-10 of the sum of absolute terms."""

from itertools import product
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.estimators import max_at_k, pass_at_k, subset_max, weights
from tests import brute

TOLERANCE = 1e-10
SUBNORMAL = 1e-300  # below it float64 itself has fewer digits
CASES: list[tuple[Any, Any]] = [
    (order, baseline)
    for order in ("none", "first", "exact")
    for baseline in ("none", "mean", "loo", "loo-1", "ratio-mean")
]
CASES.append(("normalized", "none"))

fractions = st.integers(0, 5).map(lambda passed: passed / 5)
# Rewards below 1e-150 are taken as 0: times products of eight ratios of e^-20 they leave float64.
wild = (st.floats(-1e12, 1e12) | st.floats(-1, 1)).map(lambda x: x if abs(x) > 1e-150 else 0.0)
wild |= st.sampled_from([-1e150, 1e150, 1e-150, 0.0])
log_ratio = st.floats(-20, 20) | st.floats(-0.5, 0.5) | st.sampled_from([-20.0, 0.0, 20.0])


@st.composite
def groups(draw, rewards=None, n=None):
    """(rewards, log-ratios) of n <= 8 samples: ties and equal groups often, extremes sometimes."""
    n = n or draw(st.integers(1, 8))
    kind = draw(st.sampled_from(["fractions", "wild", "equal"])) if rewards is None else rewards
    if kind == "equal":
        r = [draw(wild)] * n
    else:
        r = draw(st.lists(fractions if kind == "fractions" else wild, min_size=n, max_size=n))
    return r, draw(st.lists(log_ratio, min_size=n, max_size=n))


@st.composite
def batches(draw):
    """Three groups of one size."""
    n = draw(st.integers(1, 8))
    return [draw(groups(n=n)) for _ in range(3)]


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def assert_close(actual: torch.Tensor, expected: list[brute.Sum], case: Any = None) -> None:
    for i, (got, want) in enumerate(zip(actual.tolist(), expected, strict=True)):
        near = abs(got - want.value) <= TOLERANCE * want.scale + SUBNORMAL
        assert near, (case, i, got, want)


def allowed(baseline: str, k: int, n: int) -> bool:
    return k >= 2 if baseline == "loo-1" else baseline == "none" or k < n


@settings(max_examples=40)
@given(batches())
def test_weights_are_the_enumerated_sums_for_every_k(batch):
    """Of every order with every baseline: a batch is drawn and enumerated once for all of them."""
    rewards, log_ratios = ([group[i] for group in batch] for i in (0, 1))
    r, x, n = tensor(rewards), tensor(log_ratios), len(rewards[0])
    ratios = x.exp().tolist()
    for k, (order, baseline) in product(range(1, n + 1), CASES):
        if allowed(baseline, k, n) and (order != "normalized" or k < n):
            at = None if order == "none" else x
            found = weights(r, k, at, correction=order, baseline=baseline)
            for got, own_rewards, own_ratios in zip(found, rewards, ratios, strict=True):
                want = brute.weights(own_rewards, own_ratios, k, order, baseline)
                assert_close(got, want, (order, baseline, k))


@given(groups())
def test_subset_max_is_the_enumerated_mean_for_every_k(group):
    r, log_ratios = group
    ratios = tensor(log_ratios).exp().tolist()
    for k in range(1, len(r) + 1):
        got = subset_max(tensor(r), tensor(log_ratios), k)
        assert_close(got[None], [brute.subset_max(r, ratios, k)])


@given(groups())
def test_max_at_k_is_the_enumerated_mean_on_lists_and_tensors(group):
    r, _ = group
    for k in range(1, len(r) + 1):
        want = brute.subset_max(r, [1.0] * len(r), k)
        assert_close(tensor([max_at_k(r, k)]), [want])
        assert_close(max_at_k(tensor(r), k)[None], [want])


@given(groups("fractions"))
def test_pass_at_k_is_the_enumerated_share_of_subsets_with_a_pass(group):
    r, _ = group
    passed = [float(x == 1.0) for x in r]
    for k in range(1, len(r) + 1):
        want = brute.subset_max(passed, [1.0] * len(r), k)
        assert_close(tensor([pass_at_k(r, k)]), [want])
        assert_close(pass_at_k(tensor(r), k)[None], [want])


@given(groups())
def test_exact_weights_are_the_gradient_of_subset_max(group):
    r, log_ratios = group
    for k in range(1, len(r) + 1):
        x = tensor(log_ratios).requires_grad_()
        (gradient,) = torch.autograd.grad(subset_max(tensor(r), x, k), x)
        torch.testing.assert_close(gradient, weights(tensor(r), k, x), rtol=0, atol=0)


@given(groups("fractions"))
def test_subset_max_has_the_gradient_of_the_enumerated_sum_in_the_rewards(group):
    r, log_ratios = group
    r = [x + 0.01 * i for i, x in enumerate(r)]  # without ties, where max has no derivative
    ratios = tensor(log_ratios).exp().tolist()
    for k in range(1, len(r) + 1):
        x = tensor(r).requires_grad_()
        (gradient,) = torch.autograd.grad(subset_max(x, tensor(log_ratios), k), x)
        best = sorted(range(len(r)), key=r.__getitem__)
        want = [
            brute.subset_max([float(best.index(j) >= best.index(i)) for j in best], o, k).value
            - brute.subset_max([float(best.index(j) > best.index(i)) for j in best], o, k).value
            for i in range(len(r))
            for o in [[ratios[j] for j in best]]
        ]
        scale = brute.subset_max([1.0] * len(r), ratios, k).value
        torch.testing.assert_close(gradient, tensor(want), rtol=0, atol=TOLERANCE * scale)


@settings(max_examples=50)
@given(groups(), st.randoms(use_true_random=False))
def test_weights_follow_the_samples_when_they_are_shuffled(group, random):
    r, log_ratios = group
    order = list(range(len(r)))
    random.shuffle(order)
    for k in range(1, len(r) + 1):
        for kind in ("first", "exact"):
            here = weights(tensor(r), k, tensor(log_ratios), correction=kind)
            there = weights(tensor(r)[order], k, tensor(log_ratios)[order], correction=kind)
            scale = tensor(
                [
                    x.scale
                    for x in brute.weights(r, tensor(log_ratios).exp().tolist(), k, kind, "none")
                ]
            )
            assert ((here[order] - there).abs() <= TOLERANCE * scale[order] + SUBNORMAL).all()


def test_groups_of_any_leading_shape_are_independent():
    generator = torch.Generator().manual_seed(0)
    r = torch.rand(2, 3, 5, 7, generator=generator, dtype=torch.float64)
    x = torch.randn(2, 3, 5, 7, generator=generator, dtype=torch.float64)
    for order, baseline in [
        *CASES,
        ("none", "zscore"),
        ("first", "zscore"),
        ("exact", "zscore"),
    ]:
        ratios = None if order == "none" else x
        batched = weights(r, 3, ratios, correction=order, baseline=baseline)
        for index in [(0, 0, 0), (1, 2, 4), (0, 1, 3)]:
            one = None if ratios is None else x[index]
            alone = weights(r[index], 3, one, correction=order, baseline=baseline)
            torch.testing.assert_close(batched[index], alone, rtol=1e-13, atol=1e-13)
    assert max_at_k(r, [1, 7]).shape == (2, 3, 5, 2)
