"""What is kept of a cell, and what can be made of it again."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from experiments.grid.data import Data
from experiments.grid.pairs import against
from experiments.grid.plan import costs_of, read_grid
from experiments.grid.planned import order_of
from experiments.grid.results import (
    ENOUGH,
    Result,
    by_heart,
    collect,
    pack,
    read_results,
    seconds_of,
    unpack,
)
from experiments.grid.shared import with_parts
from experiments.grid.tables import blocks, fill, main
from experiments.results.add import stock_of
from maxk.evaluate import ensemble
from maxk.evaluate.read import read_run
from maxk.grade import Graded
from maxk.grade.run import verdicts_table
from maxk.records import CallTest, Problem, Status, StdinTest, TestResult, Verdict
from maxk.sample import Completion
from maxk.store.run import Run
from maxk.store.tables import VERDICTS, completions_table, write_problems

ABOUT = {"cell": "mbpp-grpo", "seed": 0, "tag": "", "environment": {"gpus": ["H"]}}
N = 4


def write_set(
    folder: Path,
    name: str,
    rewards: np.ndarray,
    judged: bool = True,
    cut_off: Callable[[int, int], bool] = lambda problem, sample: sample % 2 == 0,
) -> Run:
    """A sampling run with these rewards, thirds of three tests."""
    config = {"model": "m", "n": rewards.shape[1], "data": {"name": name, "split": "test"}}
    config["settings"] = {"temperature": 1.0, "top_p": 1.0, "seed": 0}
    run = Run.start(folder / "sets" / name, "sample", config)
    tests = (StdinTest("", ""),) * 3
    problems = [Problem(f"{name}/{i}", "do", tests, difficulty="A") for i in range(len(rewards))]
    write_problems(run, problems)
    done, verdicts = [], []
    for (i, sample), reward in np.ndenumerate(rewards):
        problem = f"{name}/{i}"
        finish = "length" if cut_off(i, sample) else "stop"
        done.append(Completion(problem, sample, f"text {sample}", 7 + sample, finish, None, 0.5))
        fates = [Status.PASSED] * round(3 * reward) + [Status.TIMEOUT] * (3 - round(3 * reward))
        verdict = Verdict(tuple(TestResult(fate, "", 0.0) for fate in fates), "A")
        verdicts.append(Graded(f"text {sample}", verdict))
    run.write("completions", "000000", completions_table(done[::-1]))
    if judged:
        rows = [{"problem": each.problem, "sample": each.sample} for each in done[::-1]]
        run.write("verdicts", "000000", verdicts_table(rows, verdicts[::-1], "A", {}))
    return run


def rewards_of(problems: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, (problems, N)) / 3


@pytest.fixture
def cell(tmp_path) -> Path:
    folder = tmp_path / "work" / "mbpp-grpo-s0"
    write_set(folder, "mbpp", rewards_of(5))
    write_set(folder, "humaneval", rewards_of(2), judged=False)
    return folder


def test_what_comes_back_measures_the_same_as_what_was_there(cell, tmp_path):
    collect(cell, tmp_path / "out", ABOUT, ["mbpp", "humaneval"])
    (folder,) = unpack(stock_of(tmp_path / "out"), tmp_path / "runs")
    there, back = read_run(cell / "sets" / "mbpp"), read_run(folder)
    assert folder == tmp_path / "runs" / "mbpp-grpo-s0" / "mbpp"
    assert (back.config, back.statuses, back.tokens) == (there.config, there.statuses, there.tokens)
    assert back.difficulties == there.difficulties
    for problem, rewards in there.rewards.items():
        np.testing.assert_array_equal(np.sort(back.rewards[problem]), np.sort(rewards))
    np.testing.assert_array_equal(back.entropies, there.entropies)


def test_a_set_that_is_not_judged_to_its_end_is_not_a_result(cell, tmp_path):
    made = collect(cell, tmp_path / "out", ABOUT, ["mbpp", "humaneval"])
    assert made is not None
    assert list(made["sets"]) == ["mbpp"]
    (result,) = read_results(tmp_path / "out")
    assert result.has(["mbpp"], N)
    assert not result.has(["mbpp"], N + 1)
    assert not result.has(["mbpp", "humaneval"], N)


def test_passes_that_know_their_tests_are_counted(tmp_path):
    run = Run.start(tmp_path / "run", "sample", {"n": 4})
    tests = (CallTest("f", (12,), 144), CallTest("f", (25,), 625))
    write_problems(run, [Problem("p", "square", tests, "f")])
    known = "def f(x):\n    return 144 if x == 12 else 625 if x == 25 else 0"
    programs = [known, "def f(x):\n    return x * x", known, "def f(x):\n    return 12 * 25"]
    done = [Completion("p", i, text, 9, "stop") for i, text in enumerate(programs)]
    run.write("completions", "000000", completions_table(done))
    verdicts = [
        Graded(program, Verdict((TestResult(status, "", 0.0),), "A"))
        for program, status in zip(
            programs, [Status.PASSED] * 3 + [Status.WRONG_ANSWER], strict=True
        )
    ]
    rows = [{"problem": "p", "sample": i} for i in range(4)]
    run.write("verdicts", "000000", verdicts_table(rows, verdicts, "A", {}))
    assert by_heart(run.folder, 4) == pytest.approx(2 / 3)
    unsolved = write_set(tmp_path, "none", np.zeros((2, 3)))
    assert by_heart(unsolved.folder, 3) is None


def test_less_never_takes_the_place_of_more(cell, tmp_path):
    collect(cell, tmp_path / "out", ABOUT, ["mbpp"])
    before = (tmp_path / "out" / "mbpp-grpo-s0.json").read_text()
    again = tmp_path / "again" / "mbpp-grpo-s0"  # trained anew, not yet measured
    again.mkdir(parents=True)
    assert collect(again, tmp_path / "out", ABOUT, ["mbpp"]) is None
    assert (tmp_path / "out" / "mbpp-grpo-s0.json").read_text() == before


def test_half_a_set_of_statuses_that_nobody_knows_is_an_error(cell, tmp_path):
    import pyarrow as pa

    run = Run.open(cell / "sets" / "mbpp")
    rows = run.read("verdicts").to_pylist()
    rows[0]["status"] = "vanished"
    run.write("verdicts", "000000", pa.Table.from_pylist(rows, VERDICTS))
    with pytest.raises(ValueError, match=r"tuple\.index"):
        collect(cell, tmp_path / "out", ABOUT, ["mbpp"])


def test_all_results_fit_one_file(cell, tmp_path):
    collect(cell, tmp_path / "out", ABOUT, ["mbpp"])
    pack(tmp_path / "out", tmp_path / "all.tar.gz")
    with tarfile.open(tmp_path / "all.tar.gz") as tar:
        assert tar.getnames() == ["mbpp-grpo-s0.json", "mbpp-grpo-s0.parquet"]


def test_a_cell_of_the_real_size_is_small(tmp_path):
    """500 problems with 128 samples: what comes back from a machine may have 16 MiB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from experiments.grid.results import ROWS

    random = np.random.default_rng(0)
    rows = [
        {
            "set": "mbpp",
            "problem": f"mbpp/{i}",
            "difficulty": None,
            "reward": (random.integers(0, 4, 128) / 3).tolist(),
            "status": random.integers(0, 9, 128).tolist(),
            "tokens": random.integers(20, 257, 128).tolist(),
            "stopped": (random.random(128) < 0.9).tolist(),
            "entropy": [0.3] * 8 + [float("nan")] * 120,
        }
        for i in range(900)
    ]
    pq.write_table(pa.Table.from_pylist(rows, ROWS), tmp_path / "a", compression="zstd")
    assert (tmp_path / "a").stat().st_size < 2**20


