"""Wrong arguments: a ValueError that names the argument, its value, and the fix."""

import inspect
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from maxk import estimators
from maxk.estimators import METHODS
from maxk.evaluate import scores
from tests.conftest import plain

max_at_k, pass_at_k = plain(estimators.max_at_k), plain(estimators.pass_at_k)
weights, subset_max = plain(estimators.weights), plain(estimators.subset_max)
advantages, mask_sequences = plain(estimators.advantages), plain(estimators.mask_sequences)

R = torch.tensor([0.0, 0.5, 1.0, 0.0])
X = torch.zeros(4)
NAN = float("nan")
CENTRED = [name for name, method in METHODS.items() if method.needs_k_below_n]

BAD_K = [
    (0, "k=0 is below 1; .* k >= 1"),
    (-3, "k=-3 is below 1"),
    (5, "k=5 is larger than n=4.*draw at least 5 samples or use k <= 4"),
    (2.5, "k=2.5 is not an integer"),
    ("2", "k='2' is not an integer"),
]


@pytest.mark.parametrize(("k", "message"), BAD_K)
@pytest.mark.parametrize(
    "call",
    [
        lambda k: max_at_k(R.tolist(), k),
        lambda k: max_at_k(R.numpy(), k),
        lambda k: max_at_k(R, k),
        lambda k: max_at_k(R, [1, k]),
        lambda k: pass_at_k(R, k),
        lambda k: weights(R, k),
        lambda k: subset_max(R, X, k),
        lambda k: advantages("bon-loo", R, k),
    ],
)
def test_k_out_of_range(call, k, message):
    with pytest.raises(ValueError, match=message):
        call(k)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: max_at_k(r.tolist(), 1),
        lambda r: max_at_k(r.numpy(), 1),
        lambda r: max_at_k(r, 1),
        lambda r: pass_at_k(r.tolist(), 1),
        lambda r: pass_at_k(r, 1),
        lambda r: weights(r, 1),
        lambda r: subset_max(r, torch.zeros_like(r), 1),
        *(lambda r, name=name: advantages(name, r, 2) for name in METHODS),
    ],
)
@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
def test_rewards_that_are_not_finite_are_named_by_position(call, bad):
    with pytest.raises(ValueError, match=r"rewards\[1, 2\] is -?(nan|inf).*score .* 0, or drop"):
        call(torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, bad]]))


@pytest.mark.parametrize("call", [lambda x: weights(R, 2, x), lambda x: subset_max(R, x, 2)])
def test_log_ratios_must_match_the_rewards(call):
    with pytest.raises(ValueError, match=r"log_ratios has shape \(3,\) and rewards \(4,\)"):
        call(torch.zeros(3))
    with pytest.raises(ValueError, match=r"log_ratios has shape \(1, 4\)"):
        call(torch.zeros(1, 4))
    with pytest.raises(ValueError, match=r"log_ratios\[2\] is nan.*mask padding"):
        call(torch.tensor([0.0, 0.0, NAN, 0.0]))
    with pytest.raises(ValueError, match=r"log_ratios has dtype torch\.int64"):
        call(torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="log_ratios is a list"):
        call([0.0] * 4)
    with pytest.raises(ValueError, match="past the range of float64: clamp"):
        call(torch.full((4,), 600.0))


@pytest.mark.parametrize("baseline", ["mean", "zscore", "loo", "ratio-mean"])
@pytest.mark.parametrize("order", ["none", "first", "exact"])
def test_centring_at_k_equal_n_is_refused_with_the_fix(baseline, order):
    with pytest.raises(ValueError, match=rf"{baseline}.*k=4 equal to n=4.*k <= 3.*loo-1"):
        weights(R, 4, None if order == "none" else X, correction=order, baseline=baseline)


@pytest.mark.parametrize("method", CENTRED)
def test_centred_methods_refuse_k_equal_n(method):
    with pytest.raises(ValueError, match=rf"k=4 equal to n=4 .*{method}.*k <= 3.*bon-loo"):
        advantages(method, (R >= 1).float(), 4)
    assert set(CENTRED) == {
        "pass-at-k",
        "bon-mean",
        "bon-centered",
        "off-policy",
        "off-policy-exact",
        "off-policy-normalized",
    }


def test_normalized_weights_take_no_baseline_and_need_k_below_n():
    with pytest.raises(
        ValueError, match=r"baseline='mean' with correction=.normalized.*leave it out"
    ):
        weights(R, 2, X, correction="normalized", baseline="mean")
    with pytest.raises(ValueError, match=r"k=4 equal to n=4.*k <= 3.*correction=.exact"):
        weights(R, 4, X, correction="normalized")


def test_loo_1_needs_k_of_two():
    with pytest.raises(ValueError, match=r"loo-1.*k=1.*k >= 2"):
        weights(R, 1, baseline="loo-1")
    with pytest.raises(ValueError, match=r"k >= 2"):
        advantages("bon-loo", R, 1)


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].off_policy])
def test_log_ratios_for_a_method_that_ignores_them_are_refused(method):
    with pytest.raises(ValueError, match=f"log_ratios is given but method='{method}' ignores it"):
        advantages(method, R, 2, X)
    with pytest.raises(ValueError, match=f"clamp_delta is given but method='{method}' ignores it"):
        advantages(method, R, 2, clamp_delta=0.2)


def test_log_ratios_for_on_policy_weights_are_refused():
    with pytest.raises(ValueError, match=r"log_ratios is given but correction=.none. ignores"):
        weights(R, 2, X, correction="none")


