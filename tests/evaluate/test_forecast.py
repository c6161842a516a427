"""Forecasts: exact where they can be, and right on samples that were held out."""

from itertools import pairwise

import numpy as np
import pytest

from maxk.estimators import max_at_k, pass_at_k
from maxk.evaluate import Interval, forecast
from maxk.evaluate.forecast import _levels
from maxk.evaluate.samples import Block
from tests.clock import cpu_seconds


def beta(rng, problems):
    return rng.beta(0.3, 1, problems)


def half_never(rng, problems):
    return np.where(rng.random(problems) < 0.5, 0.0, rng.beta(0.6, 2, problems))


def easy_and_hard(rng, problems):
    return np.where(
        rng.random(problems) < 0.5, rng.beta(5, 2, problems), rng.beta(0.3, 8, problems)
    )


def three_kinds(rng, problems):
    kinds = [rng.beta(8, 1, problems), rng.beta(2, 20, problems), rng.beta(0.5, 100, problems)]
    return np.choose(rng.integers(0, 3, problems), kinds)


POPULATIONS = [beta, half_never, easy_and_hard, three_kinds]


@pytest.mark.parametrize("population", POPULATIONS)
def test_pass_at_256_from_32_samples_agrees_with_the_held_out_rest(population):
    """4 benchmarks each, 95 % intervals: all cover. In a trial of 40 per population the root mean
    square error was at most 0.05, so 0.15 is beyond 3 sigma for every one; fixed seeds."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        chance = population(rng, 200)
        rewards = (rng.random((200, 256)) < chance[:, None]).astype(float)
        got = forecast(rewards[:, :32], [64, 256], "pass", interval=Interval(resamples=200))
        actual = pass_at_k(rewards, [64, 256]).mean(0)
        for point, truth in zip(got.points, actual, strict=True):
            assert point.low <= truth <= point.high
            assert abs(point.value - truth) < 0.15


@pytest.mark.parametrize("tests", [4, 25])
def test_max_at_256_of_fractions_agrees_with_the_held_out_rest(tests):
    """With 4 tests every level is fitted, with 25 they are pooled into 10. Fixed seed."""
    rng = np.random.default_rng(tests)
    mean = beta(rng, 200)[:, None]
    quality = rng.beta(3 * mean + 1e-6, 3 * (1 - mean) + 1e-6, (200, 256))
    rewards = np.round(quality * tests) / tests
    got = forecast(rewards[:, :32], [64, 256], interval=Interval(resamples=200))
    actual = max_at_k(rewards, [64, 256]).mean(0)
    for point, truth in zip(got.points, actual, strict=True):
        assert point.low <= truth <= point.high
        assert abs(point.value - truth) < 0.05


def test_at_k_up_to_n_it_is_close_to_the_curve():
    rng = np.random.default_rng(0)
    rewards = (rng.random((400, 64)) < beta(rng, 400)[:, None]).astype(float)
    got = forecast(rewards, [1, 8, 64], interval=Interval(resamples=100))
    curve = max_at_k(rewards, [1, 8, 64]).mean(0)
    assert [p.value for p in got.points] == pytest.approx(curve.tolist(), abs=0.02)


def test_forecasts_rise_with_k_and_widen():
    rng = np.random.default_rng(0)
    rewards = (rng.random((100, 16)) < beta(rng, 100)[:, None]).astype(float)
    points = forecast(rewards, [16, 32, 64, 1024], "pass", interval=Interval(resamples=300)).points
    for one, other in pairwise(points):
        assert one.value <= other.value
        assert one.low <= other.low
        assert one.high <= other.high
    assert all(point.low <= point.value <= point.high for point in points)
    assert points[3].value - points[3].low > points[0].value - points[0].low


def test_solved_by_all_stays_solved_and_equal_rewards_stay_equal():
    (point,) = forecast(np.ones((20, 8)), [100], "pass", interval=Interval(resamples=100)).points
    assert (point.value, point.low, point.high) == pytest.approx((1, 1, 1), abs=1e-6)
    (point,) = forecast(np.full((20, 8), 0.25), [100], interval=Interval(resamples=100)).points
    assert (point.value, point.low, point.high) == pytest.approx((0.25, 0.25, 0.25))


def test_never_solved_stays_near_zero():
    (point,) = forecast(np.zeros((100, 64)), [128], "pass", interval=Interval(resamples=200)).points
    assert 0 <= point.low <= point.value <= point.high < 0.05


def test_shifted_and_scaled_rewards_give_shifted_and_scaled_forecasts():
    rng = np.random.default_rng(0)
    rewards = rng.integers(0, 4, (30, 8)) / 3
    plain = forecast(rewards, [16], interval=Interval(resamples=100)).points[0]
    moved = forecast(rewards * 10 - 5, [16], interval=Interval(resamples=100)).points[0]
    assert moved.value == pytest.approx(plain.value * 10 - 5)
    assert moved.low == pytest.approx(plain.low * 10 - 5)


def test_rows_of_different_length_count_by_their_own_n():
    rng = np.random.default_rng(0)
    chance = beta(rng, 300)
    rewards = (rng.random((300, 64)) < chance[:, None]).astype(float)
    ragged = [row[: 32 if i % 2 else 64] for i, row in enumerate(rewards)]
    got = forecast(ragged, [128], "pass", interval=Interval(resamples=200))
    whole = forecast(rewards, [128], "pass", interval=Interval(resamples=200))
    assert got.samples == 32
    assert got.points[0].value == pytest.approx(whole.points[0].value, abs=0.05)


def test_500_problems_take_seconds():
    rng = np.random.default_rng(0)
    rewards = rng.binomial(10, beta(rng, 500)[:, None], (500, 32)) / 10
    ks = [64, 128, 256]
    assert cpu_seconds(lambda: forecast(rewards, ks, interval=Interval(resamples=200))) < 8


@pytest.mark.parametrize("ks", [[], [0]])
def test_ks_must_be_whole_numbers_from_one(ks):
    with pytest.raises(ValueError, match="ks="):
        forecast([[0.0, 1.0]], ks)


def test_rewards_of_many_values_are_cut_into_as_many_equal_steps_as_asked():
    """A step counts as reached from its middle on."""
    block = Block(np.arange(1), np.linspace(2.0, 5.0, 50)[None])
    base, steps, cuts = _levels([block], 6)
    assert base == 2.0
    np.testing.assert_allclose(steps, [0.5] * 6)
    np.testing.assert_allclose(cuts, [2.25, 2.75, 3.25, 3.75, 4.25, 4.75])