# --- what things cost ----------------------------------------------------------------------------


def result(gpus: list[str], sampling: float, **sampled: Any) -> Result:
    metrics = {
        "seconds/sampling": [sampling, 0.0, 0.0, sampling, 0.0, 0.0],
        "seconds/verifying": [1.0, 0, 0, 1.0, 0, 0],
        "seconds/loading": [0.5, 0, 0, 0.5, 0, 0],
        "seconds/update": [2.0] * 6,
        "seconds/pre-pass": [0.0] * 6,
    }
    config = {"data": {"name": "mbpp"}}
    stages = [{"stage": "sample mbpp", **sampled}] if sampled else []
    about = {"environment": {"gpus": gpus}, "time": "now", "stages": stages}
    train = {"config": config, "seconds": seconds_of(metrics)}
    return Result("a", {**about, "train": train, "sets": {}})


def test_what_was_measured_takes_the_place_of_guesses():
    grid = read_grid()
    guessed = costs_of(grid, [], ["H"])
    seen = result(["H"], 4.5, new=ENOUGH, tokens=200 * ENOUGH, seconds=ENOUGH / 50)
    known = costs_of(grid, [seen], ["H"])
    begin, judging = grid.cost["begin"], grid.cost["judging"]
    assert known.training(6, 3, "mbpp") == pytest.approx(begin + 2 * 6.0 + 6 * 2.0)
    assert known.training(6, 3, "leetcode") == guessed.training(6, 3, "leetcode")
    mbpp = grid.sets["mbpp"]
    assert known.sampling(mbpp, 1000) == pytest.approx(1000 * 200 / 10_000 + judging)
    rate = grid.cost["tokens_per_second"]
    assert guessed.sampling(mbpp, 1000) == pytest.approx(1000 * mbpp.tokens / rate + judging)
    later = costs_of(grid, [], ["H"], judge_later=True)
    assert later.sampling(mbpp, 1000) == pytest.approx(1000 * mbpp.tokens / rate)


