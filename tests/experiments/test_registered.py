"""The analysis of the registered experiments."""

import numpy as np
import pytest
from scipy import stats

from experiments.grid.data import Data
from experiments.grid.plan import cell_names, made_of
from experiments.registered import analysis


def test_the_cells_of_the_arms_are_there():
    for experiment in (analysis.E1, analysis.E2):
        for cell in experiment.arms.values():
            name = cell.rpartition("-e")[0]
            assert {name, made_of(name)[0]} & set(cell_names()), cell
        assert {q.arm for q in experiment.questions} <= set(experiment.arms)
        assert {q.other for q in experiment.questions} <= set(experiment.arms)


def test_a_gap_is_that_of_a_table_in_a_book():
    """Snedecor and Cochran's example of two diets: gains in weight of rats."""
    high = np.array([134, 146, 104, 119, 124, 161, 107, 83, 113, 129, 97, 123.0])
    low = np.array([70, 118, 101, 85, 107, 132, 94.0])
    found = analysis.welch(high, low)
    assert found.value == pytest.approx(19.0)
    # By hand: se^2 = 457.45 / 12 + 425.33 / 7, with 13.08 degrees of freedom.
    se = (457.4545 / 12 + 425.3333 / 7) ** 0.5
    t = stats.t.ppf(0.975, 13.08)
    assert (found.low, found.high) == pytest.approx((19 - t * se, 19 + t * se), rel=1e-3)


def test_power_is_how_often_a_test_finds_the_difference():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.03, 0.01, (20_000, 4)), rng.normal(0, 0.01, (20_000, 4))
    p = stats.ttest_ind(ours, theirs, axis=1).pvalue
    assert analysis.power(0.03, 0.01, 4, 0.05) == pytest.approx((p < 0.05).mean(), abs=0.01)


def test_runs_are_pooled_over_all_problems_of_the_sets():
    data = Data()
    runs = analysis.by_run(data, "leetcode-grpo-final")
    assert runs.shape == (5, 4)  # three more were measured on one set alone
    sizes = [499, 164, 100]
    alone = [analysis.by_run(data, "leetcode-grpo-final", (name,))[0] for name in analysis.SETS]
    assert runs[0] == pytest.approx(np.average(alone, axis=0, weights=sizes))


def test_arms_with_fewer_than_three_runs_answer_nothing(monkeypatch):
    cells = {"GRPO": "leetcode-grpo-final", "few": "leetcode-off-policy-final"}
    questions = (analysis.Question("few", "GRPO", 128),)
    found = analysis.answers(Data(), analysis.Experiment("", cells, 4, questions))
    assert "fewer than 3 runs a side" in found
