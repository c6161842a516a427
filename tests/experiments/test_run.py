"""The script that runs the grid: stopped, gone on with, within its budget."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from experiments.grid import crew as grid_crew
from experiments.grid import run as grid_run
from experiments.grid.crew import carry_out_all
from experiments.grid.judge import main as judge_main
from experiments.grid.results import read_results
from experiments.grid.run import FAILED, MORE, Runner, main
from experiments.grid.stages import Cell, Site
from experiments.grid.tables import main as tables_main
from maxk.store.run import Run
from maxk.store.tables import pairs_of
from maxk.train import MaxKTrainer
from maxk.verify import Verifier
from tests.experiments.small import write_data, write_grid

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

STEPS = 4
KEYS = (
    *("--trl.num_generations", "4", "--trl.per_device_train_batch_size", "8"),
    *("--trl.gradient_accumulation_steps", "1", "--trl.max_completion_length", "12"),
    *("--trl.bf16", "false", "--trl.max_steps", str(STEPS), "--trl.num_iterations", "2"),
    *("--reward.workers", "2"),
)
SETS = {"mbpp": 3, "mbpp-plus": 2, "humaneval": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("data"))
    write_grid(folder / "grid.toml")
    return folder


class Place:
    """Folders of a machine, and the command there."""

    def __init__(self, data: Path, out: Path) -> None:
        self.data, self.out = data, out
        (out / "have").mkdir(parents=True)

    def run(self, *words: str, keys: tuple[str, ...] = KEYS) -> int:
        places = {"work": "work", "results": "results", "have": "have", "pack": "all.tar.gz"}
        given = [x for name, path in places.items() for x in (f"--{name}", str(self.out / path))]
        given += ["--engine", "transformers", "--model", "pocket", "--judges", "2"]
        given += ["--grid", str(self.data / "grid.toml"), "--data-dir", str(self.data)]
        return main([*words, *given, "--tag=-t", "--", *keys])

    def stages(self, name: str) -> list[str]:
        text = (self.out / "work" / name / "stages.jsonl").read_text()
        return [json.loads(line)["stage"] for line in text.splitlines()]


@pytest.fixture
def place(data, tmp_path) -> Place:
    return Place(data, tmp_path)


def test_cells_from_training_to_results_and_never_twice(place, monkeypatch, capsys):
    assert place.run("base", "mbpp-grpo") == 0
    found = {result.name: result for result in read_results(place.out / "results")}
    assert set(found) == {"base-t-s0", "mbpp-grpo-t-s0"}
    for result in found.values():
        assert {k: v["problems"] for k, v in result.sets.items()} == SETS
        assert result.has(SETS, 4)
    trained = found["mbpp-grpo-t-s0"].about["train"]
    assert trained["metrics"]["step"] == list(range(1, STEPS + 1))
    assert trained["config"]["trl"]["seed"] == 0
    assert found["base-t-s0"].about["train"] is None
    assert (place.out / "all.tar.gz").exists()
    assert not list((place.out / "results").glob("*.safetensors"))
    # The samples of MBPP+ are those of MBPP.
    sets = place.out / "work" / "base-t-s0" / "sets"
    mbpp, plus = (Run.open(sets / name).read("completions") for name in ("mbpp", "mbpp-plus"))
    texts = {(row["problem"], row["sample"]): row["completion"] for row in mbpp.to_pylist()}
    for row in plus.to_pylist():
        assert texts[row["problem"].replace("-plus", ""), row["sample"]] == row["completion"]
    # A later machine that has nothing but the results has nothing to do.
    (place.out / "work").rename(place.out / "gone")
    (place.out / "results").rename(place.out / "have2")
    (place.out / "have").rmdir()
    (place.out / "have2").rename(place.out / "have")
    monkeypatch.setattr(Runner, "start", lambda *_: pytest.fail("the engine was started"))
    assert place.run("base", "mbpp-grpo") == 0
    capsys.readouterr()
    assert tables_main(["--results", str(place.out / "have"), "--only", "profile", "sampling"]) == 0
    said = capsys.readouterr().out
    assert "| mbpp-grpo-t-s0 | 4 |" in said
    assert "| base-t-s0 | humaneval | 8 |" in said


def test_what_is_judged_later_and_elsewhere_has_the_same_results(data, tmp_path, capsys):
    at_once, later = Place(data, tmp_path / "a"), Place(data, tmp_path / "b")
    assert at_once.run("base") == 0
    assert later.run("base", "--judge-later") == 0
    (result,) = read_results(later.out / "results")
    assert result.sets == {}
    assert later.run("base", "--judge-later") == 0  # there is no more to sample
    assert later.stages("base-t-s0").count("sample mbpp") == 1
    elsewhere = tmp_path / "c"
    (later.out / "work").rename(elsewhere)
    (elsewhere / "base-t-s0" / "sets" / "humaneval" / "verdicts").mkdir()  # begun, and cut off
    given = ["--work", str(elsewhere), "--results", str(tmp_path / "judged"), "--judges", "2"]
    assert judge_main(given) == 0
    assert "base-t-s0: humaneval, 8 completions" in capsys.readouterr().out
    (one,), (two,) = read_results(at_once.out / "results"), read_results(tmp_path / "judged")
    assert two.has(SETS, 4)
    assert {k: v["max_at_1"] for k, v in one.sets.items()} == {
        k: v["max_at_1"] for k, v in two.sets.items()
    }
    tables = [
        pq.read_table(folder / "base-t-s0.parquet").drop_columns("entropy").to_pylist()
        for folder in (at_once.out / "results", tmp_path / "judged")
    ]
    assert tables[0] == tables[1]
    for file in (tmp_path / "judged").iterdir():
        file.unlink()
    assert judge_main(given) == 0  # of what was judged elsewhere the results are made
    assert capsys.readouterr().out == ""
    assert read_results(tmp_path / "judged")[0].has(SETS, 4)


def test_cells_are_judged_in_the_order_in_which_they_were_begun(place, capsys):
    given = ["--work", str(place.out / "work"), "--results", str(place.out / "judged")]
    for seed in ("1", "0"):
        sets = ("--sets", "humaneval", "mbpp") if seed == "1" else ("--sets", "mbpp")
        assert place.run("base", "--seeds", seed, "--judge-later", *sets) == 0
    capsys.readouterr()
    assert judge_main([*given, "--judges", "2"]) == 0
    said = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["base-t-s1: humaneval", "base-t-s1: mbpp", "base-t-s0: mbpp"]


def test_a_training_that_is_cut_off_goes_on_from_where_it_was(place, monkeypatch):
    judge, calls = Verifier.judge, []

    def terminated(self: Verifier, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:  # in the first batch, as the end of a budget does it
            os.kill(os.getpid(), signal.SIGTERM)
        return judge(self, *args, **kwargs)

    monkeypatch.setattr(Verifier, "judge", terminated)
    assert place.run("mbpp-grpo", "--sets", "humaneval", "--profile", "3") == MORE
    folder = place.out / "work" / "mbpp-grpo-t-s0"
    assert not (folder / "train" / "model").exists()
    (half,) = read_results(place.out / "results")
    done = half.about["train"]["metrics"]["step"]
    assert 0 < len(done) < STEPS
    assert half.sets == {}
    assert "profile" not in half.about
    assert place.run("mbpp-grpo", "--sets", "humaneval", "--profile", "3") == 0
    (whole,) = read_results(place.out / "results")
    assert whole.about["train"]["metrics"]["step"] == list(range(1, STEPS + 1))
    starts = [each["from_step"] for each in whole.about["train"]["environment"]]
    assert starts == [0, len(done)]
    assert whole.about["id"] == half.about["id"]
    stages = place.stages("mbpp-grpo-t-s0")
    assert stages == ["train", "train", "load humaneval", "sample humaneval"]
    profile = whole.about["profile"]
    spent = {line["name"]: line["ms"] for line in profile["by_cpu"]}
    assert 0 < spent["aten::mm"] < sum(spent.values()) < 4 * 1000 * profile["seconds"]
    assert profile["by_gpu"] == [] or profile["gpu_seconds"] > 0


def test_sampling_that_is_cut_off_goes_on_without_a_sample_twice(place, monkeypatch):
    left, asked = Site.left, []

    def ends(self: Site) -> float:
        asked.append(1)
        return -1.0 if len(asked) > 6 else left(self)

    monkeypatch.setattr(Site, "left", ends)
    assert place.run("base", "--sets", "mbpp") == MORE
    run = Run.open(place.out / "work" / "base-t-s0" / "sets" / "mbpp")
    there = pairs_of(run)
    before = run.read("completions", ["problem", "sample", "completion"]).to_pylist()
    assert 0 < len(there) < 12
    monkeypatch.undo()
    assert place.run("base", "--sets", "mbpp") == 0
    after = run.read("completions", ["problem", "sample", "completion"]).to_pylist()
    assert len(after) == len(pairs_of(run)) == len(pairs_of(run, "verdicts")) == 12
    assert all(row in after for row in before)


def test_what_cannot_be_ended_is_not_begun_and_what_can_is(place, monkeypatch):
    monkeypatch.setattr(Runner, "to_train", lambda self, cell, costs: 1e6 * (cell.name != "base"))
    assert place.run("mbpp-grpo", "base", "--budget", "3000", "--sets", "humaneval") == MORE
    assert [each.name for each in (place.out / "work").iterdir()] == ["base-t-s0"]
    assert [result.name for result in read_results(place.out / "results")] == ["base-t-s0"]


def test_a_spent_budget_begins_nothing(place):
    assert place.run("base", "--budget", "0.01", "--sets", "humaneval") == MORE
    assert not (place.out / "work" / "base-t-s0").exists()


def test_time_that_the_machine_has_later_counts(place, monkeypatch):
    begun: list[str] = []
    monkeypatch.setattr(Runner, "to_train", lambda self, cell, costs: 1e6)
    monkeypatch.setattr(Cell, "train", lambda self: begun.append(self.name))
    monkeypatch.setattr(Runner, "measure", lambda self, cell: None)
    words = ("mbpp-grpo", "--budget", "3000", "--sets", "humaneval")
    assert place.run(*words) == MORE
    assert begun == []
    assert place.run(*words, "--later", "1e7") == MORE  # begun, and not measured here
    assert begun == ["mbpp-grpo"]


def test_results_of_half_a_cell_are_made_again_when_its_weights_are_gone(place):
    assert place.run("mbpp-grpo", "--sets", "humaneval") == 0
    (first,) = read_results(place.out / "results")
    (place.out / "work" / "mbpp-grpo-t-s0").rename(place.out / "gone")
    assert place.run("mbpp-grpo", "--sets", "humaneval", "mbpp") == 0
    (second,) = read_results(place.out / "results")
    assert second.about["id"] != first.about["id"]
    assert set(second.sets) == {"humaneval", "mbpp"}


def test_seeds_train_apart_and_the_base_has_none(place):
    runner = Runner(grid_run.arguments(["mbpp-grpo", "base", "--seeds", "3", "4"]))
    assert runner.asked == [("base", 3), ("mbpp-grpo", 3), ("mbpp-grpo", 4)]
    site = runner.site(grid_run.TransformersEngine(), grid_run.GpuWatch(("no-gpu",)))
    assert Cell(site, "mbpp-grpo", 4).config().trl["seed"] == 4
    assert Cell(site, "mbpp-grpo", 4).folder != Cell(site, "mbpp-grpo", 3).folder


@pytest.mark.parametrize("other", [["--", "--trl.beta", "0.5"], ["--max-tokens", "512"]])
def test_other_keys_need_a_name_of_their_own(capsys, other):
    with pytest.raises(SystemExit):
        grid_run.arguments(["mbpp-grpo", *other])
    assert "need a --tag" in capsys.readouterr().err


def test_completions_may_be_measured_to_another_length(place):
    assert place.run("base", "--sets", "humaneval", "--max-tokens", "5") == 0
    run = Run.open(place.out / "work" / "base-t-s0" / "sets" / "humaneval")
    assert run.config["settings"]["max_tokens"] == 5
    lengths = run.read("completions", ["tokens"])["tokens"].to_pylist()
    assert max(lengths) == 5  # grid.toml has 12


def test_what_there_is_to_do_can_be_asked(place, capsys):
    assert place.run("base", "drift-*", "--list") == 0
    said = capsys.readouterr().out
    assert said.count("drift-") == 8  # five methods, and three without a bound
    assert "min, and 1 s a start" in said


@pytest.mark.slow
def test_smoke_goes_through_all_stages(place):
    small = (*KEYS, "--data.limit", "8")
    assert place.run("--smoke", "--sets", *SETS, keys=(*small, "--trl.num_generations", "8")) == 0
    found = read_results(place.out / "results" / "smoke")
    assert {result.about["cell"] for result in found} == {
        *("base", "mbpp-grpo", "mbpp-off-policy-exact")
    }


def test_a_cell_that_goes_wrong_does_not_keep_the_others_from_their_turn(
    place, monkeypatch, capsys
):
    sample = Cell.sample

    def fails(self: Cell, *more: Any) -> None:
        if self.name == "base":
            raise OSError("no space left")
        sample(self, *more)

    monkeypatch.setattr(Cell, "sample", fails)
    assert place.run("base", "table4-1x1", "--sets", "humaneval") == FAILED
    assert "failed: base-t-s0" in capsys.readouterr().out
    (result,) = [r for r in read_results(place.out / "results") if r.sets]
    assert result.name == "table4-1x1-t-s0"


@pytest.mark.slow
def test_cells_side_by_side(place):
    assert place.run("base", "mbpp-grpo", "table4-1x1", "--jobs", "2") == 0
    found = {result.name: result for result in read_results(place.out / "results")}
    assert set(found) == {"base-t-s0", "mbpp-grpo-t-s0", "table4-1x1-t-s0"}
    assert all(result.has(SETS, 4) for result in found.values())
    assert {result.about["beside"] for result in found.values()} == {1}
    assert (place.out / "all.tar.gz").exists()


def crew(monkeypatch, *words: str) -> argparse.Namespace:
    """Processes that do nothing but what their cell's name says."""

    def command(given: Any, name: str, seed: int, left: float) -> list[str]:
        return [sys.executable, "-c", {"mbpp-grpo": "1/0", "base": "raise SystemExit(3)"}[name]]

    monkeypatch.setattr(grid_crew, "command_of", command)
    return grid_run.arguments([*words, "--jobs", "2"])


