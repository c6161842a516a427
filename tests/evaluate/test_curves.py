"""Curves: the metrics per problem, intervals over problems, and how rows may be given."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from maxk.evaluate import curve, curves_by_group, scores
from maxk.evaluate.bootstrap import Interval, mean_interval, resampled_means
from tests.brute import subset_max

ROWS = st.lists(
    st.lists(st.integers(0, 10).map(lambda x: x / 10), min_size=3, max_size=8),
    min_size=1,
    max_size=5,
)


def human_eval(n: int, c: int, k: int) -> float:
    """pass@k as published with HumanEval (Chen et al. 2021, figure 3)."""
    if n - c < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def test_pass_at_k_is_the_estimator_published_with_human_eval():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 300))
        c, k = int(rng.integers(0, n + 1)), int(rng.integers(1, n + 1))
        row = rng.permutation(np.arange(n) < c).astype(float)
        assert scores([row], [k], "pass")[0, 0] == pytest.approx(human_eval(n, c, k), abs=1e-12)


@given(ROWS, st.integers(1, 3))
def test_scores_of_ragged_rows_are_means_over_subsets(rows, k):
    expected = [subset_max(row, [1.0] * len(row), k).value for row in rows]
    assert scores(rows, [k])[:, 0] == pytest.approx(expected, abs=1e-12)


@given(ROWS)
def test_points_are_means_within_their_intervals_and_never_fall_with_k(rows):
    got = curve(rows, interval=Interval(resamples=200))
    assert got.problems == len(rows)
    assert got.samples == min(map(len, rows))
    values = [point.value for point in got.points]
    assert values == pytest.approx(scores(rows, [p.k for p in got.points]).mean(0))
    assert all(b >= a - 1e-12 for a, b in pairwise(values))
    for point in got.points:
        assert point.low - 1e-12 <= point.value <= point.high + 1e-12
    spread = sum(float(np.var(row, ddof=1)) / len(row) for row in rows)
    assert got.at(1).sampling_error == pytest.approx(spread**0.5 / len(rows), abs=1e-12)


def test_the_error_that_samples_leave_is_that_of_what_the_metric_counts():
    """Passes at k = 1: s^2 / n = p (1 - p) / (n - 1) each. At k = n: who has one pass in all."""
    rows = [[0.5, 0.25, 0.75, 0.0], [0.5, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0]]
    got = curve(rows, "pass", threshold=0.5)
    assert got.at(1).sampling_error == pytest.approx((0.25 / 3 + 0.1875 / 3) ** 0.5 / 3)
    assert got.at(4).sampling_error == pytest.approx(1 / 3)
    assert curve(rows).at(4).sampling_error == pytest.approx((0.25**2 + 0.25**2) ** 0.5 / 3)


def test_default_ks_are_the_powers_of_two_and_n():
    assert [p.k for p in curve(np.zeros((2, 12))).points] == [1, 2, 4, 8, 12]
    assert [p.k for p in curve(np.zeros((2, 8))).points] == [1, 2, 4, 8]
    assert [p.k for p in curve([[1.0]]).points] == [1]


def test_equal_problems_leave_no_interval():
    point = curve(np.full((7, 4), 0.1)).points[0]
    assert (point.low, point.high, point.sampling_error) == pytest.approx((0.1, 0.1, 0.0))


def test_the_same_seed_gives_the_same_interval():
    rewards = np.random.default_rng(0).random((20, 8))
    assert curve(rewards, interval=Interval(seed=3)) == curve(rewards, interval=Interval(seed=3))
    assert curve(rewards, interval=Interval(seed=3)) != curve(rewards, interval=Interval(seed=4))


def test_threshold_moves_what_passes():
    assert curve([[0.5, 0.0]], "pass", threshold=0.5).at(2).value == 1.0
    assert curve([[0.5, 0.0]], "pass").at(2).value == 0.0


def test_resampled_means_do_not_depend_on_chunks(monkeypatch):
    values = np.random.default_rng(0).random((11, 2))
    whole = resampled_means(values, 101, seed=5)
    monkeypatch.setattr("maxk.evaluate.bootstrap.CHUNK", 44)
    # The same stream of draws, cut elsewhere.
    assert resampled_means(values, 101, seed=5) == pytest.approx(whole)


def lopsided() -> np.ndarray:
    """120 problems, most of them never solved: the interval is far from symmetric."""
    random = np.random.default_rng(3)
    return np.where(random.random(120) < 0.08, random.random(120), 0.0)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_are_the_bca_intervals_of_scipy(confidence):
    """Both draw at random, which moves the upper end, far out in its tail, by a twelfth of a
    standard error; percentiles without the corrections are a fifth and more below. Fixed seeds."""
    values = lopsided()
    error = values.std(ddof=1) / len(values) ** 0.5
    ends = np.ravel(mean_interval(values[:, None], Interval(confidence, 20_000, 1)))
    known = bootstrap(
        (values,), np.mean, confidence_level=confidence, n_resamples=20_000, rng=2
    ).confidence_interval
    tails = [0.5 - confidence / 2, 0.5 + confidence / 2]
    plain = np.quantile(resampled_means(values[:, None], 20_000, seed=1), tails)
    assert (np.abs(ends - [known.low, known.high]) < [0.06 * error, 0.12 * error]).all()
    assert (ends - plain > [0.15 * error, 0.3 * error]).all()


def test_an_interval_of_symmetric_values_is_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(size=4000)
    low, high = mean_interval(values[:, None], Interval(resamples=4000))
    assert high[0] - low[0] == pytest.approx(2 * 1.96 * values.std() / 4000**0.5, rel=0.05)
    assert (low[0] + high[0]) / 2 == pytest.approx(values.mean(), abs=0.1 * (high[0] - low[0]))


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_intervals_cover_the_truth_about_as_often_as_they_say(share):
    """150 benchmarks of 300 problems, a share of them solvable: 95 % within 5 sigma (1.8 % each)
    and 1 % more, as BCa is right only to second order. Fixed seed."""
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(150):
        solvable = rng.random(300) < share
        values = np.where(solvable, rng.random(300), 0.0)
        low, high = mean_interval(values[:, None], Interval(resamples=1000, seed=seed))
        hits += bool(low[0] <= share / 2 <= high[0])
    assert 0.95 - 0.1 < hits / 150 < 1


def test_groups_are_curves_of_their_own_problems():
    rewards = np.random.default_rng(0).random((6, 4))
    labels = ["easy", "hard", "easy", "hard", "hard", "easy"]
    got = curves_by_group(rewards, labels, interval=Interval(seed=2))
    assert list(got) == ["easy", "hard"]
    assert got["hard"] == curve(rewards[[1, 3, 4]], interval=Interval(seed=2))


def test_500_problems_of_256_samples_take_under_two_seconds_and_500_mb():
    code = """