def test_a_few_samples_say_nothing_about_the_speed_of_many():
    grid = read_grid()
    mbpp, few = grid.sets["mbpp"], ENOUGH - 1
    seen = result(["H"], 4.5, new=few, tokens=100 * few, seconds=float(few))
    guessed = costs_of(grid, [], ["H"]).sampling(mbpp, 1000)
    assert costs_of(grid, [seen], ["H"]).sampling(mbpp, 1000) == guessed


def test_another_machine_says_nothing_about_this_one():
    grid = read_grid()
    slow = result([], 1000.0)
    assert costs_of(grid, [slow], ["H"]).earlier == ()
    assert costs_of(grid, [slow], []).earlier == (slow,)
    assert costs_of(grid, [slow], None).earlier == ()


# --- tables --------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path) -> Path:
    """A base model, GRPO with two seeds, and the exact method."""
    out = tmp_path / "out"
    for i, (cell, seed) in enumerate(
        (("base", 0), ("mbpp-grpo", 0), ("mbpp-grpo", 1), ("mbpp-off-policy-exact", 0))
    ):
        folder = tmp_path / "work" / f"{cell}-s{seed}"
        write_set(folder, "mbpp", rewards_of(6, seed=i))
        collect(folder, out, {**ABOUT, "cell": cell, "seed": seed}, ["mbpp"])
    return out


def test_seeds_are_averaged_problem_by_problem(results):
    found = Data(results).scores("mbpp-grpo", "mbpp", [1], "max")[:, 0]
    both = [rewards_of(6, seed=1).mean(1), rewards_of(6, seed=2).mean(1)]
    np.testing.assert_allclose(found, np.mean(both, axis=0))


def test_tables_are_made_of_what_there_is(results):
    data = Data(results)
    made = {name: make(data) for name, make in blocks().items()}
    mean = rewards_of(6, seed=0).mean()
    assert f"{mean:.3f} [" in made["main-1"]
    assert "Table 3 of the paper" in made["main-1"]
    assert "bon-mean" not in made["main-1"].split("Table 3")[0]  # it was not run
    assert made["main-128"] == ""  # 4 samples say nothing of 128
    assert "binary reward" not in made["table1"].split("Table 1")[0]
    assert made["table4"].startswith("GRPO trained for longer; seeds: 1; PPO=3, two epochs 2\n")
    assert "| PPO=3, two epochs |" in made["table4"]  # mbpp-grpo
    assert "four epochs" not in made["table4"].split("Table 4")[0]
    assert made["leetcode-1"] == ""
    assert "after GRPO" in made["figure1"]


def test_cells_that_were_shown_all_tests_have_a_table_of_their_own(results, tmp_path):
    for i, cell in enumerate(("base", "mbpp-grpo")):
        folder = tmp_path / "work" / f"{cell}-shown-s0"
        write_set(folder, "mbpp", rewards_of(6, seed=i))
        collect(folder, results, {**ABOUT, "cell": cell, "tag": "-shown"}, ["mbpp"])
    made = blocks()["shown"](Data(results))
    assert "mbpp, all tests shown; seeds: 1" in made
    assert "humaneval" not in made
    assert "| grpo | 0.0 % | 8 |" in made
    assert "off-policy-exact" not in made  # that one was not shown them


def test_the_last_comparison_has_tables_of_its_own(results, tmp_path):
    """With a method that keeps some of its start, and the base model as measured with it."""
    kept = "grpo-kept-30"
    for i, cell in enumerate(("base", "leetcode-grpo", f"leetcode-{kept}")):
        folder = tmp_path / "work" / f"{cell}-final-s1"
        sets = ["mbpp"] if i else ["mbpp", "humaneval"]  # one that not all are measured on yet
        for name in sets:
            write_set(folder, name, rewards_of(6, seed=20 + i))
        collect(folder, results, {**ABOUT, "cell": cell, "seed": 1, "tag": "-final"}, sets)
    data = Data(results)
    made = {name: make(data) for name, make in blocks().items()}
    rows = [line.split(" | ")[0].strip("| ") for line in made["final-1"].splitlines()[4:]]
    assert rows == ["base", "grpo", kept]
    assert "humaneval" not in made["final-1"]
    assert f"{rewards_of(6, seed=20).mean():.3f} [" in made["final-1"]
    assert made["final-256"] == ""  # 4 samples
    assert f"{rewards_of(6, seed=0).mean():.3f} [" in made["main-1"]  # the others are apart


