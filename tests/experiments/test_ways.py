"""Tables of plans of several ways to sample."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.grid import ways
from experiments.grid.arms_results import ROWS
from experiments.grid.data import Data
from experiments.grid.results import collect
from experiments.grid.tables import blocks
from tests.experiments.test_results import ABOUT, write_set

N = 128
ALL, NONE = [1.0] * N, [0.0] * N


def write_arms(folder: Path, cell: str, rewards: dict[tuple[str, str], Any], **about: Any) -> None:
    """Of a cell: rewards of the problems of mbpp by phase and way."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [
        {
            "phase": phase,
            "way": way,
            "set": "mbpp",
            "problem": f"mbpp/{i}",
            "reward": row,
            "tokens": [9] * len(row),
            "stopped": [True] * len(row),
        }
        for (phase, way), rows in rewards.items()
        for i, row in reversed([*enumerate(rows)])  # tables go by the problem, not by the order
    ]
    pq.write_table(pa.Table.from_pylist(made, ROWS), folder / f"{cell}.parquet")
    (folder / f"{cell}.json").write_text(
        json.dumps({"plan": None, "together": None, "ways": {}} | about)
    )


@pytest.fixture
def data(tmp_path) -> Data:
    """Sixteen problems. The base model solves none; GRPO the first four, by its plan too; ours
    eight others one way and the last four another; both together all."""
    out, trained = tmp_path / "out", "leetcode-off-policy-exact-s9"
    solved = {
        ("base", 1): [NONE] * 16,
        ("leetcode-grpo", 1): [ALL] * 4 + [NONE] * 12,
        ("leetcode-grpo", 2): [ALL] * 4 + [NONE] * 12,
    }
    for (cell, seed), rewards in solved.items():
        folder = tmp_path / "work" / f"{cell}-final-s{seed}"
        write_set(folder, "mbpp", np.array(rewards))
        collect(folder, out, {**ABOUT, "cell": cell, "seed": seed, "tag": "-final"}, ["mbpp"])
    cold = [NONE] * 4 + [ALL] * 8 + [NONE] * 4
    warm = [NONE] * 12 + [ALL] * 4
    together = {
        "order": [[trained, "cold"], ["leetcode-grpo-s9", "plain"], *[[trained, "warm"]] * 126],
        "validation": [0.25] * 8,
    }
    write_arms(
        *(out / "configurations", trained),
        {
            ("validation", "cold"): [NONE[:16] + ALL[:16]] * 16,
            ("test", "cold"): cold,
            ("test", "warm"): warm,
            ("alone", "plain"): cold,
        },
        ways={"cold": {}, "warm": {}},
        plan={"order": ["cold"] * 2 + ["warm"] * 126, "validation": [0.5] * 8},
        together=together,
    )
    write_arms(
        *(out / "configurations", "leetcode-grpo-s9"),
        {("test", "plain"): solved["leetcode-grpo", 1]},
        plan={"order": ["plain"] * 128, "validation": [0.125] * 8},
        together=together,
    )
    return Data(out)


