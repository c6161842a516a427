"""The stored results: small, whole, the same numbers as before, and new runs go in."""

import re
from pathlib import Path

import numpy as np
import pytest

from experiments.grid.data import Data
from experiments.grid.results import collect
from experiments.grid.tables import blocks
from experiments.pocket import tables as pocket
from experiments.registered import analysis
from experiments.results import add, compact
from tests.experiments.test_results import ABOUT, rewards_of, write_set

# Made before the result files of single samples (51 MB) were removed, by the code of that time from
# those files: `python -m experiments.grid.tables --only ...`, `experiments.registered.analysis` and
# `experiments/pocket/tables.py`, at commit ff9521b. On that day every reward count, token sum,
# verdict and entropy sum of all 149,545 rows was compared as well, and none differed.
EXPECTED = Path(__file__).parent / "expected"
FAST = ("leetcode-unfinished", "pools", "drift-by-iteration", "ways", "trainings-orders")
LARGEST = 4 * 2**20  # bytes, of all results


def expected_tables() -> dict[str, str]:
    text = (EXPECTED / "tables.md").read_text()
    found = re.findall(r"<!-- ([\w-]+) -->\n(.*?)\n<!-- end \1 -->", text, flags=re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def data() -> Data:
    return Data()


def test_all_results_are_small():
    sizes = [path.stat().st_size for path in compact.RESULTS.glob("*") if path.suffix != ".py"]
    assert 2**20 < sum(size for size in sizes) <= LARGEST


def test_every_table_of_old_is_expected():
    assert len(expected_tables()) == 17
    assert set(FAST) < expected_tables().keys()


def close(made: str, expected: str) -> None:
    """The same text; numbers of metrics, which are kept with fewer digits, to 1 in 10,000."""
    number = re.compile(r"-?\d+\.\d+")
    assert number.sub("x", made) == number.sub("x", expected)
    pairs = zip(number.findall(made), number.findall(expected), strict=True)
    for own, other in pairs:
        assert float(own) == pytest.approx(float(other), rel=1e-4, abs=0.0011)


def without_later_cells(made: str, expected: str) -> str:
    """A table without the cells that had no results when the expected one was made."""
    known = {line.split("|")[1] for line in expected.splitlines() if line[:1] == "|"}
    lines = [line for line in made.splitlines() if line[:1] != "|" or line.split("|")[1] in known]
    return "\n".join(lines)


@pytest.mark.parametrize("name", FAST)
def test_a_table_is_what_it_was_from_all_samples(data, name):
    made = blocks()[name](data)
    if name == "drift-by-iteration":
        close(without_later_cells(made, expected_tables()[name]), expected_tables()[name])
    else:
        assert made == expected_tables()[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(expected_tables().keys() - set(FAST)))
def test_a_table_with_intervals_is_what_it_was_from_all_samples(data, name):
    close(blocks()[name](data), expected_tables()[name])


def test_the_main_comparison_has_the_means_it_had(data):
    """The rows of two tables with intervals, which take minutes, without the intervals."""
    for k in (1, 128):
        lines = expected_tables()[f"final-{k}"].splitlines()[4:]
        head = expected_tables()[f"final-{k}"].splitlines()[2].strip("| ").split(" | ")[1:]
        for line in lines:
            row, *cells = line.strip("| ").split(" | ")
            cell = "base-final" if row == "base" else f"leetcode-{row}-final"
            for name, text in zip(head, cells, strict=True):
                value = float(re.search(r"\d\.\d{3}", text)[0])  # type: ignore[index]
                found = data.scores(cell, name, [k], "max").mean()
                assert found == pytest.approx(value, abs=0.00051), (row, name, k)


def test_the_small_model_has_the_means_it_had():
    runs = [run for run in compact.read().all() if run.study == "pocket"]
    found, _ = pocket.curves(runs, "max")
    lines = (EXPECTED / "pocket.md").read_text().splitlines()[2:]
    assert len(lines) == len(found) == 40
    for line in lines:
        row, seeds, *cells = line.strip("| ").split(" | ")
        assert len(found[row]) == int(seeds)
        assert [f"{x:.3f}" for x in found[row].mean((0, 1))] == cells[: len(pocket.KS)]


def test_the_registered_analysis_answers_as_before(data):
    """No run of either experiment was there then; the runs for the learning rate are no part."""
    before = (EXPECTED / "registered.md").read_text()
    empty = Data.__new__(Data)
    empty.__dict__.update(data.__dict__ | {"cells": {}})
    for experiment in (analysis.E1, analysis.E2):
        assert analysis.table(empty, experiment) in before
        assert analysis.answers(empty, experiment) in before


def test_counts_and_sums_are_those_of_the_samples(tmp_path):
    rewards = rewards_of(5)
    write_set(tmp_path / "mbpp-grpo-s0", "mbpp", rewards)
    collect(tmp_path / "mbpp-grpo-s0", tmp_path / "out", ABOUT, ["mbpp"])
    add.add(add.fold(tmp_path / "out"), tmp_path / "stored")
    rows = compact.read(tmp_path / "stored").rows["grid", "mbpp-grpo-s0"]
    for row, of_problem in zip(rows, rewards, strict=True):
        np.testing.assert_array_equal(compact.samples_of(row), np.sort(of_problem))
        assert row["tokens"] == sum(7 + sample for sample in range(4))
        assert (row["ended"], row["entropies"], row["entropy"]) == (2, 4, 2000)
        assert sum(row["status"]) == 4


def test_new_runs_are_added_and_more_samples_take_the_place_of_fewer(tmp_path, capsys):
    out, stored = tmp_path / "out", tmp_path / "stored"
    for seed in (0, 1):
        folder = tmp_path / "work" / f"mbpp-grpo-s{seed}"
        write_set(folder, "mbpp", rewards_of(5, seed))
        collect(folder, out, {**ABOUT, "seed": seed, "id": f"{seed}"}, ["mbpp"])
    given = [str(out), "--into", str(stored)]
    assert add.main(given) == 0
    first = {path.name: path.read_bytes() for path in stored.iterdir()}
    assert capsys.readouterr().out.count(": added, 20 samples") == 2
    assert add.main(given) == 0  # and again: nothing changes
    assert capsys.readouterr().out.count("passed over; stored is the same run") == 2
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == first
    again = tmp_path / "again" / "mbpp-grpo-s1"
    write_set(again, "mbpp", rewards_of(5, 7))
    write_set(again, "humaneval", rewards_of(3, 8))
    collect(again, tmp_path / "more", {**ABOUT, "seed": 1, "id": "x"}, ["mbpp", "humaneval"])
    assert add.main([str(tmp_path / "more"), "--into", str(stored)]) == 0
    assert "mbpp-grpo-s1: replaced, 32 samples" in capsys.readouterr().out
    data = Data(stored)
    assert [len(results) for results in data.cells.values()] == [2]
    mean = (rewards_of(5, 0).mean() + rewards_of(5, 7).mean()) / 2
    assert data.scores("mbpp-grpo", "mbpp", [1], "max").mean() == pytest.approx(mean)


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        add.main([str(tmp_path)])
    assert "has no results; give the folder that was --results" in capsys.readouterr().err


def test_counts_and_problems_of_different_runs_are_refused(tmp_path):
    write_set(tmp_path / "a-s0", "mbpp", rewards_of(5))
    collect(tmp_path / "a-s0", tmp_path / "out", ABOUT, ["mbpp"])
    add.add(add.fold(tmp_path / "out"), tmp_path / "stored")
    other = compact.RESULTS / "problems.parquet"
    (tmp_path / "stored" / "problems.parquet").write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="counts and problems differ in study; add the runs again"):
        next(compact.joined(tmp_path / "stored"))


def test_no_place_of_a_machine_and_no_completion_is_stored():
    text = (compact.RESULTS / "runs.jsonl").read_text() + (
        compact.RESULTS / "base.json"
    ).read_text()
    assert not re.search(r'"/[a-z]|completion":|```', text)
