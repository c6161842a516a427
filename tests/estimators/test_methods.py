"""The named methods: values worked out by hand, and what must hold for all of them."""

import math
from math import comb, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.estimators import METHODS, advantages, mask_sequences, max_at_k, weights
from maxk.estimators.clipping import clamp
from maxk.estimators.combinations import Correction
from tests import brute

R = [0.0, 1.0, 0.5, 0.5]


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def check(method: str, rewards, expected, **arguments) -> None:
    got = advantages(method, tensor(rewards), **arguments)
    torch.testing.assert_close(got, tensor(expected), rtol=1e-12, atol=1e-12)


def test_grpo_divides_by_the_standard_deviation():
    deviation = sqrt((0.5**2 + 0.5**2) / 3)
    check("grpo", R, [-0.5 / deviation, 0.5 / deviation, 0.0, 0.0])


def test_dr_grpo_only_centres():
    check("dr-grpo", R, [-0.5, 0.5, 0.0, 0.0])


def test_rloo_subtracts_the_mean_of_the_others():
    check("rloo", R, [0 - 2 / 3, 1 - 1 / 3, 0.0, 0.0])


def test_max_rl_divides_by_the_mean():
    check("max-rl", [0.0, 0.0, 0.0, 1.0], [-1.0, -1.0, -1.0, 3.0])
    check("max-rl", [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0])


def test_bon_max_mean_rewards_every_sample_that_ties_for_the_best():
    check("bon-max-mean", R, [0.0, 0.5, 0.0, 0.0])
    check("bon-max-mean", [0.0, 1.0, 1.0, 0.0], [0.0, 0.5, 0.5, 0.0])


def test_bon_max_second_subtracts_the_best_reward_below_the_best():
    check("bon-max-second", R, [0.0, 0.5, 0.0, 0.0])
    check("bon-max-second", [0.25, 1.0, 1.0, 0.0], [0.0, 0.75, 0.75, 0.0])


def test_bon_loo_is_what_the_sample_adds_to_its_subsets():
    # Pairs: only 1.0 beats its partner, by 1.0, 0.5 and 0.5; each 0.5 beats 0.0 by 0.5; of 6.
    check("bon-loo", R, [0.0, 2 / 6, 0.5 / 6, 0.5 / 6], k=2)


def test_bon_centered_compares_with_pairs_without_the_sample():
    # w = (2, 3, 2, 2)/6 from the pairs with i; pairs without i sum to (2.5, 1.5, 2.5, 2.5).
    check("bon-centered", R, [(2 - 2.5) / 6, (3 - 1.5) / 6, (2 - 2.5) / 6, (2 - 2.5) / 6], k=2)


def test_bon_mean_is_the_z_score_of_the_weights():
    w = tensor([2, 3, 2, 2]) / 6
    check("bon-mean", R, ((w - w.mean()) / w.std()).tolist(), k=2)


def test_off_policy_methods_without_ratios_are_the_centred_on_policy_weights():
    want = weights(tensor(R), 2, baseline="mean")
    for method in ("off-policy", "off-policy-exact", "off-policy-normalized"):
        check(method, R, want.tolist(), k=2, log_ratios=0)
        check(method, R, want.tolist(), k=2, log_ratios=torch.zeros(4, dtype=torch.float64))


def test_off_policy_methods_are_the_enumerated_weights_with_ratios():
    log_ratios = tensor([0.1, -0.2, 0.05, 0.15])
    ratios = log_ratios.exp().tolist()
    for method, order in (("off-policy", "first"), ("off-policy-exact", "exact")):
        want = [x.value for x in brute.weights(R, ratios, 3, order, "mean")]
        check(method, R, want, k=3, log_ratios=log_ratios)
    want = [x.value for x in brute.weights(R, ratios, 3, "normalized", "none")]
    check("off-policy-normalized", R, want, k=3, log_ratios=log_ratios)


@pytest.mark.parametrize("n", [4, 8])
def test_pass_at_k_is_the_published_formula_for_every_number_of_passes(n):
    for passes in range(1, n):
        for k in range(1, n):
            failures = n - passes
            rate = 1 - comb(failures, k) / comb(n, k)
            deviation = sqrt(rate * (1 - rate))
            good = (1 - rate) / deviation if deviation else 0.0
            lost = comb(failures - 1, k - 1) / comb(n - 1, k - 1)
            bad = (1 - rate - lost) / deviation if deviation else 0.0
            check(
                "pass-at-k",
                [1.0] * passes + [0.0] * failures,
                [good] * passes + [bad] * failures,
                k=k,
            )