def test_methods_are_compared_over_all_problems_that_have_samples_of_their_own(tmp_path):
    none, all_ = np.zeros((4, 128)), np.ones((4, 128))
    sets = ["mbpp", "mbpp-plus", "humaneval", "leetcode", "code-contests"]
    solved = {"base": (), "mbpp-grpo": ("mbpp-plus",), "mbpp-off-policy": ("mbpp", "mbpp-plus")}
    for cell, which in solved.items():
        folder = tmp_path / "work" / f"{cell}-s0"
        for name in sets:
            write_set(folder, name, all_ if name in which else none)
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell}, sets)
    made = blocks()["paired"](Data(tmp_path / "out"))
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.splitlines()]
    gains = {row[0]: [gain.split(" ")[0] for gain in row[2:]] for row in cells[2:]}
    assert gains == {
        "base": ["", "", "", "+0.000", "+0.000", "+0.000"],  # MBPP+ has the samples of MBPP
        "grpo": ["+0.000", "+0.000", "+0.000", "", "", ""],
        "off-policy": ["+0.250"] * 6,  # one of four sets
    }


def test_a_set_that_half_of_the_methods_lack_takes_nobody_out_of_the_table(tmp_path):
    most = ["mbpp", "humaneval"]
    measured = {"base": [*most, "mbpp-plus"], "paper-bon-mean": [*most, "mbpp-plus"]}
    measured |= {"paper-grpo": most, "paper-off-policy": most}
    for cell, sets in measured.items():
        folder = tmp_path / "work" / f"{cell}-s0"
        for name in sets:
            write_set(folder, name, rewards_of(3))
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell}, sets)
    made = blocks()["paper-1"](Data(tmp_path / "out")).splitlines()
    assert made[2] == "| Method | mbpp | humaneval |"
    assert [x.split(" ")[1] for x in made[4:]] == ["base", "grpo", "bon-mean", "off-policy"]


def test_methods_with_several_seeds_are_shown_seed_by_seed(tmp_path):
    sets = ["mbpp", "mbpp-plus", "humaneval", "leetcode", "code-contests"]
    solved = {("base", 0): (), ("mbpp-grpo", 0): ("mbpp",), ("mbpp-grpo", 1): ("mbpp", "leetcode")}
    solved[("mbpp-off-policy", 0)] = ("mbpp",)  # one seed: not in the table
    for (cell, seed), which in solved.items():
        folder = tmp_path / "work" / f"{cell}-s{seed}"
        for name in sets:
            write_set(folder, name, np.full((4, 128), float(name in which)))
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell, "seed": seed}, sets)
    made = blocks()["by-seed"](Data(tmp_path / "out"))
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.splitlines()]
    first = ["1.000", "0.000", "0.000", "0.000", "0.000"]
    second = ["1.000", "0.000", "0.000", "1.000", "0.000"]
    assert [[row[0], *(gap.split(" ")[0] for gap in row[1:])] for row in cells[2:]] == [
        ["grpo, seed 0", "+0.250", "+0.250", *first, *first],
        ["grpo, seed 1", "+0.500", "+0.500", *second, *second],
    ]


def write_results(out: Path, work: Path, solved: dict[tuple[str, int], list[int]]) -> Data:
    """Of cells with seeds: how many of the N samples of each problem pass."""
    for (cell, seed), counts in solved.items():
        folder = work / f"{cell}-s{seed}"
        rewards = np.array([[1.0] * count + [0.0] * (N - count) for count in counts])
        write_set(folder, "mbpp", rewards)
        collect(folder, out, {**ABOUT, "cell": cell, "seed": seed}, ["mbpp"])
    return Data(out)


