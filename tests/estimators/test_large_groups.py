"""Thousands of samples: exact integer arithmetic, and nothing overflows."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch

from maxk.estimators import max_at_k, pass_at_k, subset_max, weights

N = 4096
KS = [1, 2, 64, 2048, 4095, 4096]


def exact_max_at_k(rewards: list[Fraction], k: int) -> Fraction:
    """sum_j C(j-1, k-1) r_(j) / C(n, k) in rational arithmetic."""
    count, weighted = 0, Fraction(0)
    for j, r in enumerate(sorted(rewards), start=1):
        if j >= k:
            count = comb(j - 1, k - 1) if j == k else count * (j - 1) // (j - k)
            weighted += count * r
    return weighted / comb(len(rewards), k)


@pytest.fixture(scope="module")
def rewards() -> list[Fraction]:
    """Fractions of up to 10 tests passed, a few of them complete."""
    generator = np.random.default_rng(0)
    passed = generator.binomial(10, 0.2, size=N)
    passed[generator.choice(N, 3, replace=False)] = 10
    return [Fraction(int(p), 10) for p in passed]


@pytest.mark.parametrize("k", KS)
def test_metrics_agree_with_exact_arithmetic_at_n_4096(rewards, k):
    floats = [float(r) for r in rewards]
    best = float(exact_max_at_k(rewards, k))
    solved = float(1 - Fraction(comb(N - 3, k), comb(N, k)))
    for kind in (list, np.array, lambda x: torch.tensor(x, dtype=torch.float64)):
        assert float(max_at_k(kind(floats), k)) == pytest.approx(best, rel=1e-9)
        assert float(pass_at_k(kind(floats), k)) == pytest.approx(solved, rel=1e-9)


@pytest.mark.parametrize("k", KS)
def test_weights_stay_finite_and_sum_to_k_times_max_at_k(rewards, k):
    """Euler: S_k is homogeneous of degree k in the ratios, so sum_i dS_k/dl_i = k S_k."""
    r = torch.tensor([float(x) for x in rewards], dtype=torch.float64)
    w = weights(r, k)
    assert w.isfinite().all()
    assert w.sum().item() == pytest.approx(k * max_at_k(r, k).item(), rel=1e-9)
    deltas = torch.linspace(-0.5, 0.5, N, dtype=torch.float64)
    first = weights(r, k, deltas, correction="first", baseline="loo" if k < N else "none")
    assert first.isfinite().all()


@pytest.mark.parametrize("n", [1024, 2048, 4096])
def test_exact_weights_at_ratio_one_are_the_on_policy_weights(n):
    """Where k heads are rare with even odds, as k = 64 are of 2048, t has to be moved for them."""
    r = torch.rand(2, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for k in (1, 2, 64, n // 2, n - 1, n) if n == 1024 else (2, 64, n - 64):
        torch.testing.assert_close(
            weights(r, k, torch.zeros_like(r)), weights(r, k), rtol=1e-9, atol=0
        )


def exact_sum(rewards: list[Fraction], ratios: list[Fraction], k: int) -> Fraction:
    """sum over k-subsets of prod rho * max r in rational arithmetic; rewards ascending."""
    symmetric = [Fraction(1), *[Fraction(0)] * k]  # e_0 ... e_k of the ratios seen so far
    out = Fraction(0)
    for r, rho in zip(rewards, ratios, strict=True):
        out += r * rho * symmetric[k - 1]
        for m in range(k, 0, -1):
            symmetric[m] += rho * symmetric[m - 1]
    return out


SPREADS = {
    "ordinary": lambda x: 0.3 * x,
    "wide": lambda x: 10 * x,
    "two clusters": lambda x: 20 * x.sign(),
    "one dwarfs all": lambda x: torch.where(x == x.max(), 150.0, x),
    "one is negligible": lambda x: torch.where(x == x.max(), -150.0, x),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("k", [1, 2, 13, 29, 30])
def test_exact_weights_agree_with_exact_arithmetic_whatever_the_spread_of_the_ratios(spread, k):
    n = 30
    generator = torch.Generator().manual_seed(k)
    log_ratios = SPREADS[spread](torch.randn(n, generator=generator, dtype=torch.float64))
    r = torch.randint(0, 11, (n,), generator=generator).sort().values
    ratios = [Fraction(x) for x in log_ratios.exp().tolist()]
    rewards = [Fraction(x, 10) for x in r.tolist()]
    whole = exact_sum(rewards, ratios, k)
    without = [
        exact_sum(rewards[:i] + rewards[i + 1 :], ratios[:i] + ratios[i + 1 :], k) for i in range(n)
    ]
    inside = [float((whole - x) / comb(n, k)) for x in without]
    got = weights(r.double() / 10, k, log_ratios)
    assert got.tolist() == pytest.approx(inside, rel=1e-10)
    if k < n:
        loo = weights(r.double() / 10, k, log_ratios, baseline="loo")
        for i in range(n):
            baseline = float(ratios[i] * k / (n - k) * without[i] / comb(n, k))
            assert abs(loo[i].item() - (inside[i] - baseline)) <= 1e-10 * (inside[i] + baseline)


def test_products_of_many_extreme_ratios_do_not_overflow_on_the_way():
    """512 ratios of e^9 and 512 of e^-9: products of either half are far outside float64."""
    n, k = 1024, 512
    log_ratios = torch.tensor([9.0, -9.0], dtype=torch.float64).repeat(n // 2)
    r = torch.linspace(0, 1, n, dtype=torch.float64)
    with pytest.raises(ValueError, match="range of float64"):
        weights(r, k, log_ratios)
    # The same group, tilted so that the mean product itself is an ordinary number.
    log_ratios = log_ratios - mean_log_product(log_ratios, k) / k
    w = weights(r, k, log_ratios)
    assert w.isfinite().all()
    assert w.sum().item() == pytest.approx(k * subset_max(r, log_ratios, k).item(), rel=1e-9)


def mean_log_product(log_ratios: torch.Tensor, k: int) -> float:
    """log of the mean over k-subsets of the product, for two values of equal count m.

    Choose a of the high ones: C(m, a) C(m, k-a) / C(2m, k) * exp(9 (2a - k)), in exact integers.
    """
    m = len(log_ratios) // 2
    high = log_ratios.max().item()
    terms = [
        np.log(float(Fraction(comb(m, a) * comb(m, k - a), comb(2 * m, k)))) + high * (2 * a - k)
        for a in range(max(0, k - m), min(k, m) + 1)
        if Fraction(comb(m, a) * comb(m, k - a), comb(2 * m, k)) > Fraction(1, 10**300)
    ]
    return float(np.logaddexp.reduce(terms))
