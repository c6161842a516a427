"""The sampling variance of max@k against enumeration and against simulation."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.estimators import max_at_k
from maxk.evaluate.variance import sampling_variance

ROW = st.lists(st.integers(-5, 10).map(float), min_size=4, max_size=8)


def disjoint_pairs(row: list[float], k: int) -> float:
    """U^2 minus the mean of max_I max_J over all disjoint k-subsets, visited one by one."""
    n, products = len(row), []
    for first in combinations(range(n), k):
        rest = [i for i in range(n) if i not in first]
        for second in combinations(rest, k):
            products.append(max(row[i] for i in first) * max(row[i] for i in second))
    assert len(products) == comb(n, k) * comb(n - k, k)
    return max_at_k(row, k) ** 2 - float(np.mean(products))


@given(ROW, st.integers(1, 4))
def test_up_to_half_of_n_it_is_the_mean_over_disjoint_subsets(row, k):
    k = min(k, len(row) // 2)
    assert sampling_variance(np.array([row]), [k])[0, 0] == pytest.approx(
        disjoint_pairs(row, k), abs=1e-9
    )


@given(ROW)
def test_above_half_of_n_it_is_the_jackknife(row):
    n = len(row)
    for k in range(n // 2 + 1, n):
        without = np.array([max_at_k(row[:i] + row[i + 1 :], k) for i in range(n)])
        expected = (n - 1) / n * ((without - without.mean()) ** 2).sum()
        assert sampling_variance(np.array([row]), [k])[0, 0] == pytest.approx(expected, abs=1e-9)


def test_at_k_1_it_is_the_variance_of_a_mean():
    row = np.random.default_rng(0).random(20)
    assert sampling_variance(row[None], [1])[0, 0] == pytest.approx(row.var(ddof=1) / 20)


def test_at_k_n_it_counts_problems_solved_once():
    rewards = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]])
    assert sampling_variance(rewards, [3])[:, 0].tolist() == [0, 1, 0, 1]


@given(ROW, st.integers(1, 8))
def test_a_shift_of_all_rewards_changes_nothing(row, k):
    k = min(k, len(row))
    there = sampling_variance(np.array([row]) + 1000.0, [k])
    assert there == pytest.approx(sampling_variance(np.array([row]), [k]), abs=1e-9)
    far = sampling_variance(np.array([row]) + 2.0**40, [k])  # whose squares have no such digits
    assert far == pytest.approx(sampling_variance(np.array([row]), [k]), abs=1e-9)


def test_equal_rewards_and_single_samples_have_no_variance():
    assert not sampling_variance(np.full((2, 6), 0.3), [1, 3, 5, 6]).any()
    assert not sampling_variance(np.array([[0.3]]), [1]).any()


@pytest.mark.parametrize("kind", ["pass", "fraction", "rare"])
def test_it_agrees_with_drawing_the_samples_again(kind):
    """100 problems, n = 16, drawn 2000 times. The variance of 2000 means is known to 3.2 % (one
    sigma), so unbiased estimates lie within 16 % at 5 sigma; bounds lie above that and, as the
    module says of standard errors, below 1.5^2 times the truth. Fixed seed."""
    rng = np.random.default_rng(7)
    problems, n, ks = 100, 16, [1, 2, 5, 8, 11, 15, 16]
    chance = rng.beta(0.3, 1, (problems, 1)) if kind != "rare" else rng.beta(0.1, 3, (problems, 1))
    tests = 5 if kind == "fraction" else 1
    rewards = rng.binomial(tests, chance, (2000, problems, n)) / tests
    means_RK = max_at_k(rewards, ks).mean(1)
    estimates = sampling_variance(rewards.reshape(-1, n), ks).mean(0) / problems
    ratio = estimates / means_RK.var(0)
    unbiased = np.array(ks) <= n // 2
    assert np.abs(ratio[unbiased] - 1).max() < 0.16
    assert ratio[~unbiased].min() > 1 - 0.16
    assert ratio[~unbiased].max() < 1.5**2
