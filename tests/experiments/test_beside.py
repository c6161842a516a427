"""Trainings that share samples beside as many of the last comparison's."""

import numpy as np
import pytest

from experiments.grid import beside
from experiments.grid.data import Data
from experiments.grid.results import collect
from experiments.grid.tables import blocks
from tests.experiments.test_results import ABOUT, write_set
from tests.experiments.test_ways import ALL, NONE, lines, write_arms

N = 8
SOLVES, FAILS = ALL[:N], NONE[:N]


@pytest.fixture
def data(tmp_path, monkeypatch) -> Data:
    """Six problems. Each of three trainings solves another two, their mean all; both of off-policy
    the first two; GRPO, which has one, none."""
    monkeypatch.setattr(beside, "SAMPLED", ("mbpp",))
    out = tmp_path / "out"
    final = {
        ("leetcode-off-policy", 1): [ALL] * 2 + [NONE] * 4,
        ("leetcode-off-policy", 2): [ALL] * 2 + [NONE] * 4,
        ("leetcode-grpo", 1): [NONE] * 6,
    }
    for (cell, seed), rewards in final.items():
        folder = tmp_path / "work" / f"{cell}-final-s{seed}"
        write_set(folder, "mbpp", np.array(rewards))
        collect(folder, out, {**ABOUT, "cell": cell, "seed": seed, "tag": "-final"}, ["mbpp"])
    for i in range(3):
        rewards = [FAILS] * (2 * i) + [SOLVES] * 2 + [FAILS] * (4 - 2 * i)
        cell = f"leetcode-off-policy-exact-s{11 + i}"
        write_arms(out / "several-runs", cell, {("test", "plain"): rewards})
    mean = "leetcode-off-policy-exact-of-3-s11"
    write_arms(out / "several-runs", mean, {("test", "plain"): [SOLVES] * 6})
    # A training from before, in another folder, which solves nothing.
    write_arms(
        *(out / "configurations", "leetcode-off-policy-exact-s9"), {("alone", "plain"): [FAILS] * 6}
    )
    return Data(out)


def test_each_training_is_there_and_so_many_that_share(data):
    found = lines(blocks()["trainings-beside"](data))
    head = "mbpp: off-policy-exact"
    third = "0.333"
    assert found[f"{head}, seed 12"] == [third] * 4
    assert found[f"{head}, one"] == [third] * 4
    assert found[f"{head}, two share"] == [third] + ["0.667"] * 4
    # Of four samples one training gives two.
    assert found[f"{head}, three share"] == [third, "0.667"] + ["1.000"] * 3
    assert not [row for row in found if "of-3" in row]


def test_they_are_beside_as_many_of_other_methods_if_there_are(data):
    table = blocks()["trainings-beside"](data).splitlines()
    rows = [line.strip("| ").split(" | ") for line in table]
    heads = [row[0] for row in rows]
    start = heads.index("mbpp: off-policy-exact, one")
    assert [head.removeprefix("mbpp: off-policy-exact, ") for head in heads[start : start + 9]] == [
        *("one", "... over one of grpo", "... over one of off-policy"),
        *("two share", "... over two share of off-policy"),
        "three share",
        *("one of all 4 there are", "... over one of grpo", "... over one of off-policy"),
    ]
    two = rows[heads.index("... over two share of off-policy")]
    assert [float(cell.split()[0]) for cell in two[1:3]] == [0.0, 0.333]


def test_a_mean_over_all_trainings_counts_those_from_before(data):
    found = lines(blocks()["trainings-beside"](data))
    assert found["mbpp: off-policy-exact, one of all 4 there are"][:4] == ["0.250"] * 4


def test_without_trainings_there_is_no_table(tmp_path):
    assert blocks()["trainings-beside"](Data(tmp_path)) == ""
