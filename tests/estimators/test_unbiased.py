"""Unbiasedness shown, not assumed: every possible draw of a small softmax policy is enumerated.

The expected estimate, sum over all draws of P_old(draw) sum_i w_i grad log pi(y_i), is compared
with the gradient of the true max@k. Nothing is sampled, so nothing can flake.
"""

import itertools

import pytest
import torch

from maxk.estimators import advantages, max_at_k, subset_max, weights
from maxk.estimators.combinations import Baseline, Correction

ANSWERS, N = 4, 5
REWARDS = torch.tensor([0.0, 0.3, 0.3, 1.0], dtype=torch.float64)
LOGITS = torch.tensor([0.7, 0.2, -0.3, -0.9], dtype=torch.float64)
DRIFT = torch.tensor([-0.4, 0.5, 0.1, 0.6], dtype=torch.float64)
DRAWS = torch.tensor(list(itertools.product(range(ANSWERS), repeat=N)))
UNBIASED = [
    (baseline, k)
    for baseline in ("none", "loo", "loo-1")
    for k in range(1, N + 1)
    if not (baseline == "loo" and k == N) and not (baseline == "loo-1" and k == 1)
]


def true_max_at_k(logits: torch.Tensor, k: int) -> torch.Tensor:
    """E[max of k draws], by visiting all of them."""
    draws = torch.tensor(list(itertools.product(range(ANSWERS), repeat=k)))
    chance = logits.softmax(-1)[draws].prod(-1)
    return (chance * REWARDS[draws].amax(-1)).sum()


def true_gradient(k: int) -> torch.Tensor:
    return torch.func.grad(lambda x: true_max_at_k(x, k))(LOGITS)


def log_ratios(drift: torch.Tensor) -> torch.Tensor:
    """log pi(y) - log pi_old(y) of every draw, where pi_old has logits LOGITS - drift."""
    return (LOGITS.log_softmax(-1) - (LOGITS - drift).log_softmax(-1))[DRAWS]


def expected_gradient(w: torch.Tensor, drift: torch.Tensor) -> torch.Tensor:
    """sum over draws of P_old(draw) sum_i w_i grad log pi(y_i)."""
    chance = (LOGITS - drift).softmax(-1)[DRAWS].prod(-1)
    scores = torch.eye(ANSWERS, dtype=torch.float64) - LOGITS.softmax(-1)  # grad log pi(y), row y
    return torch.einsum("d,dn,dna->a", chance, w, scores[DRAWS])


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() < 1e-8)


@pytest.mark.parametrize("k", range(1, N + 1))
def test_subset_max_is_an_unbiased_estimate_of_max_at_k(k):
    chance_on = LOGITS.softmax(-1)[DRAWS].prod(-1)
    chance_off = (LOGITS - DRIFT).softmax(-1)[DRAWS].prod(-1)
    on = (chance_on * max_at_k(REWARDS[DRAWS], k)).sum()
    off = (chance_off * subset_max(REWARDS[DRAWS], log_ratios(DRIFT), k)).sum()
    assert close(on, true_max_at_k(LOGITS, k))
    assert close(off, true_max_at_k(LOGITS, k))


@pytest.mark.parametrize(("baseline", "k"), UNBIASED)
def test_on_policy_weights_are_unbiased(baseline, k):
    w = weights(REWARDS[DRAWS], k, baseline=baseline)
    assert close(expected_gradient(w, 0 * DRIFT), true_gradient(k))


@pytest.mark.parametrize(("baseline", "k"), UNBIASED)
def test_exact_weights_are_unbiased_under_another_sampling_policy(baseline, k):
    w = weights(REWARDS[DRAWS], k, log_ratios(DRIFT), baseline=baseline)
    assert close(expected_gradient(w, DRIFT), true_gradient(k))


@pytest.mark.parametrize("k", range(1, N))
def test_the_mean_baseline_shrinks_the_on_policy_gradient_by_one_minus_k_over_n(k):
    w = weights(REWARDS[DRAWS], k, baseline="mean")
    assert close(expected_gradient(w, 0 * DRIFT), (1 - k / N) * true_gradient(k))