def lines(table: str) -> dict[str, list[str]]:
    """By their first words."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_a_plan_says_how_often_it_takes_each_way(data):
    table = blocks()["ways-orders"](data)
    assert "| off-policy-exact | cold | 1 | 2 | 2 | 2 | 2 | 2 | 2 | 2 |" in table
    assert "| off-policy-exact | warm | 0 | 0 | 2 | 6 | 14 | 30 | 62 | 126 |" in table
    together = [line for line in table.splitlines() if line.startswith("| all of these")]
    assert [line.split(" | ")[1] for line in together] == [
        *("off-policy-exact, cold", "grpo, plain", "off-policy-exact, warm")
    ]


def test_every_way_by_itself_is_as_good_as_its_samples_on_validation(data, monkeypatch):
    assert blocks()["ways-each"](data) == ""  # not all sets are there
    monkeypatch.setattr(ways, "VALIDATION", ("mbpp",))
    found = blocks()["ways-each"](data).splitlines()
    assert found[0] == "| model | way | max@1 | max@2 | max@4 | max@8 | max@16 | max@32 |"
    best = (1 - math.comb(16, k) / math.comb(32, k) for k in (1, 2, 4, 8, 16, 32))
    means = " | ".join(f"{x:.3f}" for x in best)
    assert found[2:] == [f"| off-policy-exact | cold | {means} |"]


def test_what_a_plan_promises_is_beside_what_it_is_worth_on_other_problems(tmp_path, monkeypatch):
    monkeypatch.setattr(ways, "VALIDATION", ("mbpp",))
    cell = "leetcode-grpo-s9"
    write_arms(
        *(tmp_path / "configurations", cell),
        {("validation", "b"): [NONE[:64]] * 5, ("validation", "a"): [ALL[:64]] + [NONE[:64]] * 4},
        ways={"b": {}, "a": {}},
        plan={"order": ["a"] * 64 + ["b"] * 64, "validation": [0.2] * 8},
    )
    found = lines(blocks()["ways"](Data(tmp_path)))
    assert found["validation, plan of grpo"] == ["0.200"] * 8
    # Who has not seen the first problem has no reason to take a before b is used up.
    assert found["... on problems it was not chosen by"] == ["0.000"] * 7 + ["0.200"]


def test_what_plans_are_worth_is_beside_one_way_and_the_last_comparison(data):
    found = lines(blocks()["ways"](data))
    assert found["validation, plan of off-policy-exact"] == ["0.500"] * 8
    assert found["mbpp: plan of off-policy-exact"] == ["0.500"] * 2 + ["0.750"] * 6
    assert found["mbpp: off-policy-exact alone"] == ["0.500"] * 8
    assert found["mbpp: plan of grpo"] == ["0.250"] * 8
    assert found["mbpp: plan of all of these together"] == ["0.500", "0.750", *["1.000"] * 6]
    assert found["mbpp: grpo, last comparison"] == ["0.250"] * 8
    assert found["mbpp: base, last comparison"] == ["0.000"] * 8
    assert not [row for row in found if row.startswith(("humaneval", "mbpp, humaneval"))]


def test_plans_are_held_to_other_plans_problem_by_problem(data, monkeypatch):
    assert blocks()["ways-over"](data) == ""  # not all sets are there
    monkeypatch.setattr(ways, "SAMPLED", ("mbpp",))
    found = lines(blocks()["ways-over"](data))
    own = "mbpp: plan of off-policy-exact over"
    assert found[f"{own} the plan of grpo"][-1].startswith("+0.500 (")
    assert found[f"{own} off-policy-exact alone"][0] == "+0.000 (+0.000 to +0.000)"
    assert found[f"{own} off-policy-exact alone"][-1].startswith("+0.250 (")
    assert found[f"{own} base, last comparison"][-1].startswith("+0.750 (")
    assert found["mbpp: off-policy-exact alone over base, last comparison"][-1].startswith("+0.500")
    assert found["mbpp: plan of grpo over grpo, last comparison"][0].startswith("+0.000")
    assert not [row for row in found if "plan of grpo over the plan of grpo" in row]


def test_without_plans_there_are_no_tables(tmp_path):
    for name in ("ways", "ways-orders", "ways-over"):
        assert blocks()[name](Data(tmp_path)) == ""


def test_trainings_of_one_method_are_named_by_their_seeds_and_plans_need_their_samples(tmp_path):
    folder = tmp_path / "several-runs"
    cells = ["leetcode-grpo-s1", "leetcode-grpo-s2"]
    together = {"order": [[cells[0], "a"], [cells[1], "a"]] * 64, "validation": [0.5] * 8}
    for cell, rewards in zip(cells, ([ALL[:64], NONE[:64]], [NONE[:64], NONE[:64]]), strict=True):
        plan = {"order": ["a"] * 128, "validation": [0.0] * 8}
        write_arms(folder, cell, {("test", "a"): rewards}, plan=plan, together=together)
    found = lines(blocks()["trainings"](Data(tmp_path)))
    assert found["mbpp: plan of all of these together"] == ["0.500"] * 8
    # By a plan of its own each would need 128.
    assert "validation, plan of grpo-s1" in found
    assert not [row for row in found if row.startswith("mbpp: plan of grpo")]
    table = blocks()["trainings-orders"](Data(tmp_path))
    assert "| all of these together | grpo-s2, a | 0 | 1 | 2 | 4 | 8 | 16 | 32 | 64 |" in table


def test_the_figure_is_of_the_tables(data, monkeypatch, tmp_path):
    monkeypatch.setattr(ways, "SAMPLED", ("mbpp",))
    found = ways.figure(data, "ways")
    by_k = dict(zip(found.numbers.columns, zip(*found.numbers.rows, strict=True), strict=True))
    assert by_k["k"] == ("1", "2", "4", "8", "16", "32", "64", "128")
    assert by_k["grpo, temperature 1"] == ("+0.250",) * 8
    assert by_k["plan of off-policy-exact"] == ("+0.500",) * 2 + ("+0.750",) * 6
    assert "off-policy, temperature 1" not in by_k
    out = tmp_path / "figures"
    ways.main(["ways", "--results", str(data.folder), "--out", str(out)])
    drawn = (out / "grid-ways.svg").read_text()
    assert all(name in drawn for name in found.numbers.columns[1:])
    with pytest.raises(SystemExit):
        ways.main(["trainings", "--results", str(data.folder), "--out", str(out / "none")])
    assert not (out / "none").exists()
