"""Samples of several configurations, against every choice of them and every other order."""

from collections import Counter
from itertools import combinations, product
from math import e, isclose

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.evaluate import (
    Interval,
    allocate,
    allocated,
    cross_validated,
    differences,
    ensemble,
    scores,
)
from maxk.evaluate.allocate import scaled_to

REWARDS = st.sampled_from([-0.5, 0.0, 0.25, 1.0, 1.75])
Rows = list[list[float]]  # of a problem: the rewards of each way


@st.composite
def several(draw, problems: int = 3, most: int = 4) -> list[Rows]:
    """Ways with 1 to `most` samples of each problem, not the same number of each way."""
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=3))
    count = draw(st.integers(1, problems))
    row = {n: st.lists(REWARDS, min_size=n, max_size=n) for n in sizes}
    return [draw(st.lists(row[n], min_size=count, max_size=count)) for n in sizes]


def every_choice(rows: Rows, counts: Counter[int]) -> float:
    """The mean best over all choices of so many samples of each way."""
    drawn = [list(combinations(row, counts[way])) for way, row in enumerate(rows)]
    return float(np.mean([max(sum(chosen, ())) for chosen in product(*drawn)]))


def worth(ways: list[Rows], order: tuple[int, ...]) -> float:
    counts = Counter(order)
    return float(np.mean([every_choice(list(rows), counts) for rows in zip(*ways, strict=True)]))


def orders(ways: list[Rows], k: int) -> list[tuple[int, ...]]:
    """Every number of samples of each way that makes k."""
    pool = [way for way, rows in enumerate(ways) for _ in rows[0]]
    return sorted(set(combinations(pool, k)))


@given(several(), st.data())
def test_it_is_the_mean_over_every_choice_of_samples(ways, data):
    pool = [way for way, rows in enumerate(ways) for _ in rows[0]]
    order = data.draw(st.permutations(pool))[: data.draw(st.integers(1, len(pool)))]
    found = allocated(ways, order, range(1, len(order) + 1))
    expected = [
        [every_choice(list(rows), Counter(order[:k])) for k in range(1, len(order) + 1)]
        for rows in zip(*ways, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["max", "pass"])
def test_one_way_alone_is_what_it_is_by_itself(metric):
    rewards = np.random.default_rng(0).choice([-1.0, 0.0, 0.5, 1.0], (5, 40))
    ks = [1, 2, 7, 40]
    alone = scores(rewards, ks, metric, 0.5)
    np.testing.assert_allclose(allocated([rewards], [0] * 40, ks, metric, 0.5), alone, atol=1e-12)
    other = np.ones_like(rewards)  # there, and not asked
    np.testing.assert_allclose(
        allocated([other, rewards], [1] * 40, ks, metric, 0.5), alone, atol=1e-12
    )


@pytest.mark.parametrize("metric", ["max", "pass"])
def test_an_even_order_is_what_runs_that_share_evenly_have(metric):
    random = np.random.default_rng(1)
    ways = [random.choice([-1.0, 0.0, 0.5, 1.0], (6, n)) for n in (8, 10, 9)]
    ks = [3, 6, 12, 24]
    even = ensemble(ways, ks, metric, 0.5)
    np.testing.assert_allclose(allocated(ways, [0, 1, 2] * 8, ks, metric, 0.5), even, atol=1e-12)


def test_where_all_rewards_are_equal_every_order_has_them():
    ways = [[[-0.5, -0.5]], [[-0.5]]]
    assert allocated(ways, allocate(ways, 3)).tolist() == [[-0.5, -0.5, -0.5]]


@settings(max_examples=50)
@given(several(), st.data())
def test_each_step_is_the_best_one_and_the_first_of_equally_good_ones(ways, data):
    k = data.draw(st.integers(1, sum(len(way[0]) for way in ways)))
    order = tuple(allocate(ways, k))
    assert len(order) == k
    for step, chosen in enumerate(order):
        before = order[:step]
        values = {
            way: worth(ways, (*before, way))
            for way, rows in enumerate(ways)
            if before.count(way) < len(rows[0])
        }
        most = max(values.values())
        assert chosen == min(way for way, value in values.items() if most - value < 1e-9)


@settings(max_examples=50)
@given(several(most=3), st.data())
def test_its_gain_is_at_least_the_guaranteed_part_of_the_most_there_is(ways, data):
    k = data.draw(st.integers(1, sum(len(way[0]) for way in ways)))
    worst = np.mean([min(map(min, rows)) for rows in zip(*ways, strict=True)])
    most = max(worth(ways, order) for order in orders(ways, k))
    assert worth(ways, tuple(allocate(ways, k))) - worst >= (1 - 1 / e) * (most - worst) - 1e-9


def test_the_guarantee_is_of_use_where_the_best_step_is_not_of_the_best_plan():
    """Way 0 is best alone; 1 and 2 together solve everything, so it had better not be asked."""
    ways = [
        [[1.0], [1.0], [0.0], [1.0], [1.0], [0.0]],
        [[1.0], [1.0], [1.0], [0.0], [0.0], [0.0]],
        [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]],
    ]
    assert allocate(ways, 2)[0] == 0
    assert isclose(worth(ways, tuple(allocate(ways, 2))), 5 / 6)
    assert worth(ways, (1, 2)) == 1.0


