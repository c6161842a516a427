"""What is overridden does what stock TRL does where the weights are stock's; one test for each.

Two runs with the same seed, evaluation and checkpoints: of `trl.GRPOTrainer` without scaled
rewards, and of `MaxKTrainer` with "dr-grpo", which has the same weights to the last bit.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.train import MaxKConfig, MaxKTrainer
from tests.tiny import tiny_model
from tests.train.test_trainer import digits, logged

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
PROMPTS = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
GIVEN: dict[str, Any] = {
    "per_device_train_batch_size": 4, "steps_per_generation": 2, "gradient_accumulation_steps": 1,
    "num_generations": 4, "num_iterations": 2, "max_completion_length": 6, "max_steps": 8,
    "optim": "sgd", "learning_rate": 0.5, "beta": 0.0, "loss_type": "dr_grpo", "epsilon": 0.01,
    "eval_strategy": "steps", "eval_steps": 4, "per_device_eval_batch_size": 8,
    "save_strategy": "steps", "save_steps": 4, "logging_steps": 1, "log_completions": True,
    "report_to": [], "use_cpu": True, "bf16": False, "seed": 3, "disable_tqdm": True,
}  # fmt: skip
OURS = ("seconds/", "max_at/", "groups/", "policy_lag/", "eval_max_at/", "weights/", "unique")
CLOCK = ("step_time", "eval_runtime", "_per_second", "train_runtime")


def made(trainer: type, folder: Path) -> Any:
    """A trainer that keeps what goes into its loss."""

    class Kept(trainer):
        seen: list[torch.Tensor]

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            self.seen.append(inputs["completion_ids"].clone())
            return super()._compute_loss(model, inputs)

    if trainer is MaxKTrainer:
        args = MaxKConfig(str(folder), method="dr-grpo", **GIVEN)
    else:
        args = GRPOConfig(str(folder), scale_rewards="none", **GIVEN)
    model, tokenizer = tiny_model()
    out: Any = Kept(
        model, digits, args, PROMPTS, PROMPTS.select(range(4)), processing_class=tokenizer
    )
    out.seen = []
    return out


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> tuple[Any, Any]:
    """Both trainers, after their runs."""
    folder = tmp_path_factory.mktemp("stock")
    stock = made(GRPOTrainer, folder / "stock")  # which sets the seed
    stock.train()
    ours = made(MaxKTrainer, folder / "ours")
    ours.train()
    return stock, ours


def weights(trainer: Any) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in trainer.model.parameters()])


def test_generate_draws_the_same_completions(two):
    stock, ours = (list(each._logs["completion"]) for each in two)
    assert ours == stock
    assert len(set(ours)) > 2


def test_calculate_rewards_gives_the_same(two):
    stock, ours = (
        {name: list(values) for name, values in each._logs["rewards"].items()} for each in two
    )
    assert ours == stock
    assert len(set(ours["digits"])) > 2


def test_generate_and_score_gives_the_advantages_of_the_group(two):
    stock, ours = (torch.tensor(list(each._logs["advantages"])) for each in two)
    torch.testing.assert_close(ours, stock)
    assert ours.abs().max() > 0.1


def test_prepare_inputs_goes_through_the_same_micro_batches(two):
    stock, ours = (each.seen for each in two)
    assert len(ours) == len(stock)
    for one, other in zip(stock, ours, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["loss", "entropy", "clip_ratio/region_mean", "grad_norm"])
def test_the_loss_the_log_probabilities_and_the_training_step_are_the_same(two, name):
    """`_compute_loss`, `_get_per_token_logps_and_entropies` and `training_step`, step by step."""
    stock, ours = ([line[name] for line in logged(each, "loss")] for each in two)
    assert len(ours) == GIVEN["max_steps"]
    assert ours == pytest.approx(stock, abs=1e-6, rel=1e-5)
    assert max(map(abs, ours)) > 0


def test_the_end_is_the_same(two):
    stock, ours = map(weights, two)
    torch.testing.assert_close(ours, stock)
    before, _ = tiny_model()
    moved = ours - torch.cat([value.detach().flatten() for value in before.parameters()])
    assert moved.abs().max() > 1e-2


def test_everything_that_stock_trl_logs_is_logged_and_the_same(two):
    stock, ours = (each.state.log_history for each in two)
    for one, other in zip(stock, ours, strict=True):
        own = {name for name in other.keys() - one.keys() if not name.startswith(OURS)}
        assert own == set()
        assert one.keys() <= other.keys()
        for name in one.keys() - {name for name in one if name.endswith(CLOCK)}:
            assert other[name] == pytest.approx(one[name], abs=1e-6, rel=1e-5), name


def test_the_evaluation_loop_returns_the_same(two):
    found = []
    for trainer in two:
        torch.manual_seed(5)
        found.append(trainer.evaluate())
    stock, ours = found
    for name in stock.keys() - {name for name in stock if name.endswith(CLOCK)}:
        assert ours[name] == pytest.approx(stock[name], abs=1e-6, rel=1e-5), name
    assert ours["eval_max_at/4"] >= logged(two[1], "eval_reward")[-1]["eval_reward"]


def test_a_checkpoint_at_the_end_of_a_batch_goes_on_as_stock_trl_s(two):
    """`train`, `_save_rng_state` and `_load_optimizer_and_scheduler`."""
    ends = []
    for before in two:
        folder = Path(before.args.output_dir)
        again = made(MaxKTrainer if isinstance(before, MaxKTrainer) else GRPOTrainer, folder)
        again.train(resume_from_checkpoint=str(folder / "checkpoint-4"))
        assert again.state.global_step == GIVEN["max_steps"]
        ends.append(weights(again))
    torch.testing.assert_close(ends[1], ends[0])
    assert torch.equal(ends[1], weights(two[1]))
