"""Other ways to sample: from samples to a plan, and from the plan to test sets and results."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from experiments.grid.arms import between, main
from experiments.grid.arms_site import read_arms
from experiments.grid.plan import HERE, read_grid
from experiments.grid.results import read_results
from maxk.evaluate import allocated
from maxk.merge import interpolate
from maxk.pocket import folder as pocket
from maxk.sample.native.engine import TransformersSampler
from maxk.store.run import Run
from maxk.store.tables import COMPLETIONS
from tests.experiments.small import humaneval, mbpp, write_data, write_grid
from tests.tiny import tiny_model

CELL, BASE = "leetcode-grpo-s1", "base-s0"
ARMS = """
n = 4
max_tokens = 12
hints = ["Be short.", "Be quick."]
[ways]
plain = { temperature = 1.0 }
again = { temperature = 1.0 }
back = { temperature = 1.0, start = 0.5 }
hints = { temperature = 1.0, hints = true }
[validation]
mbpp-train = 5
mbpp-validation = 1
[test]
sets = ["mbpp", "humaneval"]
judged_too = { mbpp-plus = "mbpp" }
k = 8
alone = "again"
"""
WAYS = ["plain", "again", "back", "hints"]
SOLVED = {  # samples, by task
    "plain": {511: [0], 512: [0]},
    "back": {601: [0, 1, 2], 606: [1, 2, 3]},
}


class Place:
    """Folders of a machine, and the command there."""

    def __init__(self, out: Path) -> None:
        self.out, self.work, self.results = out, out / "work", out / "results" / "arms"
        self.data = out / "data"

    def prepare(self) -> None:
        """Data, and a model that is trained."""
        write_data(self.data)
        # The numbers of tasks of MBPP+.
        rows = "".join(json.dumps(humaneval(i)) + "\n" for i in (11, 12)).encode()
        (self.data / "humaneval" / "HumanEval.jsonl.gz").write_bytes(gzip.compress(rows))
        write_grid(self.out / "grid.toml", **{"mbpp-validation": 2, "mbpp-train": 10})
        (self.out / "arms.toml").write_text(ARMS)
        trained = self.work / CELL / "train" / "model"
        shutil.copytree(pocket(), trained)
        file = trained / "model.safetensors"
        weights = {k: 1.05 * v for k, v in load_file(file).items()}
        save_file(weights, file, {"format": "pt"})
        (self.work / CELL / "id").write_text("abc")

    def run(self, *words: str) -> None:
        given = ["--work", str(self.work), "--data-dir", str(self.data), "--model", "pocket"]
        given += ["--grid", str(self.out / "grid.toml"), "--arms", str(self.out / "arms.toml")]
        given += ["--results", str(self.results), "--judges", "2"]
        assert main([*words, *given]) == 0

    def folder(self, way: str, phase: str = "validation", cell: str = CELL) -> Path:
        return self.work / cell / "arms" / phase / way

    def texts(self, way: str, phase: str = "validation", cell: str = CELL) -> dict[Any, str]:
        rows = Run.open(self.folder(way, phase, cell)).read("completions").to_pylist()
        return {(row["problem"], row["sample"]): row["completion"] for row in rows}

    def set_plan(self, order: list[str]) -> None:
        made = {"order": order, "validation": [0.0]}
        (self.work / CELL / "arms" / "plan.json").write_text(json.dumps(made))

    def about(self, cell: str = CELL) -> dict[str, Any]:
        return json.loads((self.results / f"{cell}.json").read_text())

    def set_together(self, order: list[list[str]]) -> None:
        (self.work / "together.json").write_text(json.dumps({"order": order, "validation": [0.0]}))

    def rows(self, cell: str = CELL) -> list[dict[str, Any]]:
        return pq.read_table(self.results / f"{cell}.parquet").to_pylist()


@pytest.fixture(scope="module")
def chosen(tmp_path_factory) -> Place:
    """With two models sampled on validation and judged."""
    place = Place(tmp_path_factory.mktemp("arms"))
    place.prepare()
    place.run("sample", CELL, BASE)
    for way in SOLVED:
        solve(place, way)
    place.run("judge", CELL, BASE)
    return place


def solve(place: Place, way: str) -> None:
    """Right answers in the place of some samples: the small model has none."""
    run = Run.open(place.folder(way))
    (part,) = run.parts("completions")
    rows = run.read("completions").to_pylist()
    for row in rows:
        number = int(row["problem"].partition("/")[2])
        if row["sample"] in SOLVED[way].get(number, []):
            row["completion"] = f"```python\n{mbpp(number)['code']}\n```"
    run.write("completions", part, pa.Table.from_pylist(rows, COMPLETIONS))


@pytest.fixture
def place(chosen, tmp_path) -> Place:
    """A copy of it."""
    return Place(shutil.copytree(chosen.out, tmp_path / "copy"))


def test_from_samples_to_a_plan_to_test_sets_to_results(place):
    place.run("collect", CELL)  # half of it is there
    assert {row["phase"] for row in place.rows()} == {"validation"}
    assert place.about()["plan"] is not None
    place.run("sample", CELL, "--phase", "test")
    place.run("judge")
    place.run("collect", CELL)
    about, rows = place.about(), place.rows()
    order = about["plan"]["order"]
    tested = {*order, *(way for cell, way in about["together"]["order"] if cell == CELL)}
    sizes: Counter[tuple[str, str]] = Counter((row["phase"], row["set"]) for row in rows)
    ways = len(tested)
    assert sizes == {
        ("validation", "mbpp-train"): 2 * len(WAYS),  # every fifth of 10
        ("validation", "mbpp-validation"): 2 * len(WAYS),
        ("test", "mbpp"): 3 * ways,
        ("test", "mbpp-plus"): 2 * ways,
        ("test", "humaneval"): 2 * ways,
    }
    assert {row["problem"] for row in rows if row["set"] == "mbpp-train"} == {
        "mbpp/601",
        "mbpp/606",
    }
    assert all(len(row["reward"]) == len(row["tokens"]) == len(row["stopped"]) for row in rows)
    # What the plan is said to be worth is what the rows give.
    rewards = [
        [row["reward"] for row in rows if (row["phase"], row["way"]) == ("validation", way)]
        for way in WAYS
    ]
    curve = allocated(rewards, [WAYS.index(way) for way in order]).mean(axis=0)
    assert about["plan"]["validation"] == pytest.approx(curve.tolist(), abs=1e-4)
    assert len(order) == 8
    assert order[:2] == ["back", "plain"]
    assert about["plan"]["validation"][-1] == 1.0
    assert about["id"] == "abc"
    assert set(about["sampled"]) == {
        *(f"validation {way}" for way in WAYS),
        *(f"test {way}" for way in tested),
    }
    (machine,) = about["environment"]  # two starts of one
    assert machine["versions"]["torch"] == torch.__version__
    assert str(place.out) not in json.dumps(about)
    # In a folder of their own they are no results of the grid.
    assert read_results(place.results.parent) == []


def test_results_are_not_written_over_by_fewer(place):
    place.run("collect", CELL)
    before = place.rows()
    shutil.rmtree(place.folder("plain"))
    place.run("collect", CELL)
    assert place.rows() == before
    assert "validation plain" in place.about()["sampled"]


def test_equal_ways_give_other_samples_and_so_do_other_models(chosen):
    plain = chosen.texts("plain")
    assert chosen.texts("again") != plain
    assert chosen.texts("plain", cell=BASE) != plain
    seeds = [
        Run.open(chosen.folder(way, cell=cell)).config["settings"]["seed"]
        for cell in (CELL, BASE)
        for way in ("plain", "again", "hints")
    ]
    assert len(set(seeds)) == len(seeds)


def test_the_base_model_has_no_way_back(chosen):
    assert {path.name for path in chosen.folder("", cell=BASE).iterdir()} == set(WAYS) - {"back"}
    assert (
        "back" not in json.loads((chosen.work / BASE / "arms" / "plan.json").read_text())["order"]
    )


def test_what_is_sampled_and_judged_is_not_again(place, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in place.work.rglob("*.parquet")}
    monkeypatch.setattr(TransformersSampler, "__init__", lambda *_: pytest.fail("loaded"))
    place.run("sample", CELL, BASE)
    place.run("judge")
    assert {path: path.stat().st_mtime_ns for path in place.work.rglob("*.parquet")} == before


def test_a_way_that_is_cut_off_goes_on_and_is_judged(place, monkeypatch):
    """Also if all samples were there and the note of it was not."""
    for way in ("again", "back"):
        (place.folder(way) / "sampled.json").unlink()
        shutil.rmtree(place.folder(way) / "verdicts")
    before = place.texts("back")
    shutil.rmtree(place.folder("back") / "completions")
    plan = place.work / CELL / "arms" / "plan.json"
    expected = plan.read_text()
    plan.unlink()
    place.run("judge")
    assert not plan.exists()
    loaded: list[int] = []
    load = TransformersSampler.load
    monkeypatch.setattr(
        TransformersSampler, "load", lambda *given: (loaded.append(1), load(*given))[1]
    )
    place.run("sample", CELL)
    solve(place, "back")
    assert place.texts("back") == before  # by the same weights, which were loaded once
    assert loaded == [1]
    note = json.loads((place.folder("again") / "sampled.json").read_text())
    assert (note["n"], note["new"], note["tokens"]) == (4, 0, 0)
    place.run("judge")
    assert plan.read_text() == expected


def test_the_test_sets_are_sampled_by_the_plan_and_hints_equally_often(place):
    place.set_plan(["hints", "plain", "hints", "back", "back", "hints"])
    (place.work / "together.json").unlink()
    place.run("sample", CELL, "--phase", "test")
    folder = place.folder("", "test")
    counts = {path.name: Run.open(path).config["n"] for path in folder.iterdir()}
    assert counts == {"plain": 1, "back": 2, "hints": 4}  # 3, and so each of the two hints twice
    for way, n in counts.items():
        assert len(place.texts(way, "test")) == n * (3 + 2)


def test_models_together_have_a_plan_of_the_ways_of_all(place):
    made = json.loads((place.work / "together.json").read_text())
    place.run("collect", CELL, BASE)
    rewards, names = [], []
    for cell in (CELL, BASE):
        rows = place.rows(cell)
        for way in WAYS:
            if of_way := [row["reward"] for row in rows if row["way"] == way]:
                rewards.append(of_way)
                names.append([cell, way])
    assert len(names) == len(WAYS) + len(WAYS) - 1
    curve = allocated(rewards, [names.index(each) for each in made["order"]]).mean(axis=0)
    assert made["validation"] == pytest.approx(curve.tolist(), abs=1e-4)
    assert made["order"][:2] == [[CELL, "back"], [CELL, "plain"]]
    assert place.about()["together"] == place.about(BASE)["together"] == made


def test_models_have_no_plan_together_before_each_has_its_own(place):
    """Nor one model alone; and one that is there stays."""
    file = place.work / "together.json"
    expected = file.read_text()
    file.unlink()
    place.run("judge", CELL)
    assert not file.exists()
    shutil.rmtree(place.folder("hints", cell=BASE) / "verdicts")
    (place.work / BASE / "arms" / "plan.json").unlink()
    (place.folder("hints", cell=BASE) / "sampled.json").unlink()
    place.run("judge", CELL, BASE)
    assert not file.exists()
    place.run("sample", BASE)
    place.run("judge", CELL, BASE)
    assert file.read_text() == expected
    place.set_together([[CELL, "plain"]])
    place.run("judge", CELL, BASE)
    assert json.loads(file.read_text())["order"] == [[CELL, "plain"]]


def test_a_way_of_the_test_sets_has_the_samples_of_the_plan_that_asks_for_more(place):
    place.set_plan(["plain", "plain", "again"])
    orders = {CELL: ["plain", "hints", "again", "again", "again"], BASE: ["back", *["again"] * 9]}
    place.set_together([[cell, way] for cell, order in orders.items() for way in order])
    place.run("sample", CELL, "--phase", "test")
    folder = place.folder("", "test")
    counts = {path.name: Run.open(path).config["n"] for path in folder.iterdir()}
    assert counts == {"plain": 2, "hints": 2, "again": 3}


def test_the_plan_together_may_be_the_only_one_and_ways_have_several_times_its_samples(place):
    toml = place.out / "arms.toml"
    other = ARMS.replace('alone = "again"', 'alone = ""\nplans = ["together"]\ntimes = 3')
    toml.write_text(other)
    place.set_plan(["back", "back"])
    place.set_together([[CELL, "plain"], [BASE, "again"], [CELL, "hints"], [CELL, "plain"]])
    place.run("sample", CELL, "--phase", "test")
    place.run("sample", CELL, "--phase", "alone")
    counts = {path.name: Run.open(path).config["n"] for path in place.folder("", "test").iterdir()}
    assert counts == {"plain": 6, "hints": 4}  # 3, and so each of the two hints twice
    assert not place.folder("", "alone").exists()


def test_without_a_plan_together_each_model_has_its_own(place):
    toml = place.out / "arms.toml"
    toml.write_text(ARMS.replace("k = 8", 'k = 8\nplans = ["together"]'))
    place.set_plan(["back", "back"])
    (place.work / "together.json").unlink()
    place.run("sample", CELL, "--phase", "test")
    assert {path.name for path in place.folder("", "test").iterdir()} == {"back"}


def test_trainings_that_differ_in_their_seed_take_turns(place):
    """What one of them was lucky with does not count for it alone."""
    twin = "leetcode-grpo-s2"
    shutil.copytree(place.work / CELL, place.work / twin)
    for way in SOLVED:  # which the twin fails in
        folder = place.folder(way, cell=twin)
        shutil.rmtree(folder)
        shutil.copytree(place.folder("again", cell=twin), folder)
    (place.work / "together.json").unlink()
    place.run("judge", CELL, twin, BASE)
    order = json.loads((place.work / "together.json").read_text())["order"]
    assert order[:2] == [[CELL, "back"], [twin, "back"]]  # alone the first would not go on
    for way in WAYS:
        turns = [cell for cell, other in order if other == way and cell != BASE]
        assert turns == [CELL, twin, CELL, twin, CELL, twin, CELL, twin][: len(turns)]


def test_alone_is_one_way_with_other_samples_and_judged_by_all_tests(place):
    place.set_plan(["again"])
    (place.work / "together.json").unlink()
    for phase in ("test", "alone"):
        place.run("sample", CELL, "--phase", phase)
    assert {path.name for path in place.folder("", "alone").iterdir()} == {"again"}
    by_plan, alone = (place.texts("again", phase) for phase in ("test", "alone"))
    assert {sample for _, sample in alone} == set(range(8))
    assert {key: alone[key] for key in by_plan} != by_plan
    place.run("judge")
    place.run("collect", CELL)
    sizes = Counter((row["phase"], row["set"]) for row in place.rows())
    assert sizes["alone", "mbpp"] == sizes["test", "mbpp"] == 3
    assert sizes["alone", "mbpp-plus"] == 2
    assert all(len(row["reward"]) == 8 for row in place.rows() if row["phase"] == "alone")


def test_mbpp_plus_judges_the_samples_of_mbpp_alone(place):
    place.set_plan(["plain", "plain"])
    (place.work / "together.json").unlink()
    place.run("sample", CELL, "--phase", "test")
    place.run("judge")
    found = Run.open(place.folder("plain", "test") / "mbpp-plus").read("completions").to_pylist()
    texts = place.texts("plain", "test")
    assert {"humaneval/11", "humaneval/12"} < {problem for problem, _ in texts}
    assert {(row["problem"], row["sample"]) for row in found} == {
        (f"mbpp-plus/{number}", sample) for number in (11, 12) for sample in (0, 1)
    }
    for row in found:
        same = row["problem"].replace("mbpp-plus", "mbpp"), row["sample"]
        assert row["completion"] == texts[same]


def test_validation_is_judged_first_and_other_tests_last(place, capsys):
    place.set_plan(["again", "plain"])
    (place.work / "together.json").unlink()
    place.run("sample", CELL, "--phase", "test")
    shutil.rmtree(place.folder("plain") / "verdicts")
    capsys.readouterr()
    place.run("judge")
    said = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()]
    known = [f"{cell}: validation" for cell in (BASE, CELL) for _ in WAYS][1:]
    assert [line.rpartition(" ")[0] for line in said[: len(known)]] == known
    assert said[len(known) :] == [
        *(f"{CELL}: test {way}" for way in ("again", "plain")),
        *(f"{CELL}: test {way} mbpp-plus" for way in ("again", "plain")),
    ]


def test_who_follows_ends_with_the_file_that_says_so(place):
    (place.out / "sampled").touch()
    place.run("judge", "--follow", "--until", str(place.out / "sampled"))


def test_weights_on_the_way_back_are_those_of_a_mixed_model(tmp_path):
    for seed, name in enumerate(("trained", "base")):
        tiny_model(seed)[0].save_pretrained(tmp_path / name)
    trained, base = tmp_path / "trained", tmp_path / "base"
    interpolate(base, trained, 0.3, tmp_path / "mixed")
    mixed = load_file(tmp_path / "mixed" / "model.safetensors")
    found = dict(between(trained, base, 0.3))
    assert found.keys() == mixed.keys()
    for name, weight in found.items():
        torch.testing.assert_close(weight, mixed[name])
    kept = dict(between(trained, base, 0.0))
    for name, weight in load_file(trained / "model.safetensors").items():
        torch.testing.assert_close(kept[name], weight, rtol=0, atol=0)


@pytest.mark.parametrize("file", ["arms.toml", "trainings.toml"])
def test_the_ways_of_the_grid_are_of_its_sets_and_have_every_hint_equally_often(file):
    arms, grid = read_arms(HERE / file), read_grid()
    judged = arms.test["judged_too"]
    assert {*arms.validation, *arms.test["sets"], *judged} <= grid.sets.keys()
    assert not set(arms.validation) & {*arms.test["sets"], *judged}
    assert {name: grid.sets[name].judged_on for name in judged} == judged
    assert arms.n % len(arms.hints) == 0
    if arms.test["alone"]:
        alone = arms.ways[arms.test["alone"]]
        as_trained = (grid.settings.temperature, 0, False)
        assert (alone.temperature, alone.start, alone.hints) == as_trained
    for cell in (CELL, BASE) if file == "arms.toml" else (CELL,):
        assert len(arms.of(cell)) * arms.n >= arms.test["k"]


# --- arms.sh -------------------------------------------------------------------------------------

FAKE = """#!/bin/bash
# Notes that it begins and ends, and leaves the files that others wait for.
shift; module=${1##*.}; shift; all="$*"
after() { local words=" $all "; words=${words#* $1 }; echo "${words%% *}"; }
note() { echo "$1 $module $all" >> "$SAID"; }
work=$(after --work)
note begin
case "$module $1" in
run*)
    cell=$1-s$(after --seeds)
    if [[ " $FAILS " == *" $cell "* ]]; then exit 1; fi
    if [[ " $ONCE " == *" $cell "* && ! -e $work/$cell.tried ]]; then
        touch "$work/$cell.tried"; exit 1
    fi
    sleep 0.3 ;;
"arms sample")
    if [[ " $UNSAMPLED " == *" $2 "* ]]; then exit 1; fi
    mkdir -p "$work/$2/arms"; touch "$work/$2/arms/$(after --phase).done" ;;
"arms judge")
    [ -z "$NOJUDGE" ] || exit 1
    until [ -e "$(after --until)" ]; do
        for done in "$work"/*/arms/validation.done; do
            [ -e "$done" ] && touch "${done%/*}/plan.json"
        done
        plans=("$work"/*/arms/plan.json)
        if [ ${#plans[@]} = $TOGETHER ]; then sleep 0.3; note plans; touch "$work/together.json"; fi
        sleep 0.1
    done ;;
esac
note end
"""


def lanes(tmp_path: Path, *cells: str, **environment: str) -> tuple[int, list[str]]:
    """The exit status of arms.sh, and what its commands noted."""
    bin_, said = tmp_path / "bin", tmp_path / "said"
    bin_.mkdir()
    (bin_ / "python3").write_text(FAKE)
    (bin_ / "nvidia-cuda-mps-control").write_text("#!/bin/sh\nexit 1\n")
    for file in bin_.iterdir():
        file.chmod(0o755)
    places = {"MODEL": "model", "DATA": "data", "WORK": str(tmp_path / "work")}
    places |= {"RESULTS": str(tmp_path / "results"), "SAID": str(said), "FAILS": "", "ONCE": ""}
    places |= {"NOJUDGE": "", "UNSAMPLED": "", "TOGETHER": str(len(cells))}
    environment = dict(os.environ) | places | environment
    environment["PATH"] = f"{bin_}:{environment['PATH']}"
    started = subprocess.Popen(
        ["bash", HERE / "arms.sh", *cells],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return started.wait(30), said.read_text().splitlines()
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        raise


def place_of(said: list[str], *words: str) -> int:
    """Of the first line that has these words."""
    return next(i for i, line in enumerate(said) if all(word in line for word in words))


def test_lanes_train_choose_and_test_and_the_base_begins_when_others_are_trained(tmp_path):
    status, said = lanes(tmp_path, "leetcode-grpo-s1", "base-s0", "mbpp-grpo-s2")
    assert status == 0
    for name, seed in (("leetcode-grpo", 1), ("mbpp-grpo", 2)):
        steps = [
            place_of(said, f"begin run {name} --seeds {seed} ", "--beside 1 ", "--judge-later"),
            place_of(said, "end run", name),
            place_of(said, f"begin arms sample {name}-s{seed} --phase validation --beside 2 "),
            place_of(said, "plans arms judge leetcode-grpo-s1 base-s0 mbpp-grpo-s2 --follow "),
            place_of(said, f"begin arms sample {name}-s{seed} --phase test --beside 2 "),
            place_of(said, f"begin arms sample {name}-s{seed} --phase alone --beside 2 "),
            place_of(said, "end arms judge"),
        ]
        assert steps == sorted(steps)
        assert steps[1] < place_of(said, "begin arms sample base-s0 --phase validation")
    assert not [line for line in said if "run base" in line or "base-s0 --phase alone" in line]
    collected = "arms collect leetcode-grpo-s1 base-s0 mbpp-grpo-s2"
    assert said[-1].startswith(f"end {collected} --work {tmp_path / 'work'} --results")
    results = tmp_path / "results" / "arms"
    assert said[-1].endswith(f"{results} --arms {HERE / 'arms.toml'}")
    assert sum(line.startswith("begin arms judge") for line in said) == 1


def test_means_of_trainings_are_made_once_these_are_trained(tmp_path):
    cells = ("leetcode-grpo-s1", "leetcode-grpo-s2", "leetcode-grpo-of-2-s1", "base-s0")
    arms = tmp_path / "other.toml"
    status, said = lanes(tmp_path, *cells, ARMS=str(arms))
    assert status == 0
    made = place_of(said, "begin run leetcode-grpo-of-2 --seeds 1 ", "--beside 1 ")
    for seed in (1, 2):
        assert place_of(said, f"end run leetcode-grpo --seeds {seed} ") < made
    assert place_of(said, "end arms sample leetcode-grpo-of-2-s1 --phase test --beside 3 ")
    assert all(f"--arms {arms}" in line for line in said if " arms " in line)
    assert said[-1].split(" --results ")[1].startswith(str(tmp_path / "results" / "other"))


def test_a_training_that_fails_is_tried_again_and_then_the_others_go_on(tmp_path):
    status, said = lanes(
        *(tmp_path, "mbpp-grpo-s1", "mbpp-grpo-s2", "base-s0"),
        ONCE="mbpp-grpo-s1",
        FAILS="mbpp-grpo-s2",
    )
    assert status == 1
    begun = [line.split()[4] for line in said if line.startswith("begin run")]
    assert sorted(begun) == ["1", "1", "2", "2"]
    tested = {line.split()[3] for line in said if "end arms sample" in line and "test" in line}
    assert tested == {"mbpp-grpo-s1", "base-s0"}
    assert not [line for line in said if line.startswith("plans")]
    assert "end arms collect" in said[-1]


def test_a_model_that_cannot_be_sampled_keeps_no_other_from_its_own_plan(tmp_path):
    cells = ("mbpp-grpo-s1", "mbpp-grpo-s2")
    status, said = lanes(tmp_path, *cells, UNSAMPLED="mbpp-grpo-s2")
    assert status == 1
    assert place_of(said, "end arms sample mbpp-grpo-s1 --phase alone")


def test_one_model_waits_for_no_plan_of_several(tmp_path):
    status, said = lanes(tmp_path, "mbpp-grpo-s1", TOGETHER="0")
    assert status == 0
    assert place_of(said, "end arms sample mbpp-grpo-s1 --phase alone")


def test_without_a_judge_nobody_waits_for_a_plan(tmp_path):
    status, said = lanes(tmp_path, "mbpp-grpo-s1", NOJUDGE="1")
    assert status == 1
    assert sum(line.startswith("begin arms judge") for line in said) == 2
    assert place_of(said, "end arms sample mbpp-grpo-s1 --phase validation")
    assert not [line for line in said if "--phase test" in line]
