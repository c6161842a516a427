"""What the page holds of the samples: all verdicts, and the programs that fit."""

import base64
import dataclasses
import json
import random
import zlib
from typing import Any

import pytest

from maxk.grade import program_for
from maxk.records import Problem, StdinTest
from maxk.report import gather
from maxk.report.pack import pack
from maxk.store.run import Run
from maxk.store.tables import write_problems
from tests.report.runs import problem, sampled, trained

MANY = 10**9


def unpacked(payload: str) -> dict[str, Any]:
    return json.loads(zlib.decompress(base64.b64decode(payload), -15))


def test_everything_comes_back(tmp_path):
    passes = {"a": [4, 1, 0, 1], "b": [0, 0, 0, 0]}
    data = gather([sampled(tmp_path / "run", passes)])
    packed = pack(data, MANY)
    first = unpacked(packed.payloads[0])
    (columns,) = first["runs"]
    assert columns["status"] == "PWWW"
    assert [first["outcomes"][i] for i in columns["outcome"]] == ["4P", "1P3W", "4W", "1P3W"]
    texts = [first["texts"][i] for i in columns["text"]]
    assert texts == ["print(4)  # 0", "print(1)  # 1", "print(0)  # 2", "print(1)  # 3"]
    assert columns["tokens"] == [10, 11, 12, 13]
    assert first["tests"][1] == [1, "-1", "-2"]
    key = f"{columns['text'][1]}/{columns['outcome'][1]}"
    assert columns["got"][key] == ["", "5", "5", "5"]
    assert packed.index[0]["runs"] == {0: [1, 4, 1]}
    assert (packed.samples, packed.with_text, packed.programs, packed.kept) == (8, 8, 8, 8)


def test_lines_are_numbered_as_they_were_judged(tmp_path):
    plain = problem("a")
    granted = dataclasses.replace(plain, preamble="import math\nimport re\n")
    for number, each in enumerate([plain, granted]):
        data = gather([sampled(tmp_path / str(number), {"a": [4]}, problems={"a": each})])
        judged = program_for(each, "```python\nprint(1)\n```")
        expected = judged.split("\n").index("print(1)") + 1
        assert unpacked(pack(data, MANY).payloads[0])["first_line"] == expected


def test_the_same_text_is_stored_once_for_all_runs(tmp_path):
    runs = [sampled(tmp_path / name, {"a": [4, 4, 4]}, text=lambda *_: "print(1)") for name in "xy"]
    packed = pack(gather(runs), MANY)
    assert unpacked(packed.payloads[0])["texts"] == ["print(1)"]
    assert (packed.samples, packed.programs) == (6, 1)


def test_a_small_budget_keeps_all_verdicts_and_says_what_is_left_out(tmp_path):
    chance = random.Random(0)
    noise = [["".join(chance.choices("abcdefgh", k=400)) for _ in range(64)] for _ in range(6)]
    passes = {f"p{i}": [4] * 8 + [1] * 28 + [0] * 28 for i in range(6)}
    run = sampled(tmp_path / "run", passes, text=lambda p, s: f"x = '{noise[int(p[1])][s]}'")
    data = gather([run])
    whole, small = pack(data, MANY), pack(data, 40_000)
    assert whole.most is None
    assert small.size <= 40_000 < whole.size
    assert small.most is not None
    assert 0 < small.most < 64
    for payload in map(unpacked, small.payloads):
        (columns,) = payload["runs"]
        assert columns["status"] == "P" * 8 + "W" * 56
        kept = [i for i, text in enumerate(columns["text"]) if text >= 0]
        assert len(kept) == small.most
        assert {columns["status"][i] for i in kept} == {"P", "W"}  # in turn
    assert small.with_text == 6 * small.most
    assert pack(data, 40_000, most=3).most == 3


def test_flagged_passes_come_first(tmp_path):
    def text(_: str, sample: int) -> str:
        return "print(6)" if sample == 5 else f"print(2 * int(input()))  # {sample}"

    packed = pack(gather([sampled(tmp_path / "run", {"a": [4] * 8}, text=text)]), 0, most=1)
    (columns,) = unpacked(packed.payloads[0])["runs"]
    assert [i for i, place in enumerate(columns["text"]) if place >= 0] == [5]
    assert columns["flags"] == {"5": ["prints its answer without reading the input"]}
    assert packed.index[0]["flagged"] == 1


def test_tests_at_which_samples_fail_are_the_ones_shown(tmp_path):
    tests = [StdinTest(str(i), str(2 * i)) for i in range(30)]
    known = {"a": problem("a", tests=tests)}
    folder = sampled(tmp_path / "run", {"a": [4] * 4}, problems=known)
    data = gather([folder])
    shown = [test[0] for test in unpacked(pack(data, MANY).payloads[0])["tests"]]
    assert shown == list(range(8))  # nothing fails: the first
    sample = data.runs[0].samples["a"][0]
    object.__setattr__(sample, "outcomes", "P" * 20 + "W" * 10)
    shown = [test[0] for test in unpacked(pack(data, MANY).payloads[0])["tests"]]
    assert 20 in shown
    assert len(shown) == 8


def test_training_samples_have_step_weights_and_ratios(tmp_path):
    data = gather([trained(tmp_path / "t", steps=2)])
    (columns,) = unpacked(pack(data, MANY).payloads[0])["runs"]
    assert columns["step"] == [0] * 4 + [1] * 4
    assert columns["weights"][0] == [0.25, -0.125]
    assert columns["ratios"][0] == [0, 0.5]
    assert "reward" not in columns  # it follows from the tests


def test_the_tests_of_a_training_run_are_those_it_keeps(tmp_path):
    folder = trained(tmp_path / "train")
    assert all(not task.tests for task in gather([folder]).tasks.values())
    tests = [StdinTest("3\n", "6"), StdinTest("4\n", "8")]
    write_problems(Run.open(folder), [Problem(f"train/{i}", "Double it.", tests) for i in range(9)])
    tasks = gather([folder]).tasks
    assert sorted(tasks) == ["train/0", "train/1"]  # those that were trained on
    assert tasks["train/0"].statement == "Double it."
    assert tasks["train/0"].tests == tuple(tests)


def test_fewer_than_no_programs_is_an_error(tmp_path):
    data = gather([sampled(tmp_path / "run", {"a": [4, 0]})])
    with pytest.raises(ValueError, match="samples=-1 must be 0 or more"):
        pack(data, MANY, -1)
    assert pack(data, MANY, 0).with_text == 0


@pytest.mark.parametrize("most", [1, 2])
def test_the_number_of_programs_can_be_given(tmp_path, most):
    data = gather([sampled(tmp_path / "run", {"a": [4, 0, 1, 2], "b": [0, 1, 2, 3]})])
    packed = pack(data, MANY, most)
    assert packed.kept == 2 * most
    assert packed.most == most