def test_pass_counts_what_reaches_the_threshold():
    """For the mean best the first way is better, for passing at 0.5 the second, at 1 the first."""
    ways = [[[0.0, 1.0, 0.4, 0.4]], [[0.5, 0.5, 0.0, 0.0]]]
    assert allocate(ways, 1) == [0]
    assert allocate(ways, 1, "pass", 0.5) == [1]
    assert allocate(ways, 1, "pass") == [0]
    np.testing.assert_allclose(allocated(ways, [1, 0], [1, 2], "pass", 0.5), [[0.5, 0.625]])
    np.testing.assert_allclose(allocated(ways, [1, 0], [1, 2], "pass"), [[0.0, 0.25]])


def test_ks_are_powers_of_two_and_all_of_the_plan_unless_they_are_given():
    ways = [np.eye(6)]
    assert allocated(ways, [0] * 6).shape == (6, 4)  # 1, 2, 4 and 6
    np.testing.assert_allclose(allocated(ways, [0] * 6, [2, 1, 2])[0], [2 / 6, 1 / 6, 2 / 6])


def test_beside_one_way_a_plan_has_as_many_samples_as_it():
    ways = [np.arange(24).reshape(3, 8) + 100 * way for way in range(3)]
    parts = scaled_to(ways, [0, 2, 2, 0, 2], n=8)
    assert [len(part[0]) for part in parts] == [4, 1, 5]  # of way 1 none is asked for
    np.testing.assert_array_equal(parts[2][1], [208, 209, 210, 211, 212])


def test_as_many_samples_make_no_difference_of_ways_that_have_none():
    """The signed-rank test on four ways with the chances of the one: 100 sets, fixed seed."""
    random = np.random.default_rng(0)
    order, n, k = [0, 1, 2, 3] * 6, 32, 24
    found = Counter[str]()
    for _ in range(100):
        rate_P1 = random.beta(0.3, 1.5, (150, 1))
        alone, *ways = [(random.random((150, n)) < rate_P1).astype(float) for _ in range(5)]
        alone_PK = scores(alone, [k])
        for name, rows in (("all", ways), ("as many", scaled_to(ways, order, n))):
            (gap,) = differences(
                allocated(rows, order, [k]), alone_PK, interval=Interval(resamples=100)
            )
            found[name] += gap.p < 0.05
    assert found["all"] > 30  # what the parts are for
    assert found["as many"] < 15  # 5 expected, sd 2.2


