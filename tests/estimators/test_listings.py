"""The paper's listings against its equations."""

from itertools import combinations
from math import comb

import pytest
import torch

from benchmarks import matrix_form
from maxk.estimators import weights
from tests import brute

REWARDS = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
LOG_RATIOS = [0.3, -0.2, 0.1, -0.4, 0.2, -0.1]
RATIOS = torch.tensor(LOG_RATIOS, dtype=torch.float64).exp()


def enumerated(k: int, order: str) -> torch.Tensor:
    sums = brute.weights(REWARDS, RATIOS.tolist(), k, order, "none")
    return torch.tensor([x.value for x in sums], dtype=torch.float64)


@pytest.mark.parametrize("k", range(1, 7))
def test_listing_2_is_equation_8_for_sorted_rewards(k):
    r = torch.tensor(REWARDS, dtype=torch.float64)
    torch.testing.assert_close(matrix_form.on_policy(r, k), enumerated(k, "none"))
    torch.testing.assert_close(weights(r, k), enumerated(k, "none"))


@pytest.mark.parametrize("k", range(1, 7))
def test_listing_3_with_its_diagonal_mended_is_appendix_e(k):
    r = torch.tensor(REWARDS, dtype=torch.float64)
    mended = matrix_form.first_order(r, RATIOS - 1, k)
    torch.testing.assert_close(mended, enumerated(k, "first"))
    torch.testing.assert_close(weights(r, k, RATIOS.log(), correction="first"), mended)


@pytest.mark.parametrize("k", range(1, 7))
def test_listing_3_as_printed_is_not_appendix_e(k):
    """C(i-1, k-1) r_j lands on w_i for every j instead of j = i alone: even at ratio 1."""
    r = torch.tensor(REWARDS, dtype=torch.float64)
    for deltas in (RATIOS - 1, torch.zeros_like(r)):
        printed = matrix_form.first_order(r, deltas, k, as_printed=True)
        top = matrix_form.share(6, k, 1)
        error = printed - weights(r, k, deltas.log1p(), correction="first")
        torch.testing.assert_close(error, top * (r.sum() - r))
        assert error.abs().max() > 0.3


def test_the_listings_need_sorted_rewards_and_maxk_does_not():
    r = torch.tensor(REWARDS, dtype=torch.float64)
    shuffled = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(weights(r[shuffled], 3), weights(r, 3)[shuffled])
    assert not torch.allclose(matrix_form.on_policy(r[shuffled], 3), weights(r, 3)[shuffled])


@pytest.mark.parametrize("k", range(2, 6))
def test_the_leave_one_out_recursion_of_appendix_a_is_not_the_sum_that_defines_it(k):
    """b_1^(k): k times the mean of the best over k-subsets of the samples other than the first."""
    n, others = len(REWARDS), REWARDS[1:]
    best = [max(s) for s in combinations(others, k)]
    defined = k * sum(best) / comb(n - 1, k)
    printed = sum(
        (comb(i - 1, k - 1) + (i - 2) * comb(i - 1, k - 2)) * REWARDS[i - 1] / comb(n, k)
        for i in range(2, n + 1)
    )
    mended = sum(k * comb(i - 2, k - 1) * REWARDS[i - 1] for i in range(2, n + 1)) / comb(n - 1, k)
    r = torch.tensor(REWARDS, dtype=torch.float64)
    baseline = n * (weights(r, k) - weights(r, k, baseline="loo"))[0].item()  # of maxk, as b_1
    assert mended == pytest.approx(defined, rel=1e-12)
    assert baseline == pytest.approx(defined, rel=1e-12)
    assert abs(printed - defined) > 0.01 * defined