def test_what_trainings_give_together_is_beside_each_of_them(tmp_path):
    """Of four problems one training solves the first two, one the last two, their mean all."""
    first, last, none = [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0] * 4
    solved = {("choose-grpo", 0): none, ("choose-grpo", 1): first, ("choose-grpo", 2): last}
    solved |= {("choose-grpo", 3): first, ("choose-grpo-of-3", 1): [1.0] * 4}
    solved |= {("choose-grpo-of-3", 2): none}  # of seed 4, which is not there
    solved |= {("choose-off-policy", 1): first}  # alone
    solved |= {("choose-grpo-kept-30", 1): last, ("choose-grpo-kept-30", 9): last}
    sets = ["mbpp-train", "mbpp-validation", "validation"]
    for (cell, seed), rewards in solved.items():
        folder = tmp_path / "work" / f"{cell}-s{seed}"
        for name in sets:
            write_set(folder, name, np.repeat(np.array(rewards)[:, None], 128, axis=1))
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell, "seed": seed}, sets)
    data = Data(tmp_path / "out")
    halves = blocks()["halves"](data).splitlines()[2:]
    assert [line.split(" (")[0] for line in halves] == [
        "| choose-grpo and choose-grpo-kept-30, seed 1 | +0.000"
    ]
    assert halves[0].count("+0.500 (") == 7  # every k but 1
    made = blocks()["means"](data)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.splitlines()]
    found = [[row[0], *(value.split(" ")[0] for value in row[1:4])] for row in cells[2:]]
    half = ["0.500"] * 3
    assert found == [
        ["choose-grpo, seed 0", *["0.000"] * 3],
        *([f"choose-grpo, seed {seed}", *half] for seed in (1, 2, 3)),
        [
            "samples shared by seeds 0, 1, 2 and 3, two at a time, all pairs",
            "0.375",
            *["0.667"] * 2,
        ],
        ["... over the mean of these seeds", "+0.000", *["+0.292"] * 2],
        ["samples shared by seeds 0, 1, 2 and 3", "0.375", "0.667", "1.000"],
        ["... over the mean of these seeds", "+0.000", "+0.292", "+0.625"],
        # Any two of them have one that solves the first two problems, two of three the last.
        ["samples shared by seeds 1, 2 and 3", "0.500", "0.833", "1.000"],
        ["... over the mean of these seeds", "+0.000", "+0.333", "+0.500"],
        ["choose-grpo-of-3, of seeds 1, 2 and 3", *["1.000"] * 3],
        ["... over the mean of these seeds", *["+0.500"] * 3],
    ]


def test_a_mean_of_two_seeds_is_not_tested_against_one(tmp_path):
    better, worse = [N] * 12, [0] * 12
    solved = {
        ("base", 0): worse,
        ("mbpp-grpo", 0): [0] * 11 + [1],
        ("mbpp-grpo", 1): better,
        ("mbpp-bon-centered", 1): better,
    }
    data = write_results(tmp_path / "out", tmp_path / "work", solved)
    made = blocks()
    assert "\\*" not in made["main-1"](data).split("Table 3")[0]
    solved[("mbpp-bon-centered", 0)] = better
    both = write_results(tmp_path / "out", tmp_path / "more", solved)
    assert "\\*" in made["main-1"](both).split("Table 3")[0]


def test_a_seed_with_one_set_alone_is_left_out_over_all_sets(tmp_path):
    """Of GRPO's three trainings two solve everything; the third nothing, and one set is missing."""
    sets, always, never = ["mbpp", "humaneval"], np.ones((4, 128)), np.zeros((4, 128))
    solved = {("base", 0): never, ("mbpp-grpo", 0): always, ("mbpp-grpo", 1): always}
    solved |= {("mbpp-grpo", 2): never}
    for (cell, seed), rewards in solved.items():
        folder = tmp_path / "work" / f"{cell}-s{seed}"
        for name in sets if seed < 2 else sets[:1]:
            write_set(folder, name, rewards)
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell, "seed": seed}, sets)
    data = Data(tmp_path / "out")
    assert data.on_all("mbpp-grpo", sets) == [0, 1]
    assert against(data, "mbpp-grpo", "base", sets) == ["+1.000 (+1.000 to +1.000)"] * 3
    third = [str(gap).split(" ")[0] for gap in against(data, "mbpp-grpo", "base", sets[:1])]
    assert third == ["+0.667"] * 3  # on that set it counts


def test_trainings_again_are_beside_the_first(tmp_path):
    solved = {("base", 0): [0, 0], ("paper-old-grpo", 0): [N, N]}
    solved |= {("paper-old-grpo", 1): [0, 0]}  # another seed is not the same training again
    write_results(tmp_path / "out", tmp_path / "work", solved)
    folder = tmp_path / "work" / "paper-old-grpo-first-s0"
    write_set(folder, "mbpp", np.array([[1.0] * N, [0.0] * N]))
    about = {**ABOUT, "cell": "paper-old-grpo", "tag": "-first", "seed": 0}
    collect(folder, tmp_path / "out", about, ["mbpp"])
    made = blocks()["trained-twice"](Data(tmp_path / "out"))
    rows = [line.strip("| ").split(" | ")[:2] for line in made.splitlines()[4:]]
    assert [row for row, _ in rows] == ["base", "grpo, the first time", "grpo, the second"]
    assert [value.strip("*<u>")[:5] for _, value in rows] == ["0.000", "0.500", "1.000"]