WAYS = [[[0.0, 1.0]], [[1.0, 0.0]]]


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ([], "configurations is empty"),
        ([[[0.0]], [[0.0], [1.0]]], r"configurations have \[1, 2\] problems"),
        ([[[0.0], [0.0, 1.0]]], r"problems of configurations\[0\] have \[1, 2\] samples"),
        ([[[0.0]], [[float("nan")]]], "must be finite"),
    ],
)
def test_what_cannot_be_is_refused(ways, message):
    with pytest.raises(ValueError, match=message):
        allocate(ways, 1)
    with pytest.raises(ValueError, match=message):
        allocated(ways, [0])


@pytest.mark.parametrize("k", [0, 5, 1.5])
def test_a_plan_has_one_sample_at_least_and_at_most_all_there_are(k):
    with pytest.raises(ValueError, match=f"k={k}"):
        allocate(WAYS, k)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([], "order is empty"),
        ([0, 2], "order has 2; there are configurations 0 to 1"),
        ([-1], "order has -1"),
        (
            [0, 1, 1, 1],
            r"asks configuration 1 for 3 samples of a problem and configurations\[1\] has 2",
        ),
    ],
)
def test_an_order_that_cannot_be_is_refused(order, message):
    with pytest.raises(ValueError, match=message):
        allocated(WAYS, order)


def test_a_k_beyond_the_order_is_refused():
    with pytest.raises(ValueError, match="k=3 is larger than n=2"):
        allocated(WAYS, [0, 1], [3])


def test_another_metric_is_refused():
    for call in (lambda: allocate(WAYS, 1, "mean"), lambda: allocated(WAYS, [0], None, "mean")):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="metric='mean' is unknown"):
            call()


@given(several(problems=6), st.data())
def test_elsewhere_each_problem_has_the_plan_of_the_other_folds(ways, data):
    count, most = len(ways[0]), sum(len(rows[0]) for rows in ways)
    if count < 2:
        with pytest.raises(ValueError, match="folds=5 must be between 2 and the number of"):
            cross_validated(ways, 1)
        return
    k, folds = data.draw(st.integers(1, most)), data.draw(st.integers(2, count))
    found = cross_validated(ways, k, [k], folds=folds)[:, 0]
    for i, value in enumerate(found):
        kept = [j for j in range(count) if j % folds != i % folds]
        order = allocate([[rows[j] for j in kept] for rows in ways], k)
        rows = [each[i] for each in ways]
        assert isclose(value, every_choice(rows, Counter(order)), abs_tol=1e-12)


def test_elsewhere_is_not_flattered_by_ways_that_do_not_differ():
    """Of many equal ways the plan of these problems takes those that were lucky here."""
    random, gaps = np.random.default_rng(3), []
    for _ in range(20):
        chance = random.uniform(0, 0.6, (60, 1))
        ways = [(random.random((60, 4)) < chance).astype(float) for _ in range(30)]
        true = (1 - (1 - chance) ** 8).mean()
        found = (allocated(ways, allocate(ways, 8), [8]), cross_validated(ways, 8, [8]))
        gaps.append([each.mean() - true for each in found])
    (fitted, others), errors = np.mean(gaps, axis=0), np.std(gaps, axis=0) / 20**0.5
    assert fitted > 5 * errors[0]
    assert abs(others) < 2 * errors[1]


def test_elsewhere_knows_the_metric_and_the_threshold():
    ways = [[[0.5], [0.5], [0.5]], [[0.4], [1.0], [0.4]]]
    assert cross_validated(ways, 1, metric="pass", folds=3).tolist() == [[0.0], [0.0], [0.0]]
    half = cross_validated(ways, 1, metric="pass", threshold=0.5, folds=3)
    assert half.tolist() == [[1.0], [1.0], [1.0]]
    with pytest.raises(ValueError, match=r"configurations have \[2, 3\] problems"):
        cross_validated([ways[0], ways[1][:2]], 1)
    with pytest.raises(ValueError, match="k=3 is larger than n=2"):
        cross_validated(ways, 2, [3], folds=2)
