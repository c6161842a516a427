"""MaxKTrainer on a tiny model: the weights are those of maxk.estimators, whatever the batching."""

from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig

from maxk.estimators import METHODS, advantages, trust_region
from maxk.train import MaxKConfig, MaxKTrainer
from tests.tiny import tiny_model

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


def digits(completions, **_: Any) -> list[float]:
    """A reward of many values, so that groups have an order."""
    return [sum(c.isdigit() for c in text) / 4 + 0.01 * len(text) for text in completions]


def alternating(completions, **_: Any) -> list[float]:
    """A reward of 0 and 1."""
    return [float(i % 2 == 0) for i, _ in enumerate(completions)]


def config(folder, **changes: Any) -> MaxKConfig:
    given: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 4,
        "learning_rate": 5e-4,
        "lr_scheduler_type": "constant",
        "beta": 0.0,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "k": 2,
        "seed": 3,
    }
    return MaxKConfig(**(given | changes))


class Watched(MaxKTrainer):
    """Keeps what every micro-batch was trained with, and the model as it was before each step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[dict[str, Any]] = []
        self.states: dict[int, Any] = {}  # the weights before an optimiser step, by its number
        self.batches: list[dict[str, Any]] = []  # as generated: all rows in order, rewards, step

    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        step = self.state.global_step
        if step not in self.states:
            model: Any = self.model
            self.states[step] = {k: v.clone() for k, v in model.state_dict().items()}
        if not self.batches or self.batches[-1]["rewards"] is not self._rewards_PN:
            assert self._buffered_inputs is not None
            order = torch.cat([b["row"] for b in self._buffered_inputs]).argsort()
            keys = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
            whole = {key: torch.cat([b[key] for b in self._buffered_inputs])[order] for key in keys}
            self.batches.append({**whole, "rewards": self._rewards_PN, "step": step})
        return inputs

    def _compute_loss(self, model, inputs):
        assert "old_per_token_logps" not in inputs or not self._method.off_policy
        kept = {"row": inputs["row"].clone(), "weights": inputs["advantages"].clone()}
        self.seen.append({**kept, "step": self.state.global_step, "batch": self.batches[-1]})
        return super()._compute_loss(model, inputs)


@torch.no_grad()
def logps(
    state: dict[str, torch.Tensor], inputs: dict[str, Any], model: Any = None
) -> torch.Tensor:
    """log pi of whole completions under a model with these weights."""
    model = tiny_model()[0] if model is None else model
    model.load_state_dict(state)
    return completion_logps(model, inputs)


def completion_logps(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """log pi of whole completions, computed here and not by TRL."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits.float()
    picked = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    length = inputs["completion_ids"].size(1)
    return (picked[:, -length:] * inputs["completion_mask"]).sum(dim=1)


