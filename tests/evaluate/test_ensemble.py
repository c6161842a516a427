"""k samples shared by several models, against every way to draw them."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.evaluate import ensemble, scores

REWARDS = st.sampled_from([-0.5, 0.0, 0.25, 1.0, 1.75])


def every_way(rows: list[list[float]], k: int) -> float:
    """The mean best of k over all choices of runs that give one more, and of their samples."""
    each, over = divmod(k, len(rows))
    means = []
    for more in combinations(range(len(rows)), over):
        drawn = [
            list(combinations(row, each + (i in more))) for i, row in enumerate(rows)
        ]  # by run, all that it may give
        means.append(np.mean([max(sum(chosen, ())) for chosen in product(*drawn)]))
    return float(np.mean(means))


@given(st.lists(st.lists(REWARDS, min_size=2, max_size=4), min_size=1, max_size=3), st.data())
def test_it_is_the_mean_over_every_way_to_draw(rows, data):
    k = data.draw(st.integers(1, len(rows) * min(map(len, rows))))
    found = ensemble([[row] for row in rows], [k])
    np.testing.assert_allclose(found, [[every_way(rows, k)]], atol=1e-12)


def test_one_run_alone_is_what_it_is_by_itself():
    rng = np.random.default_rng(0)
    rewards = rng.choice([0.0, 0.5, 1.0], (5, 40))
    ks = [1, 2, 7, 40]
    for metric in ("max", "pass"):
        alone = scores(rewards, ks, metric, 0.5)
        np.testing.assert_allclose(ensemble([rewards], ks, metric, 0.5), alone, atol=1e-12)


def test_it_has_no_bias_and_is_not_below_the_mean_of_the_runs():
    """Rewards that the models give with known chances: 1 with p, else 0."""
    chances = np.array([0.02, 0.1, 0.4])
    rng = np.random.default_rng(1)
    n, problems, ks = 8, 15_000, [1, 2, 3, 8, 16]
    runs = [(rng.random((problems, n)) < p).astype(float) for p in chances]
    found = ensemble(runs, ks, "pass").mean(axis=0)
    expected = []
    for k in ks:
        each, over = divmod(k, 3)
        fails = [
            np.prod([(1 - p) ** (each + (i in more)) for i, p in enumerate(chances)])
            for more in combinations(range(3), over)
        ]
        expected.append(1 - np.mean(fails))
    np.testing.assert_allclose(found, expected, atol=0.01)  # 3 standard errors and more
    alone = [float(np.mean(1 - (1 - chances) ** k)) for k in ks]
    assert found[0] == pytest.approx(alone[0], abs=0.01)
    assert all(shared > mean + 0.02 for shared, mean in zip(found[1:], alone[1:], strict=True))


def test_runs_may_have_other_numbers_of_samples():
    runs = [[[0.0, 1.0, 0.0]], [[0.0, 0.5, 0.5, 0.0]]]
    assert ensemble(runs, [6]).shape == (1, 1)
    with pytest.raises(ValueError, match="k=7"):
        ensemble(runs, [7])


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "runs is empty"),
        ([[[0.0]], [[0.0], [1.0]]], r"runs have \[1, 2\] problems"),
        ([[[0.0]], [[float("nan")]]], "must be finite"),
    ],
)
def test_what_cannot_be_is_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        ensemble(runs, [1])


def test_another_metric_is_refused():
    with pytest.raises(ValueError, match="metric='mean' is unknown"):
        ensemble([[[0.0]]], [1], "mean")  # type: ignore[arg-type]