def test_at_k_of_one_the_methods_are_the_classical_ones():
    r = tensor([0.1, 0.9, 0.4, 0.4, 0.0])
    torch.testing.assert_close(5 * advantages("bon-centered", r, 1), advantages("rloo", r))
    torch.testing.assert_close(
        5 * advantages("off-policy", r, 1, log_ratios=0), advantages("dr-grpo", r)
    )
    torch.testing.assert_close(advantages("bon-mean", r, 1), advantages("grpo", r))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equal_rewards_give_exactly_zero(method, value, dtype):
    if method == "pass-at-k" and value not in (0.0, 1.0):
        return
    r = torch.full((2, 8), value, dtype=dtype)
    x = torch.linspace(-1, 1, 16, dtype=dtype).reshape(2, 8) if METHODS[method].off_policy else None
    assert (advantages(method, r, 4, x) == 0).all()


@pytest.mark.parametrize("method", ["bon-mean", "bon-centered", "off-policy", "pass-at-k"])
def test_rewards_that_differ_only_below_the_kth_smallest_give_exactly_zero(method):
    """Every pair has a 1 in it: no sample is better than another, whatever rounding says."""
    for low in range(1, 4):
        r = torch.tensor([0.0] * low + [1.0] * (8 - low))
        assert (advantages(method, r, 4, log_ratios=0) == 0).all()


@pytest.mark.parametrize("order", ["first", "exact"])
def test_z_scores_of_off_policy_weights_that_differ_by_rounding_only_are_zero(order):
    """At ratio 1 these are equal too, but computed along different paths."""
    for low in range(1, 4):
        r = torch.tensor([0.0] * low + [1 / 3] * (8 - low), dtype=torch.float64)
        w = weights(r, 4, torch.zeros_like(r), correction=order, baseline="zscore")
        assert (w == 0).all()


def test_z_scores_of_rewards_that_differ_by_rounding_only_are_zero():
    r = tensor([0.1 + 0.2, 0.3, 0.3, 0.3])
    assert r[0] != r[1]
    assert (advantages("grpo", r) == 0).all()