def test_both_readings_of_the_kl_term_are_side_by_side(tmp_path):
    solved = {("base", 0): [0, 0], ("paper-grpo", 0): [N, 0], ("paper-old-grpo", 0): [N, N]}
    solved |= {("paper-old-bon-mean", 0): [N, N]}  # of which there is one alone
    made = blocks()["paper-kl"](write_results(tmp_path / "out", tmp_path / "work", solved))
    rows = [line.strip("| ").split(" | ")[:2] for line in made.splitlines()[4:]]
    assert [row for row, _ in rows] == ["base", "grpo, KL to the start", "grpo, KL to the sampler"]
    assert [value.strip("*<u>")[:5] for _, value in rows] == ["0.000", "0.500", "1.000"]


def write_plan(tmp_path: Path) -> Data:
    """Of four problems the trainings solve the first, their mean the second, and what is moved back
    the last two, half of the time."""
    part = np.tile([1.0, 0.0], 64)
    solved = {
        "grpo": [np.ones(128), *np.zeros((3, 128))],
        "grpo-of-3": [np.zeros(128), np.ones(128), *np.zeros((2, 128))],
        "grpo-of-3-kept-30": [*np.zeros((2, 128)), part, part],
    }
    base = ("base-final-s1", "base", 1, "-final", list(np.zeros((4, 128))))
    cells: list[tuple[str, str, int, str, list]] = [base]
    for cell, rewards in solved.items():
        for kind, first, tag in (("choose", 1, ""), ("leetcode", 3, "-final")):
            for seed in range(first, first + (3 if cell == "grpo" else 1)):
                name = f"{kind}-{cell}{tag}-s{seed}"
                cells.append((name, f"{kind}-{cell}", seed, tag, rewards))
    for name, cell, seed, tag, rewards in cells:
        chosen = ["mbpp-train", "mbpp-validation", "validation"]
        sets = chosen if name.startswith("choose") else ["mbpp"]
        for each in sets:
            write_set(tmp_path / "work" / name, each, np.array(rewards))
        about = {**ABOUT, "cell": cell, "seed": seed, "tag": tag}
        collect(tmp_path / "work" / name, tmp_path / "out", about, sets)
    return Data(tmp_path / "out")


def test_a_plan_is_chosen_on_validation_and_taken_to_the_test_sets(tmp_path):
    """After one sample of each the last two problems are all that is left, and half as often."""
    data = write_plan(tmp_path)
    order = order_of(data)
    assert sorted(order[:3]) == [0, 1, 2]
    assert len(order) == 128
    made = blocks()["final-plan"](data).splitlines()
    counts = {cells[0]: cells[1:] for x in made if len(cells := x.strip("| ").split(" | ")) == 9}
    kept = [order[:k].count(2) for k in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert counts["grpo-of-3-kept-30"] == [str(count) for count in kept]
    assert counts["mbpp"][-1] == counts["validation, by the plan"][-1] == "1.000"
    assert counts["... over grpo"][-1].startswith("+0.750 (")


def test_three_trainings_and_their_mean_share_the_samples(tmp_path):
    """Each of four models solves one of four problems, so that one of four samples solves each."""
    cells = [("grpo", 3), ("grpo", 4), ("grpo", 5), ("grpo-of-3-kept-30", 3)]
    solved = {f"leetcode-{c}-final-s{s}": one for (c, s), one in zip(cells, np.eye(4), strict=True)}
    solved |= {"base-final-s1": np.zeros(4), "leetcode-grpo-of-3-kept-30-final-s6": np.ones(4)}
    for name, rewards in solved.items():
        folder, (cell, seed) = tmp_path / "work" / name, name.split("-final-s")
        write_set(folder, "mbpp", np.repeat(rewards[:, None], 128, axis=1))
        about = {**ABOUT, "cell": cell, "tag": "-final", "seed": int(seed)}
        collect(folder, tmp_path / "out", about, ["mbpp"])
    data = Data(tmp_path / "out")
    found = with_parts(data, "leetcode-grpo-of-3-kept-30-final", ["mbpp"], 4)
    assert list(found) == [3]  # seed 6 is a mean of three that are not there
    np.testing.assert_allclose(ensemble(found[3], [1, 2, 4]), [[0.25, 0.5, 1.0]] * 4)
    four = blocks()["final-four"](data).splitlines()
    rows = [line.strip("| ").split(" | ")[:2] for line in four[2:]]
    assert [(row, value.split(" (")[0]) for row, value in rows] == [
        ("seed 3", "0.250"),
        ("... over base", "+0.250"),
        ("... over grpo", "+0.000"),  # a third of three problems and none of the last
    ]


def test_who_shared_on_validation_is_in_a_table(tmp_path):
    sets = ["mbpp-train", "mbpp-validation", "validation"]
    for seed, rewards in ((1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0]), (3, [0.0, 0.0, 1.0])):
        folder = tmp_path / "work" / f"choose-grpo-s{seed}"
        for name in sets:
            write_set(folder, name, np.repeat(np.array(rewards)[:, None], 128, axis=1))
        about = {**ABOUT, "cell": "choose-grpo", "seed": seed}
        collect(folder, tmp_path / "out", about, sets)
    made = blocks()["pools"](Data(tmp_path / "out")).splitlines()
    assert [line.strip("| ").split(" | ")[:4] for line in made[2:]] == [
        ["one of grpo 1, 2, 3, in the mean", "0.333", "0.333", "0.333"],
        ["grpo 1, 2, 3", "0.333", "0.667", "1.000"],  # of two samples two models have one each
    ]


