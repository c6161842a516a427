"""Numbers and sentences, against what is counted out by hand."""

import shutil
from itertools import combinations
from math import comb

import numpy as np
import pytest

from maxk.evaluate import compare_runs, replicates, scores
from maxk.report import Findings, gather
from maxk.report.changes import Crossing, crossing
from maxk.report.progress import training_parts
from tests.report.runs import sampled, trained

BEFORE = {f"p{i}": [4 * (j == i % 8) for j in range(8)] for i in range(12)}  # one of eight passes
AFTER = {f"p{i}": [4 if i < 6 else 0] * 8 for i in range(12)}  # half of them always, half never


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Findings:
    folder = tmp_path_factory.mktemp("findings")
    return Findings(gather([sampled(folder / "a", BEFORE), sampled(folder / "b", AFTER)]))


def test_changes_are_after_minus_before_at_every_k(found):
    (effect,) = found.effects
    assert [change.k for change in effect.changes] == [1, 2, 4, 8]
    for change in effect.changes:
        assert change.base == pytest.approx(change.k / 8)  # the one that passes is among the k
        assert change.other == pytest.approx(0.5)
        assert change.value == pytest.approx(0.5 - change.k / 8)
        assert change.low <= change.value <= change.high


def test_the_headline_says_gain_loss_and_crossing(found):
    (text,) = found.headline
    assert text.startswith("Against a, b raises max@1 by 0.375 (95 % interval ")
    assert "from 0.125 to 0.500, on 12 problems. " in text
    assert "With the best of 8 samples it loses 0.500 (" in text
    assert "max@8 going from 1.000 to 0.500; the curves cross at k = 4, and from k = " in text
    assert " on a is the one to sample from (95 % band of all k together)" in text
    assert text.endswith("; one run each says nothing about another run of the same method.")
    assert text.count(". ") == 1


def test_several_runs_of_a_name_are_one_method_and_the_headline_counts_them(tmp_path):
    rng = np.random.default_rng(0)

    def rows(chance: float) -> dict[str, list[int]]:
        return {f"p{i}": [4 * bool(x) for x in rng.random(8) < chance] for i in range(12)}

    given = [f"a={sampled(tmp_path / f'a{i}', rows(0.2))}" for i in range(2)]
    given += [f"b={sampled(tmp_path / f'b{i}', rows(0.8))}" for i in range(3)]
    found = Findings(gather(given))
    (text,) = found.headline
    assert text.startswith("Against a, b raises max@1 by ")
    assert text.endswith("intervals cover other runs (2 of a, 3 of b), problems and samples.")
    (one,) = Findings(gather(given[1:])).headline
    assert one.endswith("one run of a says nothing about another run of it.")
    (base,) = Findings(gather(given[1:]), untrained=True).headline
    assert base.endswith("intervals cover other runs (3 of b), problems and samples.")
    assert set(found.over_runs) == {"a", "b"}
    means = [run.max.at(1).value for name, run in found.evaluations.items() if name[0] == "b"]
    assert len(means) == 3
    assert found.over_runs["b"]["max"].at(1).value == pytest.approx(np.mean(means))
    assert len(found.moves("b")) == 12


def crossing_of(before: list[np.ndarray], after: list[np.ndarray]) -> Crossing | None:
    ks = list(range(1, len(before[0]) + 1))
    return crossing(compare_runs(replicates([after], ks), replicates([before], ks), ks))