def test_a_process_that_fails_is_named_and_one_whose_time_is_over_is_not(monkeypatch):
    given = crew(monkeypatch)
    later = time.monotonic() + 60
    assert carry_out_all(given, [("base", 0), ("mbpp-grpo", 1)], later) == ["mbpp-grpo-s1"]
    assert carry_out_all(given, [("mbpp-grpo", 0)], time.monotonic()) == []


def test_a_process_that_fails_is_tried_once_more_after_the_others(monkeypatch, tmp_path):
    given, log = crew(monkeypatch), tmp_path / "log"

    def command(given: Any, name: str, seed: int, left: float) -> list[str]:
        begun = log.read_text().count(name) if log.exists() else 0
        with log.open("a") as file:
            file.write(name + "\n")
        return [sys.executable, "-c", "1/0" if begun < {"a": 0, "b": 1, "c": 5}[name] else ""]

    monkeypatch.setattr(grid_crew, "command_of", command)
    cells = [("b", 0), ("c", 0), ("a", 0), ("a", 1)]
    assert carry_out_all(given, cells, time.monotonic() + 60) == ["c-s0"]
    assert sorted(log.read_text().split()) == ["a", "a", "b", "b", "c", "c"]
    assert set(log.read_text().split()[-2:]) == {"b", "c"}


