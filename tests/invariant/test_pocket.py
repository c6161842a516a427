"""`maxk train` on the small model that comes with it, held to figures that were written down.

They were made by the run itself, once, so they say nothing about right or wrong: other tests do.
They say that it is still the same run. A mean over 64 completions is compared, and rounding may
turn one completion into another on another machine; hence the tolerances. That they are not too
wide is shown by breaking the code.
"""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk import max_at_k
from maxk.config import read_config
from maxk.store.run import Run
from maxk.train import weighing
from maxk.train.job import train
from tests.command import maxk

CONFIG = Path(__file__).parents[2] / "configs" / "pocket.toml"
KNOWN = json.loads(Path(__file__).with_name("known.json").read_text())
TOLERANCE = {"loss": 0.1, "grad_norm": 0.05, "reward": 0.02, "max_at/4": 0.02}  # of the largest

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As when the figures were made."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def given(out: Path, method: str, steps: int) -> list[str]:
    return [
        *("--run.out", str(out), "--method.name", method, "--reward.workers", "2"),
        *("--trl.per_device_train_batch_size", "64", "--trl.max_steps", str(steps)),
        *("--trl.learning_rate", "3e-4", "--trl.disable_tqdm", "true", "--trl.seed", "7"),
        *("--trl.num_iterations", "2" if method == "off-policy-exact" else "1"),
    ]


def differences(out: Path, method: str) -> list[str]:
    """What is not as it was written down, of the steps that were made."""
    found = []
    lines = [line for line in Run.open(out).metrics() if "loss" in line]
    assert lines
    for name, share in TOLERANCE.items():
        wide = share * max(abs(known.get(name, 0.0)) for known in KNOWN[method])
        for line, known in zip(lines, KNOWN[method], strict=False):
            if name in known and line[name] != pytest.approx(known[name], abs=wide):
                found.append(f"step {line['step']}, {name}: {line[name]}, known is {known[name]}")
    return found


@pytest.mark.parametrize("method", KNOWN)
def test_the_command_does_what_it_did(method, tmp_path):
    done = maxk("train", CONFIG, *given(tmp_path / "run", method, len(KNOWN[method])))
    assert done.returncode == 0, done.stderr[-2000:]
    assert differences(tmp_path / "run", method) == []


ADVANTAGES = weighing.advantages


def wrong_sign(method: str, rewards_PN: Tensor, k: int, log_ratios: Any) -> Tensor:
    return -ADVANTAGES(method, rewards_PN, k, log_ratios)


def no_baseline(method: str, rewards_PN: Tensor, k: int, log_ratios: Any) -> Tensor:
    found_PN = ADVANTAGES(method, rewards_PN, k, log_ratios)
    return found_PN - found_PN.min(-1, keepdim=True).values


def other_groups(method: str, rewards_PN: Tensor, k: int, log_ratios: Any) -> Tensor:
    """As if the samples of a prompt lay a prompt apart instead of side by side."""
    return ADVANTAGES(method, rewards_PN.T.reshape(rewards_PN.shape), k, log_ratios)


@pytest.mark.parametrize("broken", [wrong_sign, no_baseline, other_groups])
def test_a_broken_trainer_is_noticed(broken, tmp_path, monkeypatch):
    monkeypatch.setattr(weighing, "advantages", broken)
    train(read_config(CONFIG, given(tmp_path / "run", "bon-mean", 1)), print)
    assert differences(tmp_path / "run", "bon-mean") != []


@pytest.mark.slow
def test_forty_steps_raise_max_at_8_by_five_standard_errors(tmp_path):
    """On all 400 test problems, none of which it is trained on; a few minutes."""
    learning = ["--run.out", str(tmp_path / "train"), "--trl.max_steps", "40"]
    learning += ["--trl.per_device_train_batch_size", "256", "--trl.num_iterations", "1"]
    learning += ["--trl.learning_rate", "3e-4", "--trl.disable_tqdm", "true"]
    assert maxk("train", CONFIG, *learning).returncode == 0
    means = {}
    for name, model in {"before": "pocket", "after": str(tmp_path / "train" / "model")}.items():
        asked = ["--model", model, "--data", "pocket", "--split", "test", "-n", "16"]
        asked += ["--max-tokens", "110", "--out", str(tmp_path / name)]
        assert maxk("sample", *asked).returncode == 0
        table = Run.open(tmp_path / name).read("verdicts", ["problem", "reward"])
        rewards: dict[str, list[float]] = {}
        for row in table.to_pylist():
            rewards.setdefault(row["problem"], []).append(row["reward"])
        means[name] = {problem: max_at_k(given, 8) for problem, given in rewards.items()}
    assert len(means["before"]) == 400
    gains = [means["after"][problem] - before for problem, before in means["before"].items()]
    error = statistics.stdev(gains) / len(gains) ** 0.5
    assert statistics.mean(gains) > 5 * error