def test_the_crossing_is_where_the_curves_are_equal():
    before = [np.array([1.0] + [0.0] * 15)] * 40  # max@k = k / 16
    after = [np.array([1.0] * 16)] * 16 + [np.zeros(16)] * 24  # max@k = 0.4
    found = crossing_of(before, after)
    assert found is not None
    assert found.k == pytest.approx(0.4 * 16, rel=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.k < found.high


# Two of 16 pass for 9 of 10 problems: max@k = 0.9 (31 k - k^2) / 240.
TWO = {f"p{i}": [4, 4] + [0] * 14 if i else [0] * 16 for i in range(10)}
# All pass for 4 of 10, one of 16 for the others: max@k = 0.4 + 0.6 k / 16. That is ahead up to
# k = 8.6, behind up to k = 12.4 and then ahead again: the roots of 0.4 - 0.07875 k + 0.00375 k^2.
MIXED = {f"p{i}": [4] * 16 if i < 4 else [4] + [0] * 15 for i in range(10)}


def test_curves_may_cross_twice():
    before, after = ([np.array(row) / 4 for row in rows.values()] for rows in (TWO, MIXED))
    found = crossing_of(before, after)
    assert found is not None
    assert found.k == pytest.approx(12.393, rel=0.01)
    assert found.back
    once = crossing_of(before, [np.ones(16)] * 4 + [np.zeros(16)] * 6)
    assert once is not None
    assert not once.back


def test_a_second_crossing_is_said(tmp_path):
    runs = [sampled(tmp_path / "a", TWO), sampled(tmp_path / "b", MIXED)]
    (text,) = Findings(gather(runs)).headline
    assert "the curves cross and cross back, the last time at k = 12" in text


def test_curves_that_only_touch_do_not_cross():
    same = [np.array([0.0, 1.0, 0.5, 0.0])] * 5
    assert crossing_of(same, same) is None


def test_no_clear_difference_is_not_called_one(tmp_path):
    a = {f"p{i}": [4, 0, 0, 0] for i in range(10)}
    b = {f"p{i}": [4, 4, 0, 0] if i % 2 else [0, 0, 0, 4] for i in range(10)} | {"p1": [0] * 4}
    (text,) = Findings(gather([sampled(tmp_path / "a", a), sampled(tmp_path / "b", b)])).headline
    assert "b leaves max@1 about unchanged, from 0.250 to 0.325" in text
    assert "no clear difference is left: max@4 goes from 1.000 to 0.900" in text


def test_moves_are_counted_and_chance_is_fishers(found):
    moves = found.moves("b")
    assert [m.move for m in moves] == ["solved"] * 6 + ["lost"] * 6
    # 1 of 8 before, 0 of 8 after: were the success to fall on any of the 16, half the time.
    assert moves[-1].chance == pytest.approx(0.5)
    # 1 of 8 before, 8 of 8 after: P(at most 1 of 9 successes among the first 8), counted out.
    total = comb(16, 9)
    few = sum(1 for chosen in combinations(range(16), 9) if sum(i < 8 for i in chosen) <= 1)
    assert moves[0].chance == pytest.approx(few / total)


def test_one_run_is_described_by_itself(tmp_path):
    (text,) = Findings(gather([sampled(tmp_path / "only", BEFORE)])).headline
    assert text.startswith("only has max@1 = 0.125 (95 % interval 0.125 to 0.125) on 12 problems.")
    assert "The best of 8 samples reaches 1.000" in text
    assert "100% of the problems are solved at least once" in text


def test_training_is_told_by_its_first_and_last_steps(tmp_path):
    data = gather([trained(tmp_path / "t", steps=6)])
    parts = training_parts(data.runs[0])
    assert parts is not None
    first, last = parts
    # runs.py: at step s, samples 0 ... s // 2 pass all tests; the others pass 0 or 1 of 4.
    start = [[1, 0, 0, 0], [1, 0.25, 0.25, 0.25]]
    end = [[1, 1, 1, 0], [1, 1, 1, 0.25]]
    assert first.one[0] == pytest.approx(np.mean(start))
    assert last.one[0] == pytest.approx(np.mean(end))
    assert last.best[0] == pytest.approx(scores(end, [4]).mean())
    (text,) = Findings(data).headline
    assert "from 0.344 (" in text
    assert "in step 0 to 0.781 (" in text


def test_training_without_rollouts_is_told_by_its_metrics(tmp_path):
    folder = trained(tmp_path / "t", steps=6)
    shutil.rmtree(folder / "rollouts")
    (text,) = Findings(gather([folder])).headline
    assert "went from 0.344 in step 1 to 0.781 in step 6. Its completions were not stored" in text


def test_runs_that_were_sampled_otherwise_are_not_compared(tmp_path):
    hot = sampled(tmp_path / "hot", BEFORE, temperature=1.5)
    with pytest.raises(ValueError, match=r"settings.temperature: 1.0 there, 1.5 asked"):
        gather([sampled(tmp_path / "cold", BEFORE), hot])


def test_two_runs_of_one_name_are_refused_and_can_be_named(tmp_path):
    one, two = sampled(tmp_path / "x" / "run", BEFORE), sampled(tmp_path / "y" / "run", BEFORE)
    with pytest.raises(ValueError, match="two runs are called 'run'; name them: NAME=FOLDER"):
        gather([one, two])
    assert [run.name for run in gather([f"before={one}", two]).runs] == ["before", "run"]