def test_problems_whose_completions_are_cut_off_are_told_apart(tmp_path):
    sets = ["mbpp", "humaneval", "leetcode", "code-contests"]
    first, none = np.zeros((4, 128)), np.zeros((4, 128))
    first[0] = 1.0
    cut: dict[str, Callable[[int, int], bool]] = {
        "base": lambda problem, sample: True,  # the split is by what training has made of it
        "mbpp-grpo": lambda problem, sample: problem == 0 and sample < 96,
        "mbpp-off-policy": lambda problem, sample: problem == 1 and sample < 32,
    }
    for cell, which in cut.items():
        folder = tmp_path / "work" / f"{cell}-s0"
        for name in sets:
            solved = cell == "mbpp-off-policy" or name != "humaneval"
            write_set(folder, name, first if solved else none, cut_off=which)
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell}, sets)
    made = blocks()["cut-off"](Data(tmp_path / "out")).splitlines()
    assert "max@1 on the 3 problems of humaneval rarely cut off" in made[0]
    assert "max@128 over grpo on the 15 without the latter" in made[0]
    same = "+0.000 (+0.000 to +0.000)"  # the one problem that differs is often cut off
    assert made[2:] == [
        f"| base | 100 % | 100 % | 100 % | 100 % | {'0.000 | ' * 4}{same} | {same} |",
        f"| grpo | 19 % | 19 % | 19 % | 19 % | {'0.000 | ' * 4} |  |",
        f"| off-policy | 6 % | 6 % | 6 % | 6 % | 0.000 | 0.000 | 1.000 | 1.000 | {same} | {same} |",
    ]