@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1 / 3, 1.0]), min_size=3, max_size=12), st.data())
def test_samples_with_equal_rewards_get_bitwise_equal_on_policy_weights(r, data):
    k = data.draw(st.integers(1, len(r) - 1))
    for baseline in ("none", "mean", "zscore", "loo"):
        w = weights(tensor(r), k, baseline=baseline).tolist()
        for i in range(len(r)):
            assert w[i] == w[r.index(r[i])]


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=3, max_size=9), st.data())
def test_z_score_baseline_is_the_enumerated_weights_standardised(r, data):
    k = data.draw(st.integers(1, len(r) - 1))
    want = brute.weights(r, [1.0] * len(r), k, "none", "mean")
    w = tensor([x.value for x in want])
    if w.std() <= 1e-6 * max(x.scale for x in want):
        return  # the quotient of two rounding errors has no digits to compare
    got = weights(tensor(r), k, baseline="zscore")
    torch.testing.assert_close(got, w / w.std(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_z_scores_do_not_depend_on_the_unit_of_the_reward(scale):
    r = tensor(R)
    torch.testing.assert_close(advantages("grpo", scale * r), advantages("grpo", r))


def test_advantages_of_centred_methods_sum_to_zero():
    r = torch.rand(16, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for method in ("grpo", "dr-grpo", "rloo", "bon-mean", "bon-centered", "off-policy"):
        assert advantages(method, r, 4, log_ratios=0).sum(-1).abs().max() < 1e-12


def test_weights_of_one_prompt_sum_to_k_times_its_max_at_k():
    r = torch.rand(16, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for k in range(1, 9):
        torch.testing.assert_close(weights(r, k).sum(-1), k * max_at_k(r, k))


def test_clamp_bounds_the_ratio_on_both_sides():
    ratios = clamp(tensor([-3.0, -0.1, 0.1, 3.0]), 0.5).exp()
    torch.testing.assert_close(ratios, tensor([0.5, 0.904837418035960, 1.105170918075648, 1.5]))
    assert clamp(tensor([-30.0, 30.0]), 2.0).exp().tolist() == pytest.approx(
        [9.4e-14, 3.0], rel=0.01
    )


def test_mask_sequences_drops_samples_that_moved_the_way_they_are_pushed():
    moved = tensor([1.3, 1.3, 0.7, 0.7, 1.1]).log()
    pushed = tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    assert mask_sequences(pushed, moved, epsilon=0.2).tolist() == [0.0, -1.0, 1.0, 0.0, 1.0]


def test_mask_sequences_has_bounds_of_its_own_above_and_below():
    moved = tensor([1.3, 1.5, 0.85, 0.75]).log()
    pushed = tensor([1.0, 1.0, -1.0, -1.0])
    assert mask_sequences(pushed, moved, 0.2, 0.4).tolist() == [1.0, 0.0, -1.0, 0.0]
    assert mask_sequences(pushed, moved, 0.1, 0.6).tolist() == [1.0, 1.0, 0.0, 0.0]


ORDER_OF: dict[str, Correction] = {"off-policy": "first", "off-policy-exact": "exact"}


@pytest.mark.parametrize("method", ["off-policy", "off-policy-exact", "off-policy-normalized"])
def test_off_policy_methods_clamp_at_half_unless_told_otherwise(method):
    r = tensor([0.0, 1.0, 0.5, 0.2])
    x = tensor([0.9, -1.2, 0.1, 0.6])
    clamped = x.clamp(math.log(0.5), math.log(1.5))
    order = ORDER_OF.get(method, "normalized")
    baseline = "mean" if method in ORDER_OF else "none"
    for clamp_delta, ratios in ((None, clamped), (0.5, clamped), (math.inf, x)):
        due = weights(r, 2, ratios, correction=order, baseline=baseline)
        torch.testing.assert_close(advantages(method, r, 2, x, clamp_delta=clamp_delta), due)
    far = advantages(method, r, 2, x) - advantages(method, r, 2, x, clamp_delta=math.inf)
    assert far.abs().max() > 0.01, "the clamp changes nothing here"


@pytest.mark.parametrize("order", ["first", "exact"])
def test_ratio_mean_sums_to_zero_and_lets_go_of_what_has_become_unlikely(order):
    """The mean baseline keeps pushing a sample down however unlikely it is; this one does not."""
    r = torch.tensor([0.0, 1.0, 0.5, 0.0], dtype=torch.float64)
    gone = torch.tensor([-12.0, 0.1, -0.1, 0.0], dtype=torch.float64)
    w = weights(r, 2, gone, order, "ratio-mean")
    assert abs(w.sum()) < 1e-12
    if order == "exact":  # to first order in rho - 1 the weight itself does not vanish with rho
        assert abs(w[0]) < 1e-5
        assert weights(r, 2, gone, order, "mean")[0] < -0.1
    torch.testing.assert_close(weights(r, 2, baseline="ratio-mean"), weights(r, 2, baseline="mean"))


@settings(max_examples=200)
@given(st.data())
def test_normalized_weights_are_centred_bounded_and_of_the_right_sign(data):
    """Whatever the ratios: what `exact` with a baseline from the group is not."""
    n = data.draw(st.integers(2, 9))
    k = data.draw(st.integers(1, n - 1))
    each = {"min_size": n, "max_size": n}
    r = tensor(data.draw(st.lists(st.integers(0, 5).map(lambda x: x / 5), **each)))
    log_ratios = tensor(data.draw(st.lists(st.floats(-300, 300), **each)))
    w = weights(r, k, log_ratios, "normalized")
    assert abs(w.sum()) < 1e-12
    assert w.abs().max() <= (r.max() - r.min()) / 4 + 1e-12  # p (1 - p) (a - b), a and b rewards
    assert w[r == r.max()].min() >= -1e-12
    assert w[r == r.min()].max() <= 1e-12
    moved = weights(r + 3, k, log_ratios + 5, "normalized")
    torch.testing.assert_close(moved, w, atol=1e-10, rtol=0)


def test_the_other_off_policy_weights_push_the_best_sample_down():
    """The control of the test above: one success whose chance has halved, among seven failures."""
    r = tensor([1.0] + [0.0] * 7)
    log_ratios = tensor([-0.7] + [0.3] * 7)
    assert weights(r, 4, log_ratios, "normalized")[0] > 0.1
    risen = tensor([0.4] + [-0.7] * 7)
    assert weights(r, 4, risen, "normalized")[0] > 0.1
    assert weights(r, 4, risen, "exact", "ratio-mean")[0] < 0
    r = tensor([1.0] * 6 + [0.0] * 2)
    log_ratios = tensor([-0.7] + [0.3] * 7)
    assert weights(r, 4, log_ratios, "exact", "mean")[0] < -0.1
    assert weights(r, 4, log_ratios, "normalized")[0] >= 0