def test_a_process_is_told_all_that_its_cell_depends_on(monkeypatch):
    words = ["base", "--jobs", "3", "--n", "8", "--tag=-x", "--sets", "mbpp", "humaneval"]
    words += [
        "--max-tokens",
        "9",
        "--engine-option",
        "batch",
        "64",
        "--later",
        "60",
        "--",
        "--trl.beta",
        "0.5",
    ]
    given = grid_run.arguments(words)
    again = grid_run.arguments(grid_crew.command_of(given, "mbpp-grpo", 4, 100.0)[3:])
    assert (again.cells, again.seeds, again.budget, again.beside) == (["mbpp-grpo"], [4], 100.0, 2)
    own = {"cells", "seeds", "budget", "beside", "jobs"}
    for key in vars(given).keys() - own:
        assert getattr(again, key) == getattr(given, key), key


def test_a_training_that_runs_out_of_memory_is_begun_again_with_half_the_rows(place, monkeypatch):
    step, tried = MaxKTrainer.training_step, []

    def training_step(self: MaxKTrainer, *given: Any, **named: Any) -> torch.Tensor:
        tried.append(self.args.per_device_train_batch_size)
        if tried[-1] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self, *given, **named)

    monkeypatch.setattr(MaxKTrainer, "training_step", training_step)
    keys = (*KEYS, "--trl.per_device_train_batch_size", "16")
    assert place.run("mbpp-grpo", "--sets", "humaneval", keys=keys) == 0
    assert tried[:2] == [16, 8]
    assert set(tried[2:]) == {4}
    (result,) = read_results(place.out / "results")
    trl = result.about["train"]["config"]["trl"]
    assert (trl["per_device_train_batch_size"], trl["gradient_accumulation_steps"]) == (4, 4)
    assert result.about["train"]["metrics"]["step"] == list(range(1, STEPS + 1))
    assert place.stages(result.name)[:3] == ["train"] * 3


def test_one_that_cannot_do_with_less_memory_fails(place, monkeypatch, capsys):
    def training_step(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(MaxKTrainer, "training_step", training_step)
    assert place.run("mbpp-grpo", "--sets", "humaneval") == FAILED
    assert "failed: mbpp-grpo-t-s0" in capsys.readouterr().out
    assert place.stages("mbpp-grpo-t-s0") == ["train"] * 2  # 8 rows, and 4: a group