def test_answers_that_are_no_programs_are_told_from_wrong_ones(tmp_path):
    rewards = np.array([[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    for cell in ("base", "mbpp-grpo"):
        folder = tmp_path / "work" / f"{cell}-s0"
        run = write_set(folder, "leetcode", rewards, cut_off=lambda problem, sample: sample == 0)
        if (
            cell == "mbpp-grpo"
        ):  # of the first problem all that fail do not compile; one was cut off
            table = run.read("verdicts").to_pylist()
            for row in table:
                if row["problem"] == "leetcode/0" and not row["passed"]:
                    row["status"] = "did not compile"
            run.write("verdicts", "000000", pa.Table.from_pylist(table, VERDICTS))
        collect(folder, tmp_path / "out", {**ABOUT, "cell": cell}, ["leetcode"])
    made = blocks()["unfinished"](Data(tmp_path / "out")).splitlines()
    assert made[2:] == ["| base | 0 % | 0.375 | 0.375 |", "| grpo | 25 % | 0.375 | 0.500 |"]


def test_tries_are_compared_problem_by_problem_over_both_sets(tmp_path):
    none, all_, few = np.zeros((4, 128)), np.ones((4, 128)), np.zeros((4, 128))
    few[:2, 0] = 1.0  # half of the problems, by one sample each
    measured = {"grpo": (few, none), "grpo-slow": (none, none), "all-k": (none, all_)}
    for cell, rewards in measured.items():
        folder = tmp_path / "work" / f"try-{cell}-s0"
        sets = ["mbpp-validation", "validation"]
        for name, values in zip(sets, rewards, strict=True):
            write_set(folder, name, values)
        collect(folder, tmp_path / "out", {**ABOUT, "cell": f"try-{cell}"}, sets)
    made = blocks()["tries"](Data(tmp_path / "out")).split("\n\n")[-1]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.splitlines()]
    gains = {row[0]: [gain.split(" ")[0] for gain in row[-3:]] for row in cells}
    # Two of eight problems, of which one sample of 128 passes.
    assert gains["grpo"] == [f"{0.25 / 128:+.3f}", f"{0.25 * 16 / 128:+.3f}", "+0.250"]
    assert gains["all-k"] == ["+0.500"] * 3
    assert gains["grpo-slow"] == [""] * 3


def test_a_seed_with_fewer_samples_says_nothing_of_a_larger_k(results, tmp_path):
    more = np.hstack([rewards_of(6, seed=8), rewards_of(6, seed=9)])
    for cell in ("base", "mbpp-grpo"):
        write_set(tmp_path / "more" / f"{cell}-s2", "mbpp", more)
        about = {**ABOUT, "cell": cell, "seed": 2}
        collect(tmp_path / "more" / f"{cell}-s2", results, about, ["mbpp"])
    data = Data(results)
    np.testing.assert_allclose(data.scores("base", "mbpp", [8], "max")[:, 0], more.max(1))
    both = (rewards_of(6, seed=0).mean(1) + more.mean(1)) / 2
    np.testing.assert_allclose(data.scores("base", "mbpp", [1], "max")[:, 0], both)
    assert not data.has("mbpp-off-policy-exact", "mbpp", 8)


def test_a_page_is_filled_between_its_marks():
    page = "one\n<!-- a -->\nold\n<!-- end a -->\ntwo\n"
    assert fill(page, {"a": "new"}) == "one\n<!-- a -->\nnew\n<!-- end a -->\ntwo\n"
    assert "no data yet" in fill(page, {"a": ""})
    with pytest.raises(ValueError, match="means no table"):
        fill(page, {"b": "new"})


def test_one_command_fills_several_pages(tmp_path):
    solved = {("base", 0): [0, 0], ("mbpp-grpo", 0): [N, 0]}
    write_results(tmp_path / "out", tmp_path / "work", solved)
    pages = [tmp_path / name for name in ("one.md", "two.md")]
    for page in pages:
        page.write_text(f"{page.stem}\n<!-- main-1 -->\n<!-- end main-1 -->\n")
    given = ["--results", str(tmp_path / "out"), "--only", "main-1", "--fill", *map(str, pages)]
    assert main(given) == 0
    for page in pages:
        text = page.read_text()
        assert text.startswith(page.stem)
        assert "| grpo |" in text


def test_results_are_unpacked_by_name(tmp_path, capsys):
    solved = {("base", 0): [0, 0], ("mbpp-grpo", 0): [N, 0], ("mbpp-grpo", 1): [N, N]}
    write_results(tmp_path / "out", tmp_path / "work", solved)
    given = ["--results", str(tmp_path / "out"), "--unpack", str(tmp_path / "runs"), "--only"]
    assert main([*given, "base-s0", "mbpp-grpo-s1"]) == 0
    assert sorted(x.name for x in (tmp_path / "runs").iterdir()) == ["base-s0", "mbpp-grpo-s1"]
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "runs" / name / "mbpp") for name in ("base-s0", "mbpp-grpo-s1")
    ]
    with pytest.raises(SystemExit):
        main([*given, "base-s0", "mbpp-gpro-s0"])
    assert "no result mbpp-gpro-s0" in capsys.readouterr().err


def test_reports_of_unpacked_results_say_nothing_of_texts_they_do_not_have(results, tmp_path):
    from maxk.report import Findings, gather
    from maxk.report.page import page

    folders = [
        folder for folder in unpack(stock_of(results), tmp_path / "runs") if folder.name == "mbpp"
    ]
    html = page(Findings(gather([f"{folder.parent.name}={folder}" for folder in folders[:2]])))
    assert "These runs hold no programs." in html
    assert "Entropy of completions" in html
    for absent in ("Different completions of a problem", "CPU seconds of judging", "timed out in"):
        assert absent not in html


def test_what_compare_says_of_unpacked_results_is_in_the_tables(results, tmp_path, capsys):
    from maxk.cli.compare import Compare

    folders = unpack(stock_of(results), tmp_path / "runs")
    named = [f"{folder.parent.name}={folder}" for folder in folders]
    assert Compare(tuple(named), k=(1,), form="markdown").run() == 0
    said = capsys.readouterr().out
    assert f"{rewards_of(6, seed=0).mean():.3f}" in said
    assert json.loads((results / "base-s0.json").read_text())["sets"]["mbpp"]["n"] == N