def test_without_a_baseline_the_weights_of_k_equal_n_do_not_depend_on_the_sample():
    """Why centring dies at k = n: there is one subset, and everyone is in it."""
    w = weights(REWARDS[DRAWS], N)
    torch.testing.assert_close(w, w[:, :1].expand_as(w), rtol=0, atol=0)


def test_the_mean_baseline_is_biased_in_direction_off_policy_only():
    def cosine(drift):
        w = weights(REWARDS[DRAWS], 3, log_ratios(drift), baseline="mean")
        return torch.cosine_similarity(expected_gradient(w, drift), true_gradient(3), dim=0)

    print(f"mean-centred against true gradient: cosine {cosine(DRIFT):.4f} at drift 1")
    assert cosine(DRIFT) < 0.9
    assert cosine(0 * DRIFT) > 1 - 1e-12


@pytest.mark.parametrize("k", range(1, N + 1))
def test_on_policy_weights_on_off_policy_samples_are_biased(k):
    """The control: ignoring the ratios is visible to this test."""
    w = weights(REWARDS[DRAWS], k)
    assert not close(expected_gradient(w, DRIFT), true_gradient(k))


@pytest.mark.parametrize("k", range(2, N + 1))
def test_the_bias_of_the_first_order_weights_vanishes_with_the_square_of_the_drift(k):
    bias = []
    for scale in (1.0, 0.1, 0.01):
        w = weights(REWARDS[DRAWS], k, log_ratios(scale * DRIFT), correction="first")
        error = expected_gradient(w, scale * DRIFT) - true_gradient(k)
        bias.append((error.norm() / true_gradient(k).norm()).item())
    print(f"k={k}: relative bias {bias[0]:.3%}, {bias[1]:.4%}, {bias[2]:.6%} at drift 1, 0.1, 0.01")
    assert bias[0] > 1e-3
    assert bias[0] / bias[1] > 50
    assert bias[1] / bias[2] > 80


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bias_of_normalized_weights_falls_with_the_number_of_samples(k):
    """They are quotients, so unbiased for no n; at ratio 1 their direction is the gradient's."""
    due = true_gradient(k)

    def angle(
        n: int, drift: torch.Tensor, order: Correction = "normalized", baseline: Baseline = "none"
    ) -> float:
        """1 - cosine of the expected step to the gradient, all draws of n visited."""
        draws = torch.tensor(list(itertools.product(range(ANSWERS), repeat=n)))
        moved = (LOGITS.log_softmax(-1) - (LOGITS - drift).log_softmax(-1))[draws]
        w = weights(REWARDS[draws], k, moved, order, baseline)
        chance = (LOGITS - drift).softmax(-1)[draws].prod(-1)
        scores = torch.eye(ANSWERS, dtype=torch.float64) - LOGITS.softmax(-1)
        got = torch.einsum("d,dn,dna->a", chance, w, scores[draws])
        return float(1 - got @ due / (got.norm() * due.norm()))

    assert angle(5, torch.zeros_like(DRIFT)) < 1e-9
    first, *between, last = [angle(n, DRIFT) for n in range(k + 1, k + 5)]
    assert first > between[0] > between[1] > last > 0
    assert last < 0.5 * first
    # The mean baseline does not get better with n.
    few, many = (angle(n, DRIFT, "exact", "mean") for n in (k + 1, k + 4))
    assert few == pytest.approx(many)
    assert last < 0.8 * many


def test_first_order_weights_are_exact_for_k_of_one():
    """One ratio per subset: 1 + delta is rho, and nothing was cut off."""
    w = weights(REWARDS[DRAWS], 1, log_ratios(DRIFT), correction="first")
    assert close(expected_gradient(w, DRIFT), true_gradient(1))


@pytest.mark.parametrize("k", range(1, N))
def test_bon_centered_is_unbiased_although_groups_without_a_preference_are_zeroed(k):
    w = advantages("bon-centered", REWARDS[DRAWS], k)
    assert close(expected_gradient(w, 0 * DRIFT), true_gradient(k))
