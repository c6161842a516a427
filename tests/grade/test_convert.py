"""Runs in the format of before: refused with the command that converts them, and converted.

The two in tests/grade/format1 were written by the maxk that wrote that format, on the pocket model:
4 problems x 4 completions with two prompt variants, and 4 steps of configs/pocket.toml (of its
problems those in the rollouts are kept).
"""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from maxk.evaluate.read import read_run, unique_programs
from maxk.grade.convert import convert
from maxk.grade.parallel import grade_run
from maxk.report.gather import gather
from maxk.store.run import Run, RunError
from maxk.verify import VerifierSettings

OLD = Path(__file__).with_name("format1")


@pytest.fixture
def sampled(tmp_path) -> Path:
    return Path(shutil.copytree(OLD / "sample", tmp_path / "sample"))


@pytest.fixture
def trained(tmp_path) -> Path:
    folder = Path(shutil.copytree(OLD / "train", tmp_path / "train"))
    (folder / "model").mkdir()
    return folder


@pytest.mark.parametrize("kind", ["sample", "train"])
def test_an_old_run_is_refused_with_the_command(kind):
    with pytest.raises(RunError, match=rf"by an older maxk; run: maxk runs convert .*{kind}"):
        Run.open(OLD / kind)


def test_a_converted_sampling_run_is_as_if_it_were_graded_now(sampled):
    rewards = pq.read_table(sampled / "verdicts")["reward"].to_pylist()
    done = convert(sampled)
    assert done[0] == "16 verdicts in verdicts have their programs now."
    run = Run.open(sampled)
    assert run.config["prompt_variants"] == ["", "Use a loop."]
    assert run.read("verdicts")["reward"].to_pylist() == rewards
    made = VerifierSettings(workers=2)
    assert grade_run(run, made, "again") == 16
    columns = ["problem", "sample", "reward", "passed", "status", "program", "same_as"]
    assert run.read("verdicts", columns).equals(run.read("again", columns))
    assert read_run(sampled).samples == 16
    assert 0 < unique_programs(sampled) <= 1


def test_a_converted_training_run_is_read_by_the_report(trained):
    old = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert convert(trained)[-1] == f"{trained} has format 2 now."
    run = Run.open(trained)
    assert run.config["method"] == {
        "name": "bon-loo",
        "k": 4,
        "k_schedule": "constant",
        "k_switch": 0.5,
        "masking": "sequence",
    }
    assert run.config["reward"]["limits"]["cpu_seconds"] == 4.0
    assert run.config["trl"]["skip_zero_variance"] is True
    assert run.config["trl"]["pack_prompts"] is True
    assert "skip_silent" not in run.config["trl"]
    new = run.metrics()
    silent = [line["groups/no_signal"] for line in old if "groups/no_signal" in line]
    assert silent == [x for line in new if (x := line.get("groups/zero_variance")) is not None]
    assert len(silent) == 2, "one a batch"
    assert not any(key.startswith("drift/") for line in new for key in line)
    gathered = gather([trained])
    texts = [s.text for each in gathered.runs[0].samples.values() for s in each]
    assert len(texts) == run.read("rollouts").num_rows > 0
    assert all(run.read("rollouts", ["program"])["program"].to_pylist())


def test_an_unfinished_training_run_is_refused_and_left_as_it_was(trained):
    (trained / "model").rmdir()
    before = (trained / "config.toml").read_bytes()
    with pytest.raises(RunError, match="not finished; finish it with the maxk that began it"):
        convert(trained)
    assert (trained / "config.toml").read_bytes() == before


def test_a_second_conversion_changes_nothing(sampled):
    convert(sampled)
    files = {path: path.read_bytes() for path in sampled.rglob("*") if path.is_file()}
    assert convert(sampled) == [f"{sampled} has format 2 already."]
    assert {path: path.read_bytes() for path in files} == files
