"""The model inside the package: it is whole, small, and found by its name in every command."""

import json
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxk.cli.arguments import filled
from maxk.cli.sample import Sample
from maxk.cli.solve import Solve
from maxk.config import read_config
from maxk.pocket import folder, resolve
from maxk.store.run import Run
from maxk.store.tables import pairs_of

ROOT = Path(__file__).parent.parent.parent
FILES = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
FILES |= {"chat_template.jinja", "model.safetensors", "loss.csv", "README.md"}


def test_the_folder_has_all_files_and_is_small():
    there = {path.name: path.stat().st_size for path in folder().iterdir()}
    assert there.keys() == FILES
    assert sum(there.values()) < 4e6


def test_the_wheel_has_them(tmp_path):
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {f"maxk/pocket/weights/{name}" for name in FILES} <= inside
    assert not [name for name in inside if "pretrain" in name or "paper" in name]


def test_it_loads_as_any_model_does():
    model = AutoModelForCausalLM.from_pretrained(folder())
    tokenizer = AutoTokenizer.from_pretrained(folder())
    assert model.config.vocab_size == len(tokenizer) == 99
    assert 1e6 < sum(p.numel() for p in model.parameters()) < 4e6


def test_only_its_name_means_the_model_of_the_package():
    assert resolve("pocket") == str(folder())
    assert resolve("./pocket") == "./pocket"


def test_sample_and_solve_know_it_by_name(tmp_path, capsys):
    given = "--model pocket --data pocket -n 4 --limit 2 --max-tokens 100 --backend transformers"
    words = [*given.split(), "--out", str(tmp_path / "run"), "--workers", "2"]
    assert filled(Sample, words).run() == 0
    assert len(pairs_of(Run.open(tmp_path / "run"), "verdicts")) == 8
    problem = {"id": "a", "statement": "Multiply the number by 3 and add 4.", "verbatim": True}
    problem |= {"tests": [{"input": "1", "output": "7"}, {"input": "5", "output": "19"}]}
    (tmp_path / "own.jsonl").write_text(json.dumps(problem))
    words = [
        "--problem",
        str(tmp_path / "own.jsonl"),
        *["--model", "pocket", "--max-tokens", "100"],
    ]
    assert filled(Solve, words).run() == 0
    assert "print(" in capsys.readouterr().out


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
def test_the_training_configuration_that_comes_with_maxk_runs(tmp_path):
    from maxk.train.job import train

    small = ["--trl.max_steps", "3", "--trl.per_device_train_batch_size", "16", "--data.limit", "8"]
    small += ["--run.out", str(tmp_path / "run"), "--trl.disable_tqdm", "true"]
    outcome = train(read_config(ROOT / "configs" / "pocket.toml", small), say=lambda line: None)
    assert (outcome.step, outcome.finished) == (3, True)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").config.vocab_size == 99
