"""`evaluate` and `compare`: the two functions that put the rest together."""

import subprocess
import sys

import numpy as np
import pytest

from maxk.evaluate import Interval, compare, curve, ensemble, evaluate, scores, wilcoxon


def rewards(seed: int = 0, problems: int = 12, n: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(4, rng.random((problems, 1)), (problems, n)) / 4


def test_an_evaluation_is_both_curves_and_coverage():
    r = rewards()
    got = evaluate(r, interval=Interval(seed=1))
    assert got.max == curve(r, "max", interval=Interval(seed=1))
    assert got.passed == curve(r, "pass", interval=Interval(seed=1))
    assert got.coverage == (r == 1).any(1).mean() == got.passed.at(8).value
    assert got.max_by_group == {}


def test_groups_give_curves_by_label():
    r = rewards()
    got = evaluate(r, groups=["easy"] * 5 + ["hard"] * 7, ks=[1, 4])
    assert got.passed_by_group["hard"] == curve(r[5:], "pass", [1, 4])
    assert got.max_by_group["easy"].problems == 5


def test_coverage_uses_all_samples_of_ragged_rows():
    assert evaluate([[0.0], [0.0, 0.0, 1.0]]).coverage == 0.5


def runs() -> dict:
    names = [f"p{i}" for i in range(40)]
    base = rewards(1, 40)
    better = np.minimum(base + 0.25, 1.0)
    return {
        "base": dict(zip(names, base, strict=True)),
        # Another order of the problems and further samples change nothing of what is paired.
        "better": dict(zip(names[::-1], np.tile(better, 2)[::-1], strict=True)),
        "same": dict(zip(names, base, strict=True)),
    }


def test_problems_are_paired_by_id_not_by_place():
    got = compare(runs(), ks=[1])
    by_names = {(pair.first, pair.second): pair for pair in got.pairs}
    gap = by_names["base", "better"].difference
    expected = scores(list(runs()["base"].values()), [1]) - scores(
        list(runs()["better"].values())[::-1], [1]
    )
    assert gap.value == pytest.approx(expected.mean())
    assert gap.low <= gap.value <= gap.high < 0
    assert by_names["base", "same"].difference.p == 1.0


def test_the_table_ranks_the_runs_and_gives_single_runs_no_star():
    table = compare(runs(), ks=[1, 2]).table
    assert table.columns == ("max@1", "max@2")
    better = table.cells[table.rows.index("better")][0]
    assert better.bold
    assert not better.star


def test_the_correction_covers_all_pairs_and_ks():
    got = compare(runs(), ks=[1, 2])
    assert len(got.pairs) == 6
    plain = compare(runs(), ks=[1, 2], correction="none")
    for pair, raw in zip(got.pairs, plain.pairs, strict=True):
        assert raw.p_adjusted == raw.difference.p
        assert raw.p_adjusted <= pair.p_adjusted <= min(1.0, 6 * raw.difference.p)


def test_against_one_run_makes_fewer_comparisons():
    got = compare(runs(), ks=[1], against="base")
    assert {(pair.first, pair.second) for pair in got.pairs} == {
        ("base", "better"),
        ("base", "same"),
    }


def test_default_ks_go_up_to_the_smallest_n():
    assert compare(runs()).ks == (1, 2, 4, 8)


def test_runs_of_one_model_do_not_differ_because_of_their_numbers_of_samples():
    """100 benchmarks of 120 problems, n = 16 against 48, k = 16: alarms at 5 % stay below 5 % + 4
    sigma (2.2 %). Taken from all samples there is one nearly every time. Fixed seed."""
    rng = np.random.default_rng(0)
    alarms = wrong = 0
    for _ in range(100):
        chance = rng.beta(0.5, 2.0, 120)
        few, many = (
            {f"p{i}": row for i, row in enumerate(rng.random((120, n)) < chance[:, None])}
            for n in (16, 48)
        )
        got = compare({"few": few, "many": many}, ks=[16], interval=Interval(resamples=100)).pairs[
            0
        ]
        alarms += got.difference.p < 0.05
        rows = (scores(list(each.values()), [16])[:, 0] for each in (few, many))
        wrong += wilcoxon(*rows) < 0.05
    assert alarms < 5 + 4 * 2.2
    assert wrong > 80


def test_as_many_samples_of_every_problem_are_compared():
    few = {"p": [0.0, 1.0], "q": [1.0, 1.0, 0.0]}
    many = {"q": [0.0, 0.5, 0.0, 1.0], "p": [0.5, 0.0, 1.0]}
    got = compare({"few": few, "many": many}, ks=[1])
    gap = (0.5 - 0.25 + 2 / 3 - 0.5 / 3) / 2
    assert got.pairs[0].difference.value == pytest.approx(gap)
    assert [cells[0].value for cells in got.table.cells] == pytest.approx([7 / 12, 5 / 24])


def test_samples_that_runs_share_are_compared_as_a_run_of_their_own():
    """One solves p by every third sample, q never; the other q always."""
    one = {"p": [1.0, 0.0, 0.0, 0.0], "q": [0.0] * 4}
    other = {"q": [1.0] * 6, "p": [0.0] * 6}  # of which four are compared
    got = compare({"one": one, "other": other}, ks=[1, 2, 4], ensemble=True)
    values = [[cell.value for cell in cells] for cells in got.table.cells]
    # Two samples of each: with k = 2 one of each, so p is solved by 1 of 2, q always.
    assert values == [
        pytest.approx([1 / 8, 1 / 4, 1 / 2]),
        pytest.approx([1 / 2, 1 / 2, 1 / 2]),
        pytest.approx([(1 / 4 + 1 / 2) / 2, (1 / 2 + 1) / 2, 1.0]),
    ]
    assert got.table.rows == ("one", "other", "ensemble")
    assert {(pair.first, pair.second) for pair in got.pairs} == {
        ("one", "other"),
        ("one", "ensemble"),
        ("other", "ensemble"),
    }
    only = compare({"one": one, "other": other}, against="ensemble", ensemble=True)
    assert all(pair.second == "ensemble" for pair in only.pairs)
    with pytest.raises(ValueError, match="a run is called 'ensemble'"):
        compare({"one": one, "ensemble": other}, ensemble=True)
    with pytest.raises(ValueError, match="against='ensemble' is not among the runs"):
        compare({"one": one, "other": other}, against="ensemble")


def test_what_two_runs_of_one_model_share_is_not_said_to_differ():
    """100 benchmarks of 120 problems, n = k = 16: alarms at 5 % stay below 5 % + 4 sigma (2.2 %).
    With all samples of both it is an alarm nearly every time at k = n. Fixed seed."""
    rng = np.random.default_rng(1)
    alarms = wrong = 0
    for _ in range(100):
        chance = rng.beta(0.5, 2.0, 120)
        one, two = (
            {f"p{i}": row for i, row in enumerate((rng.random((120, 16)) < chance[:, None]) * 1.0)}
            for _ in range(2)
        )
        got = compare(
            {"one": one, "two": two},
            [16],
            against="ensemble",
            interval=Interval(resamples=100),
            ensemble=True,
        )
        alarms += got.pairs[0].difference.p < 0.05
        rows = [list(each.values()) for each in (one, two)]
        wrong += wilcoxon(ensemble(rows, [16])[:, 0], scores(rows[0], [16])[:, 0]) < 0.05
    assert alarms < 100 * (0.05 + 4 * 0.022)
    assert wrong > 80


def test_runs_on_different_problems_are_refused_with_the_difference():
    broken = runs()
    for i in range(5):
        del broken["better"][f"p{i}"]
    broken["better"]["extra"] = [0.0] * 8
    message = (
        r"'base' and 'better' are not on the same problems: only 'base' has 5 \(p0, p1, p2, ...\); "
        r"only 'better' has 1 \(extra\)"
    )
    with pytest.raises(ValueError, match=message):
        compare(broken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": "bse"}, "against='bse' is not among the runs"),
        ({"ks": [9]}, "k=9 is larger than n=8"),
        ({"metric": "mean"}, "metric='mean' is unknown"),
    ],
)
def test_bad_arguments_name_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        compare(runs(), **options)


def test_one_run_is_no_comparison():
    with pytest.raises(ValueError, match="a comparison needs two or more"):
        compare({"base": {"p": [0.0]}})


def test_importing_needs_neither_torch_nor_scipy_stats():
    code = "import sys, maxk.evaluate; print('torch' in sys.modules, 'scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False False", done.stderr
