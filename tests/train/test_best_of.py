"""`maxk.integrations.trl.best_of` in stock TRL: the updates of bon-centered, or an error."""

import math
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators import advantages
from maxk.integrations.trl import best_of
from tests.tiny import tiny_model
from tests.train.test_trainer import digits, train

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

SGD: dict[str, Any] = {
    "max_steps": 3, "optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0,
    "lr_scheduler_type": "constant", "beta": 0.0, "per_device_train_batch_size": 8,
    "num_generations": 4, "max_completion_length": 6, "logging_steps": 1, "report_to": [],
    "use_cpu": True, "bf16": False, "save_strategy": "no", "seed": 3, "loss_type": "dr_grpo",
}  # fmt: skip


def stock(folder: Any, reward: Any, callbacks: Any = None, **changes: Any) -> GRPOTrainer:
    model, tokenizer = tiny_model()
    given = SGD | {"output_dir": str(folder), "scale_rewards": "none"} | changes
    return GRPOTrainer(
        model, reward, GRPOConfig(**given),
        Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer, callbacks=callbacks,
    )  # fmt: skip


def halves(completions, **_: Any) -> list[float]:
    return [reward / 2 for reward in digits(completions)]


@pytest.mark.parametrize("rewards", [digits, [halves, halves]], ids=["one", "two that are summed"])
def test_stock_trl_makes_the_updates_of_bon_centered(tmp_path, rewards):
    best = best_of(rewards, k=2, n=4)
    trainer = stock(tmp_path, best, [best.callback])
    trainer.train()
    with_ours = train(tmp_path, method="bon-centered", **SGD)
    ours: Any = with_ours.model
    theirs: Any = trainer.model
    moved = 0.0
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(theirs.state_dict()[name], value, atol=4e-6, rtol=0)
        moved = max(moved, float((value - with_ours.states[0][name]).abs().max()))
    assert moved > 1e-3, "nothing was learned: any weights would pass"
    line = next(line for line in trainer.state.log_history if "loss" in line)
    batch = with_ours.batches[0]["rewards"]
    if "raw_reward" in line:  # a TRL that lends its loggers
        assert line["raw_reward"] == pytest.approx(batch.mean().item(), abs=1e-5)
        pairs = batch[:, torch.combinations(torch.arange(4), 2)].amax(-1)
        assert line["max_at/2"] == pytest.approx(pairs.mean().item(), abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scale_rewards": "group"}, 'use scale_rewards="none"'),
        ({"num_generations": 8}, r"num_generations=8 and best_of\(n=4\) differ"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation="),
    ],
)
def test_settings_under_which_the_weights_are_wrong_end_the_training(tmp_path, changes, said):
    if not changes.keys() <= GRPOConfig.__dataclass_fields__.keys():
        pytest.skip("a TRL without the setting")
    best = best_of(digits, k=2, n=4)
    with pytest.raises(ValueError, match=said):
        stock(tmp_path, best, [best.callback], **changes).train()


def test_a_second_reward_function_ends_the_training(tmp_path):
    best = best_of(digits, k=2, n=4)
    with pytest.raises(ValueError, match="2 reward functions: TRL would add others"):
        stock(tmp_path, [best, halves], [best.callback]).train()


def test_a_part_of_a_group_is_no_group():
    best = best_of(digits, k=2, n=4)
    texts = ["1", "2", "a", "b"]
    with pytest.raises(ValueError, match="not whole groups"):
        best(prompts=["a"] * 3, completions=texts[:3])
    with pytest.raises(ValueError, match="not whole groups"):
        best(prompts=["a", "a", "b", "b"], completions=texts)


def test_what_has_no_reward_is_in_no_group():
    given = {"a": [None, 1.0, 0.0, 0.5], "b": [None, None, 1.0, 0.0]}
    best = best_of(lambda completions, **_: [*given["a"], *given["b"]], k=2, n=4)
    found = best(prompts=["a"] * 4 + ["b"] * 4, completions=[""] * 8)
    due = advantages("bon-centered", torch.tensor([1.0, 0.0, 0.5]), 2).tolist()
    assert found[0] is found[4] is found[5] is None
    assert found[1:4] == pytest.approx(due)
    assert found[6:] == [0.0, 0.0]


async def waits(completions, **_: Any) -> list[float]:
    return []


@pytest.mark.parametrize(
    ("reward", "k", "said"),
    [
        (digits, 4, "k=4 must be at least 1 and below n=4"),
        (digits, 0, "k=0 must be at least 1"),
        (waits, 2, "is async; give a function that returns numbers"),
        (torch.nn.Linear(1, 1), 2, "is no function; give one that calls the model"),
    ],
)
def test_what_cannot_be_is_refused(reward, k, said):
    with pytest.raises(ValueError, match=said):
        best_of(reward, k, 4)


def test_its_numbers_are_finite():
    best = best_of(digits, k=1, n=2)
    assert all(
        math.isfinite(value or 0) for value in best(prompts=["a"] * 2, completions=["1", ""])
    )
