"""The file of a training run: what it may say, and how it says no."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maxk.config import ConfigError, LimitsTable, MethodTable, read_config
from maxk.estimators import MethodSettings
from maxk.verify import Limits, VerifierSettings

MINIMAL = '[run]\nout = "r"\n[model]\nname = "m"\n[data]\nname = "starter"\n'
ROOT = Path(__file__).parents[1]


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(text)
    return file


def test_the_paper_s_settings_are_those_of_section_4_4():
    config = read_config(ROOT / "configs" / "paper.toml")
    assert config.model.name == "Qwen/Qwen2.5-Coder-7B-Instruct"
    assert (config.data.name, config.data.max_difficulty) == ("code-contests", 3)
    assert (config.data.max_prompt_tokens, config.data.random_split) == (512, (2490, 276))
    wanted = {
        "num_generations": 8, "temperature": 1.0, "top_p": 1.0, "max_completion_length": 256,
        "learning_rate": 5e-6, "beta": 0.01, "epsilon": 0.2, "num_iterations": 3,
        "num_train_epochs": 1,
    }  # fmt: skip
    assert wanted.items() <= config.trl.items()


@pytest.mark.parametrize("file", sorted((ROOT / "configs").glob("*.toml")), ids=lambda f: f.name)
def test_every_configuration_that_comes_with_maxk_is_one_that_trl_takes(file):
    from maxk.train.job import trl_config

    assert trl_config(read_config(file, ["--trl.bf16", "false"])).num_generations


def test_what_the_command_line_says_wins(tmp_path):
    file = written(tmp_path, MINIMAL + "[trl]\nlearning_rate = 1.0\n")
    given = ["--trl.learning-rate", "1e-5", "--data.split=test", "--lora.r", "8"]
    given += ["--data.limit", "3", "--reward.kind", "binary", "--trl.report_to", "['wandb']"]
    config = read_config(file, given)
    assert config.trl == {"learning_rate": 1e-5, "report_to": ["wandb"]}
    assert (config.data.split, config.data.limit) == ("test", 3)
    assert config.lora == {"r": 8}
    assert config.reward.kind == "binary"


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (MINIMAL + "[methods]\n", [], "methods is unknown; did you mean method?"),
        (MINIMAL + "splt = 'x'\n", [], "data.splt is unknown; did you mean split?"),
        ("[run]\nout = 'r'\n", [], "model is missing; data is missing"),
        (MINIMAL, ["--reward.kind", "best"], "reward.kind='best': input should be 'continuous'"),
        (MINIMAL, ["--method.masking", "word"], "method: masking='word' is unknown; use one of"),
        (
            MINIMAL,
            ["--method.name=rloo", "--method.clamp_delta=1"],
            "method: clamp_delta=1.0 is for",
        ),
        (MINIMAL, ["--data.limit", "0"], "data.limit=0: input should be greater than or equal"),
        (MINIMAL, ["--learning_rate", "1"], "'--learning_rate' is not --table.key"),
        (MINIMAL, ["--trl.learning_rate"], "--trl.learning_rate has no value"),
        ("[run\n", [], r"run.toml is not TOML: Expected '\]'"),
    ],
)
def test_errors_say_where_and_what(tmp_path, text, overrides, message):
    with pytest.raises(ConfigError, match=message):
        read_config(written(tmp_path, text), overrides)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("reward.cpu_seconds", "reward.cpu_seconds is no more; use reward.limits.cpu_seconds"),
        ("reward.after_timeout", "is no more; use reward.limits.after_timeout"),
        ("method.trust_region", "method.trust_region is no more; use method.masking"),
        ("reward.limits.cpu_second", "limits.cpu_second is unknown; did you mean cpu_seconds"),
        ("reward.limits.wall_seconds", "reward.limits.wall_seconds=0: input should be greater"),
    ],
)
def test_a_key_at_an_old_place_names_the_new_one(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        read_config(written(tmp_path, MINIMAL), [f"--{override}", "0"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("skip_silent", "trl.skip_silent is no more; use trl.skip_zero_variance"),
        ("share_prompts", "trl.share_prompts is no more; use trl.pack_prompts"),
        ("keep_start", "trl.keep_start is no more; use `maxk merge`"),
        ("average_from", "trl.average_from is no more; use `maxk merge`"),
        ("masking", r"trl.masking is set by the tables \[run\] and \[method\]"),
    ],
)
def test_an_old_setting_of_the_trainer_names_the_new_one(tmp_path, override, message):
    from maxk.train.job import trl_config

    with pytest.raises(ConfigError, match=message):
        trl_config(read_config(written(tmp_path, MINIMAL), [f"--trl.{override}", "1"]))


def test_limits_are_a_table_of_their_own(tmp_path):
    file = written(tmp_path, MINIMAL + "[reward.limits]\ncpu_seconds = 2.5\nrestarts = 0\n")
    given = ["--reward.limits.output_bytes", "1000", "--reward.isolate", "test"]
    asked = read_config(file, [*given, "--reward.workers", "3"]).reward.verifier_settings()
    limits = Limits(cpu_seconds=2.5, restarts=0, output_bytes=1000)
    assert asked == VerifierSettings(workers=3, limits=limits, isolate="test")
    assert read_config(written(tmp_path, MINIMAL)).reward.verifier_settings() == VerifierSettings()


def defaults(kind: Any) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(kind)}


def test_views_have_every_setting_with_its_one_default():
    from maxk.train import MaxKConfig

    due = defaults(MethodSettings)
    found = {name: field.default for name, field in MethodTable.model_fields.items()}
    assert {"method": found.pop("name"), **found} == due
    assert {name: defaults(MaxKConfig)[name] for name in due} == due
    found = {name: field.default for name, field in LimitsTable.model_fields.items()}
    assert found == defaults(Limits)


def test_reading_a_configuration_needs_no_torch(tmp_path):
    file = written(tmp_path, MINIMAL)
    code = "import sys, maxk.config, pathlib; maxk.config.read_config(pathlib.Path(sys.argv[1]));"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
