"""What is logged in training and evaluation, and where it is left out."""

import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.train import MaxKTrainer, recorder
from maxk.train.arithmetic import arithmetic
from tests.tiny import tiny_model
from tests.train.test_trainer import config, digits, logged

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
PROMPTS = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
EVALUATED: dict[str, Any] = {
    "eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8, "max_steps": 2,
}  # fmt: skip


def made(folder: Any, reward: Any = digits, **changes: Any) -> MaxKTrainer:
    model, tokenizer = tiny_model()
    return MaxKTrainer(
        model, reward, config(folder, **changes), PROMPTS, PROMPTS.select(range(6)),
        processing_class=tokenizer,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["grpo", "off-policy-exact"])
def test_evaluation_has_the_curve_of_all_its_groups(tmp_path, monkeypatch, method):
    """Three batches of two groups of four; every figure from the rewards that were given."""
    given: list[list[float]] = []
    clock = [0.0]
    monkeypatch.setattr(recorder, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def noted(completions, **_: Any) -> list[float]:
        if not trainer.model.training:
            given.append(digits(completions))
            clock[0] += 100  # of no step
            return given[-1]
        clock[0] += 1
        return digits(completions)

    trainer = made(tmp_path, noted, method=method, full_reward=0.5, **EVALUATED)
    trainer.train()
    first, last = logged(trainer, "eval_reward")
    rewards = torch.tensor(given[:3]).view(6, 4)
    for k in (1, 2, 4):
        subsets = torch.combinations(torch.arange(4), k)
        best = rewards[:, subsets].amax(-1)
        assert first[f"eval_max_at/{k}"] == pytest.approx(best.mean().item(), abs=1e-5)
        solved = (best >= 0.5).float().mean().item()
        assert first[f"eval_pass_at/{k}"] == pytest.approx(solved, abs=1e-5)
    assert "eval_loss" in first
    assert last["step"] == 2
    for line in logged(trainer, "seconds/update"):
        phases = {name: value for name, value in line.items() if name.startswith("seconds/")}
        due = {"sampling": 0, "verifying": 1, "pre-pass": 0, "update": 0}
        assert phases == {f"seconds/{name}": value for name, value in due.items()}


def test_the_best_model_can_be_that_of_max_at_k(tmp_path):
    best = {"metric_for_best_model": "eval_max_at/4", "load_best_model_at_end": True}
    trainer = made(
        tmp_path, **EVALUATED, **best, greater_is_better=True, save_strategy="steps", save_steps=1
    )
    trainer.train()
    found = max(line["eval_max_at/4"] for line in logged(trainer, "eval_reward"))
    assert trainer.state.best_metric == found


def test_where_groups_are_too_small_for_the_method_there_is_no_loss(tmp_path):
    trainer = made(tmp_path, **EVALUATED, num_generations_eval=2)  # k = 2 needs three
    trainer.train()
    for line in logged(trainer, "eval_reward"):
        assert "eval_loss" not in line
        assert "eval_max_at/2" in line


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({"method": "grpo", "num_iterations": 2}, True),
        ({"method": "grpo"}, False),
        ({"method": "off-policy-exact", "num_iterations": 2}, False),
    ],
)
def test_clipping_is_logged_where_there_is_any(tmp_path, changes, there):
    trainer = made(tmp_path, max_steps=2, **changes)
    trainer.train()
    for line in logged(trainer, "loss"):
        assert any(name.startswith("clip_ratio/") for name in line) == there


def scaled(completions, by: float, **_: Any) -> list[float]:
    return [by * reward for reward in digits(completions)]


class Scored:
    full_reward = 2.0

    def __call__(self, completions, **_: Any) -> list[float]:
        return digits(completions)


def test_rewards_have_the_names_that_trl_gives_them(tmp_path):
    rewards = [functools.partial(scaled, by=2.0), Scored(), digits]
    trainer = made(tmp_path, rewards, max_steps=1)
    assert trainer.reward_func_names == ["scaled", "Scored", "digits"]
    trainer.train()
    assert "groups/all_correct" not in logged(trainer, "loss")[0]  # digits states no full reward
    trainer = made(tmp_path, [Scored()], max_steps=1, reward_weights=[0.5])
    assert trainer.plan.full_reward == 1.0
    trainer.train()
    assert "groups/all_correct" in logged(trainer, "loss")[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_train_epochs": 1, "num_iterations": 2},
        {"num_train_epochs": 1, "steps_per_generation": 3, "gradient_accumulation_steps": 2},
        {"num_train_epochs": 0.3},
        {"num_train_epochs": 1.5, "generation_batch_size": 12, "gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_the_number_of_steps_is_that_of_stock_trl(tmp_path, changes):
    args = config(tmp_path, max_steps=-1, method="grpo", **changes)
    names = GRPOConfig.__dataclass_fields__.keys() & {
        "output_dir", "per_device_train_batch_size", "num_generations", "max_completion_length",
        "max_steps", "beta", "report_to", "use_cpu", "bf16", "save_strategy", *changes,
    }  # fmt: skip
    model, tokenizer = tiny_model()
    given = {name: getattr(args, name) for name in names - changes.keys()} | changes
    prompts = PROMPTS.select(range(7))
    stock = GRPOTrainer(model, digits, GRPOConfig(**given), prompts, processing_class=tokenizer)
    stock.train()
    assert arithmetic(args, len(prompts)).steps == stock.state.max_steps == stock.state.global_step