import re, time
import numpy as np
from maxk.evaluate import curve
rng = np.random.default_rng(0)
rewards = rng.binomial(10, rng.beta(0.3, 1, 500)[:, None], (500, 256)) / 10
start = time.process_time()
assert len(curve(rewards).points) == 9
# Not getrusage: its figure includes what the parent had before exec.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(time.process_time() - start, peak / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 2  # 0.2 when nothing else runs
    assert megabytes < 500  # 110, half of it numpy and scipy


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([[0.0, 1.0], [1.0]], {"ks": [2]}, "k=2 is larger than n=1"),
        ([[0.0, 1.0]], {"ks": []}, r"ks=\[\] asks for nothing"),
        ([[0.0, 1.0]], {"ks": [0]}, "k=0 is below 1"),
        ([], {}, "rewards is empty"),
        ([[0.0], []], {}, r"rewards\[1\] has shape \(0,\)"),
        ([[0.0], [float("nan")]], {}, r"rewards\[1\] holds nan"),
        ([[0.0]], {"metric": "best"}, "metric='best' is unknown"),
    ],
)
def test_bad_arguments_name_themselves_and_the_fix(rewards, options, message):
    with pytest.raises(ValueError, match=message):
        curve(rewards, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 95}, "confidence=95 must lie between"),
        ({"resamples": 5}, "resamples=5 is too few"),
    ],
)
def test_an_interval_refuses_what_is_none(options, message):
    with pytest.raises(ValueError, match=message):
        Interval(**options)


def test_labels_must_match_problems():
    with pytest.raises(ValueError, match="groups has 1 labels and rewards 2 problems"):
        curves_by_group([[0.0], [1.0]], ["easy"])


def test_a_missing_k_is_a_key_error():
    with pytest.raises(KeyError, match="no point at k=3"):
        curve([[0.0, 1.0]]).at(3)