def train(folder, reward=digits, peft_config: Any = None, **changes: Any) -> Watched:
    model, tokenizer = tiny_model()
    trainer = Watched(
        model=model,
        reward_funcs=reward,
        args=config(folder, **changes),
        train_dataset=Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("method", METHODS)
def test_the_first_weights_are_those_of_the_registry(tmp_path, method):
    reward = alternating if method == "pass-at-k" else digits
    trainer = train(tmp_path, reward, method=method, max_steps=1)
    (seen,) = trainer.seen
    k = 2 if METHODS[method].uses_k else None
    expected = advantages(method, seen["batch"]["rewards"], k).flatten()
    torch.testing.assert_close(seen["weights"], expected[seen["row"]])
    assert seen["weights"].abs().max() > 0


LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
BATCHINGS: dict[str, dict[str, Any]] = {
    "three iterations": {"num_iterations": 3},
    "groups split over micro-batches": {
        "num_iterations": 2,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
    },
    "more micro-batches than accumulated": {
        "per_device_train_batch_size": 2,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": 6,
    },
    "gradient checkpointing": {"num_iterations": 3, "gradient_checkpointing": True},
    "LoRA": {"num_iterations": 3, "peft_config": LORA, "learning_rate": 2e-2},
    "KL to the reference": {
        "num_iterations": 3,
        "beta": 0.01,
        "peft_config": LORA,
        "learning_rate": 2e-2,
    },
    "both": {
        "per_device_train_batch_size": 1,
        "steps_per_generation": 8,
        "gradient_accumulation_steps": 2,
        "num_iterations": 2,
        "max_steps": 9,
    },
}


@pytest.mark.parametrize("method", ["off-policy", "off-policy-exact"])
@pytest.mark.parametrize("name", BATCHINGS)
def test_weights_are_those_of_the_policy_before_each_step_for_the_whole_group(
    tmp_path, method, name
):
    trainer = train(tmp_path, method=method, **BATCHINGS[name])
    drift = 0.0
    for seen in trainer.seen:
        batch = seen["batch"]
        now, then = (trainer.states[step] for step in (seen["step"], batch["step"]))
        change = logps(now, batch, trainer.model) - logps(then, batch, trainer.model)
        ratios = change.view_as(batch["rewards"])
        drift = max(drift, float(ratios.abs().max()))
        expected = trust_region(advantages(method, batch["rewards"], 2, ratios), ratios, 0.2)
        torch.testing.assert_close(
            seen["weights"], expected.flatten()[seen["row"]], atol=1e-5, rtol=1e-4
        )
    assert len({seen["step"] for seen in trainer.seen}) == trainer.state.global_step
    assert drift > 0.02, "nothing moved: stale ratios would pass"
    assert len({seen["weights"].abs().sum().item() for seen in trainer.seen} - {0.0}) > 2


def test_stale_ratios_and_wrong_groups_would_be_noticed(tmp_path):
    """Negative controls: the same comparison, with what it has to catch put in."""
    trainer = train(tmp_path, method="off-policy-exact", num_iterations=3)
    batch = trainer.batches[0]
    seen = next(s for s in trainer.seen if s["step"] == 2)
    now, before, then = (trainer.states[step] for step in (2, 1, 0))
    start = logps(then, batch)

    def weights(ratios, rewards) -> torch.Tensor:
        ratios = ratios.view_as(rewards)
        out = trust_region(advantages("off-policy-exact", rewards, 2, ratios), ratios, 0.2)
        return out.flatten()[seen["row"]]

    right = weights(logps(now, batch) - start, batch["rewards"])
    stale = weights(logps(before, batch) - start, batch["rewards"])
    mixed = weights((logps(now, batch) - start).roll(1), batch["rewards"])
    torch.testing.assert_close(seen["weights"], right, atol=1e-5, rtol=1e-4)
    for wrong in (stale, mixed):
        with pytest.raises(AssertionError):
            torch.testing.assert_close(seen["weights"], wrong, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", ["off-policy-exact", "bon-centered"])
def test_the_gradient_is_that_of_weighted_reinforce(tmp_path, method):
    """One step of plain SGD: the change of the parameters is lr times the gradient."""
    rate = 1.0
    trainer = train(
        tmp_path, method=method, max_steps=1, optim="sgd", learning_rate=rate, max_grad_norm=0.0
    )
    (seen,) = trainer.seen
    model, _ = tiny_model()
    model.load_state_dict(trainer.states[0])
    weights = advantages(method, seen["batch"]["rewards"], 2).flatten()
    total = completion_logps(model, seen["batch"])
    # dr_grpo divides by the number of completions and the length they may have.
    loss = -(weights * total).sum() / (len(total) * (trainer.args.max_completion_length or 0))
    loss.backward()
    trained: Any = trainer.model
    after = dict(trained.named_parameters())
    moved = 0.0
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        expected = parameter.detach() - rate * parameter.grad
        torch.testing.assert_close(after[name].detach(), expected, atol=1e-6, rtol=1e-6)
        moved = max(moved, float(parameter.grad.abs().max()))
    assert moved > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "ppo"}, "method='ppo' is unknown; use one of grpo,"),
        ({"k": 5}, "k=5 must be between 1 and num_generations=4"),
        ({"k": 4}, "k=4 equal to num_generations=4 leaves method='off-policy-exact' nothing"),
        ({"method": "grpo", "clamp_delta": 0.5}, "clamp_delta=0.5 is for the off-policy methods"),
    ],
)
def test_impossible_settings_are_refused_before_any_model_is_loaded(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **changes)


def test_a_completion_without_a_reward_is_an_error(tmp_path):
    def none(completions, **_: Any) -> list[Any]:
        return [None] * len(completions)

    with pytest.raises(ValueError, match="a completion has no reward"):
        train(tmp_path, none)


def test_the_logged_advantages_are_ours(tmp_path):
    trainer = train(tmp_path, method="bon-centered", max_steps=1)
    expected = advantages("bon-centered", trainer.batches[0]["rewards"], 2).flatten()
    assert list(trainer._logs["advantages"]) == pytest.approx(expected.tolist(), abs=1e-6)
