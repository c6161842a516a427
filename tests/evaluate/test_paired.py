"""Paired comparisons: the signed-rank test, bootstrap differences, corrections."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from maxk.evaluate import adjust, differences, wilcoxon


def by_all_signs(gaps: list[float]) -> float:
    """The two-sided p-value over all 2^m signs of the differences that are not zero."""
    gaps = [gap for gap in gaps if gap]
    ranks = scipy.stats.rankdata(np.abs(gaps))
    middle = ranks.sum() / 2
    seen = abs(ranks[np.array(gaps) > 0].sum() - middle)
    signs = np.array(list(product([0, 1], repeat=len(gaps))))
    return float((np.abs(signs @ ranks - middle) >= seen - 1e-9).mean())


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9).filter(any))
def test_few_differences_are_counted_out_with_ties(gaps):
    first = np.array(gaps, dtype=float)
    assert wilcoxon(first, np.zeros(len(gaps))) == pytest.approx(by_all_signs(gaps))


def p_of(result) -> float:
    return result.pvalue


def test_without_ties_it_is_scipys_exact_test():
    gaps = np.random.default_rng(0).normal(0.2, 1, 40)
    expected = p_of(scipy.stats.wilcoxon(gaps, method="exact"))
    assert wilcoxon(gaps, np.zeros(40)) == pytest.approx(expected)


def test_many_differences_are_scipys_default_test():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (2, 200)) / 4
    assert wilcoxon(first, second) == pytest.approx(p_of(scipy.stats.wilcoxon(first, second)))


def test_equal_runs_have_p_of_one():
    values = np.random.default_rng(0).random(30)
    assert wilcoxon(values, values) == 1.0


def test_rounding_error_is_no_difference():
    first = np.array([0.1 + 0.2, 0.7, 0.9])
    second = np.array([0.3, 0.6, 0.8])  # the last two differ by 0.1 up to rounding
    (got,) = differences(first[:, None], second[:, None])
    assert got.unequal == 2
    assert got.p == pytest.approx(0.5)


def test_under_the_null_a_false_alarm_is_as_rare_as_it_says():
    """1000 benchmarks of 164 problems of which a tenth differ, by -2 ... 2 quarters at random:
    alarms at 5 % stay below 5 % + 5 sigma (0.7 %). Fixed seed."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(1000):
        gaps = np.where(rng.random(164) < 0.1, rng.choice([-2, -1, 1, 2], 164) / 4, 0.0)
        alarms += wilcoxon(gaps, np.zeros(164)) < 0.05
    assert alarms / 1000 < 0.05 + 5 * 0.007


def test_differences_are_antisymmetric_and_inside_their_interval():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 50, 3))
    there, back = differences(first, second), differences(second, first)
    for one, other in zip(there, back, strict=True):
        assert one.value == pytest.approx(-other.value)
        assert one.p == pytest.approx(other.p)
        assert one.low < one.value < one.high


def test_pairing_makes_the_interval_narrow():
    rng = np.random.default_rng(0)
    second = rng.random((200, 1))
    (got,) = differences(second + 0.01 * rng.random((200, 1)), second)
    assert 0 < got.low < got.high < 0.01
    assert got.p < 1e-6


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"first has shape \(2, 1\) and second \(3, 1\)"):
        differences(np.zeros((2, 1)), np.zeros((3, 1)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_its_definition(ps):
    got = adjust(ps, "holm")
    for i, p in enumerate(ps):
        # The largest p_j * (how many are not below p_j) over all p_j up to p.
        steps = [q * sum(r >= q for r in ps) for q in ps if q <= p]
        assert got[i] == pytest.approx(min(1.0, max(steps)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_benjamini_hochberg_is_scipys(ps):
    assert adjust(ps, "bh") == pytest.approx(scipy.stats.false_discovery_control(ps).tolist())


def test_no_correction_and_unknown_corrections():
    assert adjust([0.2, 0.1], "none") == [0.2, 0.1]
    assert adjust([], "holm") == []
    with pytest.raises(ValueError, match="correction='bonferroni' is unknown"):
        adjust([0.1], "bonferroni")  # pyright: ignore[reportArgumentType]