def test_pass_at_k_method_refuses_rewards_that_are_not_binary():
    with pytest.raises(
        ValueError, match=r"rewards has an entry 0.5; method='pass-at-k' is for binary"
    ):
        advantages("pass-at-k", R, 2)


def test_max_rl_refuses_negative_rewards():
    with pytest.raises(ValueError, match=r"minimum of -1.0; method='max-rl'.*rewards >= 0"):
        advantages("max-rl", R - 1)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="method='gpro' is unknown; use one of grpo, "):
        advantages("gpro", R)
    with pytest.raises(
        ValueError, match="correction='second' is unknown; use one of none, first, exact"
    ):
        weights(R, 2, correction="second")
    with pytest.raises(ValueError, match="baseline='median' is unknown; use one of none, mean"):
        weights(R, 2, baseline="median")


def test_a_method_of_max_at_k_without_k_is_refused():
    with pytest.raises(ValueError, match=r"k=None but method='bon-mean' optimises max@k; pass k"):
        advantages("bon-mean", R)


def test_groups_of_one_sample_are_refused():
    with pytest.raises(
        ValueError, match="rewards has n=1 sample per prompt; method='grpo' needs n >= 2"
    ):
        advantages("grpo", torch.ones(3, 1))


@pytest.mark.parametrize("shape", [(), (3, 0)])
def test_rewards_without_samples_are_refused(shape):
    for call in (
        lambda r: weights(r, 1),
        lambda r: max_at_k(r, 1),
        lambda r: max_at_k(r.numpy(), 1),
    ):
        with pytest.raises(ValueError, match=r"rewards has shape .* must hold the n >= 1 samples"):
            call(torch.ones(shape))


def test_rewards_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match="rewards is a list; pass a torch tensor"):
        weights([0.0, 1.0], 1)
    with pytest.raises(ValueError, match=r"rewards has dtype torch\.complex64"):
        weights(torch.ones(3, dtype=torch.complex64), 1)
    with pytest.raises(ValueError, match="rewards has rows of different lengths"):
        max_at_k([[0.0, 1.0], [1.0]], 1)


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ([0.0, None], "rewards[1] is None; score a sample that could not be judged 0"),
        ([[0.0, 1.0], ["1", 0.0]], "rewards[1][0] is '1', a str; pass numbers"),
        (np.array(["a"]), "rewards[0] is np.str_('a'), a str_; pass numbers"),
        (np.array([0.0, None]), "rewards[1] is None; score"),
        ([0.0, Fraction(1, 2)], "rewards[1] is Fraction(1, 2), a Fraction; pass float(reward)"),
        ([Decimal(1), 0.0], "rewards[0] is Decimal('1'), a Decimal; pass float(reward)"),
        ([1j, 0.0], "rewards[0] is 1j, a complex; rewards must be real"),
        ([0.0, {}], "rewards[1] is {}, a dict; pass numbers"),
        (None, "rewards is None; score"),
    ],
)
def test_an_entry_that_is_no_number_is_named(rewards, said):
    for metric in (max_at_k, pass_at_k):
        with pytest.raises(ValueError, match=re.escape(said)):
            metric(rewards, 1)


def test_an_entry_that_is_no_number_is_named_in_rows_of_any_length():
    with pytest.raises(ValueError, match=re.escape("rewards[1][2] is None; score a sample")):
        scores([[0.0], [0.0, 1.0, None]], [1])
    with pytest.raises(ValueError, match=re.escape("rewards[0][0] is '1', a str")):
        scores([["1"]], [1])


@pytest.mark.parametrize("ks", [{1, 2}, {1: 2}, iter([1])])
def test_several_k_are_given_as_a_list(ks):
    for rewards in ([0.0, 1.0], torch.tensor([0.0, 1.0])):
        with pytest.raises(ValueError, match="pass an int or a list of ints, such as"):
            max_at_k(rewards, ks)


@pytest.mark.parametrize("method", [name for name, each in METHODS.items() if each.off_policy])
def test_an_off_policy_method_without_ratios_warns_unless_told_that_there_is_none(method):
    with pytest.warns(UserWarning, match=rf"method='{method}' without log_ratios .* log_ratios=0"):
        silent = advantages(method, R, 2)
    for none in (0, torch.zeros_like(R)):
        torch.testing.assert_close(advantages(method, R, 2, log_ratios=none), silent)
    with pytest.raises(ValueError, match="log_ratios=1 is no tensor"):
        advantages(method, R, 2, log_ratios=1)


def test_empty_list_of_k_is_refused():
    with pytest.raises(ValueError, match=r"k=\[\] asks for nothing"):
        max_at_k([0.0, 1.0], [])


def test_bounds_must_be_positive():
    with pytest.raises(ValueError, match=r"clamp_delta=0\.0 must be above 0"):
        advantages("off-policy", R, 2, X, clamp_delta=0.0)
    with pytest.raises(ValueError, match=r"epsilon=0\.0 must be above 0"):
        mask_sequences(R, X, epsilon=0.0)
    with pytest.raises(ValueError, match=r"epsilon_high=-0\.1 must be above 0"):
        mask_sequences(R, X, epsilon=0.2, epsilon_high=-0.1)


def test_the_shape_check_of_the_test_suite_is_active():
    """Without it every annotation in this package would go unchecked in silence."""
    assert estimators.weights is not inspect.unwrap(estimators.weights)
    with pytest.raises(Exception, match="Type-check error"):
        estimators.weights(R, 2, torch.zeros(3))
