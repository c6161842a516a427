"""MaxKTrainer on a tiny model: the weights are those of maxk.estimators, whatever the batching."""

import re
from typing import Any

import pytest
import torch
import trl.trainer.utils
from datasets import Dataset
from peft import LoraConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators import METHODS, advantages, mask_sequences
from maxk.train import MaxKConfig, MaxKTrainer
from maxk.train.plan import has_images
from maxk.train.rewards import RewardError
from tests.tiny import tiny_model

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

FUSED = pytest.mark.skipif(
    not hasattr(trl.trainer.utils, "add_fused_lm_head"), reason="a TRL without the fused head"
)


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
        "seed": 3,
    }
    facts = METHODS.get(changes.get("method", MaxKConfig.method))
    if facts is None or facts.uses_k:
        given["k"] = 2
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
        if not self.batches or self.batches[-1]["rewards"] is not self.weighing.rewards_PN:
            assert self._buffered_inputs is not None
            order = torch.cat([b["row"] for b in self._buffered_inputs]).argsort()
            keys = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
            whole = {key: torch.cat([b[key] for b in self._buffered_inputs])[order] for key in keys}
            self.batches.append({**whole, "rewards": self.weighing.rewards_PN, "step": step})
        return inputs

    def _compute_loss(self, model, inputs):
        assert "old_per_token_logps" not in inputs or not self.weighing.off_policy
        loss = super()._compute_loss(model, inputs)
        kept = {"row": inputs["row"].clone(), "weights": inputs["advantages"].clone()}
        self.seen.append({**kept, "step": self.state.global_step, "batch": self.batches[-1]})
        return loss


@torch.no_grad()
def logps(
    state: dict[str, torch.Tensor], inputs: dict[str, Any], model: Any = None
) -> torch.Tensor:
    """log pi of whole completions under a model with these weights."""
    model = tiny_model()[0] if model is None else model
    model.load_state_dict(state)
    return completion_logps(model, inputs)


def completion_logps(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """log pi of whole completions."""
    return token_logps(model, inputs).sum(dim=1)


def token_logps(model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """log pi of each token of the completions, computed here and not by TRL; 0 after their end."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits.float()
    picked = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    length = inputs["completion_ids"].size(1)
    return picked[:, -length:] * inputs["completion_mask"]


def train(
    folder,
    reward=digits,
    peft_config: Any = None,
    prompt: str = "{} ",
    start: str = "",
    **changes: Any,
) -> Watched:
    """start: a folder with the same weights, for a reference model."""
    model, tokenizer = tiny_model()
    model.config._name_or_path = start
    trainer = Watched(
        model=model,
        reward_funcs=reward,
        args=config(folder, **changes),
        train_dataset=Dataset.from_list([{"prompt": prompt.format(i)} for i in range(16)]),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    trainer.train()
    return trainer


def bounded(
    method: str, rewards: torch.Tensor, ratios: torch.Tensor, k: int = 2, gate: float = 0.2
) -> torch.Tensor:
    """What the trainer should use by default: ratios clamped at 0.5, sequences masked at 0.2."""
    return mask_sequences(advantages(method, rewards, k, ratios, clamp_delta=0.5), ratios, gate)


@pytest.mark.parametrize("method", METHODS)
def test_the_first_weights_are_those_of_the_registry(tmp_path, method):
    reward = alternating if method == "pass-at-k" else digits
    trainer = train(tmp_path, reward, method=method, max_steps=1)
    (seen,) = trainer.seen
    k = 2 if METHODS[method].uses_k else None
    expected = advantages(method, seen["batch"]["rewards"], k, 0).flatten()
    torch.testing.assert_close(seen["weights"], expected[seen["row"]])
    assert seen["weights"].abs().max() > 0


LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
WITH_LORA: dict[str, Any] = {"peft_config": LORA, "learning_rate": 2e-2}
SPLIT: dict[str, Any] = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
# A micro-batch of 4 or 8 holds whole groups, and the weights come from the pass of the loss; one of
# 1 or 2 does not, and a pass is made for them.
BATCHINGS: dict[str, dict[str, Any]] = {
    "three iterations": {"num_iterations": 3},
    "groups split over micro-batches": {**SPLIT, "num_iterations": 2},
    "several groups in a micro-batch": {
        "per_device_train_batch_size": 8,
        "steps_per_generation": 2,
        "num_iterations": 2,
    },
    "more micro-batches than accumulated": {
        "per_device_train_batch_size": 2,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": 6,
    },
    "a step over two batches": {"steps_per_generation": 3, "gradient_accumulation_steps": 2},
    "gradient checkpointing": {"num_iterations": 3, "gradient_checkpointing": True},
    "gradient checkpointing, split": {**SPLIT, "num_iterations": 3, "gradient_checkpointing": True},
    "LoRA": {"num_iterations": 3, **WITH_LORA},
    "LoRA, split": {**SPLIT, "num_iterations": 3, **WITH_LORA},
    "KL to the reference": {"num_iterations": 3, "beta": 0.01, **WITH_LORA},
    "both": {
        "per_device_train_batch_size": 1,
        "steps_per_generation": 8,
        "gradient_accumulation_steps": 2,
        "num_iterations": 2,
        "max_steps": 9,
    },
}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "off-policy-exact") for name in BATCHINGS),
        *((name, "off-policy") for name in list(BATCHINGS)[:2]),  # with the same ratios
    ],
)
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
        expected = bounded(method, batch["rewards"], ratios)
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
        return bounded("off-policy-exact", rewards, ratios).flatten()[seen["row"]]

    right = weights(logps(now, batch) - start, batch["rewards"])
    stale = weights(logps(before, batch) - start, batch["rewards"])
    mixed = weights((logps(now, batch) - start).roll(1), batch["rewards"])
    torch.testing.assert_close(seen["weights"], right, atol=1e-5, rtol=1e-4)
    for wrong in (stale, mixed):
        with pytest.raises(AssertionError):
            torch.testing.assert_close(seen["weights"], wrong, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("split", [{}, SPLIT], ids=["whole groups", "split groups"])
@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].off_policy])
def test_the_gradient_is_that_of_weighted_reinforce(tmp_path, method, split):
    """Three steps of plain SGD on a batch: the change of the parameters is lr times the gradient.

    The first weights need no ratio; the later ones contain it, and TRL adds none of its own.
    """
    rate = 1.0
    trainer = train(
        tmp_path,
        method=method,
        num_iterations=3,
        max_steps=3,
        optim="sgd",
        learning_rate=rate,
        max_grad_norm=0.0,
        **split,
    )
    batch = trainer.batches[0]
    trained: Any = trainer.model
    trainer.states[3] = trained.state_dict()
    drift = 0.0
    for step in range(3):
        ratios = logps(trainer.states[step], batch) - logps(trainer.states[0], batch)
        drift = max(drift, float(ratios.abs().max()))
        ratios = ratios.view_as(batch["rewards"])
        weights = bounded(method, batch["rewards"], ratios).flatten()
        expected = after_sgd(trainer.states[step], batch, weights, rate)
        for name, value in expected.items():
            torch.testing.assert_close(trainer.states[step + 1][name], value, atol=1e-6, rtol=1e-6)
    assert drift > 0.02, "nothing moved: a gradient without ratios would pass"


@pytest.mark.parametrize(
    ("rows", "skip", "share"),  # every two of the three in every combination
    [
        pytest.param(4, False, False, id="whole groups"),
        pytest.param(2, True, False, id="split groups, skipping"),
        pytest.param(4, True, True, id="whole groups, skipping, packed", marks=FUSED),
        pytest.param(2, False, True, id="split groups, packed", marks=FUSED),
    ],
)
def test_masking_tokens_drops_those_that_moved_and_no_others(tmp_path, rows, skip, share):
    """As above, with the bound on each token: the gradient is that of the tokens within it."""
    low, high = 0.01, 0.02
    trainer = train(
        tmp_path,
        method="off-policy-exact",
        masking="token",
        epsilon=low,
        epsilon_high=high,
        num_iterations=3,
        max_steps=3,
        optim="sgd",
        learning_rate=2.0,
        max_grad_norm=0.0,
        skip_zero_variance=skip,
        pack_prompts=share,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=16 // rows,
    )
    batch = trainer.batches[0]
    trained: Any = trainer.model
    trainer.states[3] = trained.state_dict()
    dropped = [0, 0]  # of those pushed up, and down
    kept_but_moved = 0
    for step in range(3):
        change = tokens_under(trainer.states[step], batch) - tokens_under(trainer.states[0], batch)
        ratios = change.sum(1).view_as(batch["rewards"])
        weights = advantages("off-policy-exact", batch["rewards"], 2, ratios, clamp_delta=0.5)
        pushed = weights.view(-1, 1)
        up, down = change.exp() > 1 + high, change.exp() < 1 - low
        gone = ((pushed > 0) & up) | ((pushed < 0) & down)
        dropped[0] += int((gone & up).sum())
        dropped[1] += int((gone & down).sum())
        kept_but_moved += int((~gone & (up | down) & (pushed != 0)).sum())
        expected = after_sgd(trainer.states[step], batch, pushed * ~gone, 2.0)
        for name, value in expected.items():
            torch.testing.assert_close(trainer.states[step + 1][name], value, atol=1e-6, rtol=1e-6)
    assert min(dropped) > 0, "no token was past its bound"
    assert kept_but_moved > 0, "none had moved the other way, or against its weight"
    shares = [line["ratio/masked_tokens"] for line in logged(trainer, "loss")]
    assert shares[0] == 0
    assert shares[2] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"masking": "word"}, "masking='word' is unknown; use one of sequence, token"),
        (
            {"method": "grpo"},
            "masking='token' is for the off-policy methods; method='grpo' is clipped",
        ),
        ({"num_iterations": 1}, "masking='token' would do nothing: a batch has one update"),
    ],
)
def test_masking_that_cannot_be_is_refused(tmp_path, changes, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        config(tmp_path, **({"masking": "token", "num_iterations": 2} | changes))


@torch.no_grad()
def tokens_under(state: dict[str, torch.Tensor], batch: dict[str, Any]) -> torch.Tensor:
    model, _ = tiny_model()
    model.load_state_dict(state)
    return token_logps(model, batch)


def test_the_on_policy_gradient_is_that_of_weighted_reinforce(tmp_path):
    trainer = train(
        tmp_path, method="bon-centered", max_steps=1, optim="sgd", learning_rate=1.0,
        max_grad_norm=0.0,
    )  # fmt: skip
    batch = trainer.batches[0]
    weights = advantages("bon-centered", batch["rewards"], 2).flatten()
    trained: Any = trainer.model
    for name, value in after_sgd(trainer.states[0], batch, weights, 1.0).items():
        torch.testing.assert_close(trained.state_dict()[name], value, atol=1e-6, rtol=1e-6)


def some_equal(completions, **_: Any) -> list[float]:
    """Every second group of four has equal rewards, so that it says nothing."""
    return [r if i // 4 % 2 else 0.5 for i, r in enumerate(digits(completions))]


@pytest.mark.parametrize(
    ("method", "split"),
    [
        ("bon-max-mean", {}),
        ("bon-centered", {}),
        ("off-policy-exact", {}),
        ("off-policy-exact", {"per_device_train_batch_size": 2, "steps_per_generation": 8,
                              "gradient_accumulation_steps": 8}),
    ],
    ids=["rows of no weight", "on-policy", "whole groups", "split groups"],
)  # fmt: skip
def test_what_says_nothing_is_left_out_and_the_gradient_stays(tmp_path, method, split, monkeypatch):
    """Plain SGD ends at the same weights with skip_zero_variance; fewer rows are read."""
    rows: dict[bool, int] = {False: 0, True: 0}
    ends = {}
    for skip in (False, True):
        original = MaxKTrainer._get_per_token_logps_and_entropies

        def counting(self, model, ids, *args: Any, skip=skip, original=original, **kwargs: Any):
            rows[skip] += len(ids) * torch.is_grad_enabled()
            return original(self, model, ids, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(MaxKTrainer, "_get_per_token_logps_and_entropies", counting)
            given: dict[str, Any] = {"per_device_train_batch_size": 16} | split
            trainer = train(
                tmp_path, some_equal, method=method, num_iterations=2, max_steps=2, optim="sgd",
                learning_rate=1.0, max_grad_norm=0.0, skip_zero_variance=skip, **given,
            )  # fmt: skip
        model: Any = trainer.model
        ends[skip] = model.state_dict()
        assert any((trainer.states[0][name] != value).any() for name, value in ends[skip].items())
        for line in logged(trainer, "reward") if skip else []:
            assert line["policy_lag/iteration_1/max"] == pytest.approx(0, abs=1e-5)
            assert line["skipped"] >= 0.25  # of weight 0, one is kept where a micro-batch has none
    for name, value in ends[False].items():
        torch.testing.assert_close(ends[True][name], value, atol=1e-6, rtol=1e-5)
    assert rows[True] <= (0.75 if split else 0.5) * rows[False]


@pytest.mark.parametrize("method", ["grpo", "off-policy-exact"])
def test_where_nothing_says_anything_nothing_changes(tmp_path, method):
    trainer = train(
        tmp_path, lambda completions, **_: [1.0] * len(completions), method=method,
        skip_zero_variance=True, num_iterations=2, max_steps=2,
    )  # fmt: skip
    model: Any = trainer.model
    for name, value in model.state_dict().items():
        assert torch.equal(trainer.states[0][name], value)


@pytest.mark.parametrize(
    "changes", [{"beta": 0.1}, {"loss_type": "bnpo"}, {"top_entropy_quantile": 0.5}]
)
def test_nothing_is_left_out_where_it_would_have_a_gradient(tmp_path, changes):
    with pytest.raises(ValueError, match=f"skip_zero_variance=True with {next(iter(changes))}"):
        config(tmp_path, method="grpo", skip_zero_variance=True, **changes)


def after_sgd(
    state: dict[str, torch.Tensor], batch: dict[str, Any], weights: torch.Tensor, rate: float
) -> dict[str, torch.Tensor]:
    """The parameters after a step on -sum_i weight_i log pi(y_i|x), as dr_grpo scales it.

    weights: one a completion, or one a token.
    """
    model, _ = tiny_model()
    model.load_state_dict(state)
    each = token_logps(model, batch)
    length = config("unused").max_completion_length or 0
    weights = weights if weights.ndim == 2 else weights[:, None]
    (-(weights * each).sum() / (len(each) * length)).backward()
    out = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        out[name] = parameter.detach() - rate * parameter.grad
    return out


@pytest.fixture
def bf16(monkeypatch) -> bool:
    """Older versions of transformers leave a variable behind that turns bf16 on in later runs."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    return True


@pytest.mark.parametrize("split", [{}, SPLIT], ids=["whole groups", "split groups"])
def test_in_bf16_a_policy_that_stands_still_has_ratio_1(tmp_path, split, bf16):
    """Old and new log-probabilities come from one code path: no noise where nothing moved."""
    trainer = train(tmp_path, bf16=bf16, num_iterations=3, learning_rate=0.0, **split)
    expected = advantages("off-policy-exact", trainer.batches[0]["rewards"], 2, 0).flatten()
    for seen in (s for s in trainer.seen if s["batch"] is trainer.batches[0]):
        torch.testing.assert_close(seen["weights"], expected[seen["row"]], atol=1e-6, rtol=0)
    name = "policy_lag/iteration_3/max"
    lag = [line[name] for line in logged(trainer, name)]
    assert lag
    assert max(lag) == 0


@pytest.mark.parametrize("split", [{}, SPLIT], ids=["whole groups", "split groups"])
def test_in_bf16_weights_are_those_of_float32_within_its_precision(tmp_path, split, bf16):
    """bf16 has 8 bits: a log-probability of a token is good to 4 / 256, and there are six tokens.

    The ratios follow from two of them; 0.1 is more than their noise and less than the drift.
    """
    trainer = train(tmp_path, bf16=bf16, num_iterations=3, masking="none", **split)
    drift, noise = 0.0, 0.0
    for seen in trainer.seen:
        batch = seen["batch"]
        now, then = (trainer.states[step] for step in (seen["step"], batch["step"]))
        ratios = (logps(now, batch) - logps(then, batch)).view_as(batch["rewards"])
        expected = bounded("off-policy-exact", batch["rewards"], ratios, gate=1e9).flatten()
        scale = expected.abs().max().item()
        drift = max(drift, float(ratios.abs().max()))
        off = (seen["weights"] - expected[seen["row"]]).abs().max().item()
        noise = max(noise, off / max(scale, 1e-9))
    assert drift > 0.1
    assert noise < 0.1


def logged(trainer: Watched, name: str) -> list[dict[str, Any]]:
    return [line for line in trainer.state.log_history if name in line]


@pytest.mark.parametrize("method", ["off-policy-exact", "bon-centered"])
@pytest.mark.parametrize(
    ("schedule", "ks"),
    [
        ({"k": 1, "k_end": 3, "k_schedule": "linear"}, [1, 1, 2, 2, 3, 3]),
        ({"k": 3, "k_end": 1, "k_schedule": "step"}, [3, 3, 3, 1, 1, 1]),
    ],
)
def test_k_follows_its_schedule_at_every_optimiser_step(tmp_path, method, schedule, ks):
    trainer = train(
        tmp_path, method=method, num_iterations=2, max_steps=6, masking="none", **schedule
    )
    assert [line["k"] for line in logged(trainer, "k")] == ks
    for seen in trainer.seen:
        batch = seen["batch"]
        now, then = (trainer.states[step] for step in (seen["step"], batch["step"]))
        ratios = (logps(now, batch) - logps(then, batch)).view_as(batch["rewards"])
        k = ks[seen["step"]]
        if METHODS[method].off_policy:
            expected = bounded(method, batch["rewards"], ratios, k, gate=1e9).flatten()
        else:
            expected = advantages(method, batch["rewards"], k, 0).flatten()
        torch.testing.assert_close(seen["weights"], expected[seen["row"]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("split", [{}, SPLIT], ids=["whole groups", "split groups"])
def test_what_is_logged_is_what_happened(tmp_path, split):
    """Every figure computed again from the samples and the weights of the model."""
    clamped = {"clamp_delta": 0.05, "learning_rate": 2e-3, "full_reward": 1.0}
    trainer = train(tmp_path, num_iterations=3, max_steps=3, **clamped, **split)
    batch, lines = trainer.batches[0], logged(trainer, "loss")
    rewards = batch["rewards"]
    first = lines[0]
    for k in (1, 2, 4):
        subsets = torch.combinations(torch.arange(4), k)
        assert first[f"max_at/{k}"] == pytest.approx(
            rewards[:, subsets].amax(-1).mean().item(), abs=1e-6
        )
    pairs = rewards[:, torch.combinations(torch.arange(4), 2)].amax(-1)
    assert first["groups/zero_variance"] == (pairs == pairs[:, :1]).all(-1).float().mean().item()
    assert first["groups/all_correct"] == ((rewards >= 1).sum(-1) > 2).float().mean().item()
    assert first["groups/unscored"] == 0
    weights = advantages(trainer.args.method, rewards, 2, 0)
    assert first["weights/rms"] == pytest.approx(weights.square().mean().sqrt().item(), rel=1e-5)
    texts = [tuple(row[: int(m.sum())].tolist()) for row, m in zip(
        batch["completion_ids"], batch["completion_mask"], strict=True)]  # fmt: skip
    groups = [texts[i : i + 4] for i in range(0, len(texts), 4)]
    assert first["unique"] == pytest.approx(sum(len(set(g)) for g in groups) / len(texts))
    for step in (1, 2):
        moved = logps(trainer.states[step], batch) - logps(trainer.states[0], batch)
        ratios, line = moved.view_as(rewards), lines[step]
        name = f"policy_lag/iteration_{step + 1}"
        assert line[f"{name}/mean"] == pytest.approx(moved.abs().mean().item(), abs=1e-5)
        assert line[f"{name}/max"] == pytest.approx(moved.abs().max().item(), abs=1e-5)
        assert line["ratio/clamped"] == pytest.approx((moved.expm1().abs() > 0.05).float().mean())
        free = advantages("off-policy-exact", rewards, 2, ratios, clamp_delta=0.05)
        masked = (mask_sequences(free, ratios, 0.2) == 0) & (free != 0)
        assert line["ratio/masked"] == pytest.approx(masked.float().mean().item())
        product = ratios[:, torch.combinations(torch.arange(4), 2)].sum(-1).exp()
        effective = product.sum(-1) ** 2 / (6 * (product**2).sum(-1))
        assert line["ratio/effective"] == pytest.approx(effective.mean().item(), abs=1e-5)
        assert line["ratio/clamped"] > 0
    for line in lines:
        parts = [line[f"seconds/{x}"] for x in ("sampling", "verifying", "pre-pass", "update")]
        assert sum(parts) == pytest.approx(line["step_time"], rel=0.2)
        assert (parts[2] > 0) == (bool(split) and line is not first)


def test_the_batch_arithmetic_is_printed_before_training(tmp_path, capsys):
    model, tokenizer = tiny_model()
    args = config(
        tmp_path,
        per_device_train_batch_size=2,
        steps_per_generation=4,
        gradient_accumulation_steps=2,
        num_iterations=3,
        max_steps=-1,
        num_train_epochs=1,
    )
    prompts = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
    MaxKTrainer(model, digits, args, prompts, processing_class=tokenizer)
    said = capsys.readouterr().out
    shown = {line[2:29].strip(): line[29:] for line in said.splitlines() if line[:2] == "  "}
    assert shown["prompts in a batch"] == "2"
    assert shown["completions in a batch"] == "8"
    assert shown["micro-batch"] == "2 completions a process"
    assert shown["optimiser steps on a batch"] == "6"
    assert shown["optimiser steps in all"] == "48"  # 16 prompts, 2 a batch, 6 steps each
    assert shown["groups"] == "of 4 split over micro-batches"


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_number_of_steps_it_names_is_the_number_that_is_made(tmp_path, epochs, capsys):
    trainer = train(
        tmp_path, max_steps=-1, num_train_epochs=epochs, num_iterations=2,
        per_device_train_batch_size=16,
    )  # fmt: skip
    assert f"optimiser steps in all     {trainer.state.global_step}\n" in capsys.readouterr().out


def test_reward_functions_are_told_early_what_they_will_be_asked_for(tmp_path):
    class Early:
        __name__ = "early"

        def __init__(self) -> None:
            self.order: list[tuple[str, Any]] = []

        def start(self, completions, **columns: Any) -> None:
            assert not {"prompt", "completion"} & set(columns)
            self.order.append(("start", completions))

        def __call__(self, completions, **_: Any) -> list[float]:
            self.order.append(("call", completions))
            return digits(completions)

    reward = Early()
    train(tmp_path, reward, max_steps=2)
    first, second = reward.order[:2]
    assert [name for name, _ in reward.order] == ["start", "call"] * 2
    assert first[1] == second[1]


def test_a_reward_function_that_raises_is_named(tmp_path):
    def broken(completions, **_: Any) -> list[float]:
        raise KeyError("tests")

    async def slow(completions, **_: Any) -> list[float]:
        raise TimeoutError("no answer")

    with pytest.raises(RewardError, match="reward function 'broken' raised KeyError: 'tests'"):
        train(tmp_path, broken)
    with pytest.raises(RewardError, match="reward function 'slow' raised TimeoutError: no answer"):
        train(tmp_path, slow)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "ppo"}, "method='ppo' is unknown; use one of grpo,"),
        ({"k": 5}, "k=5 must be between 1 and num_generations=4"),
        ({"k": 4}, "k=4 equal to num_generations=4 leaves method='off-policy-exact' nothing"),
        ({"method": "grpo", "clamp_delta": 0.5}, "clamp_delta=0.5 is for the off-policy methods"),
        ({"clamp_delta": 0.0}, "clamp_delta=0.0 must be above 0"),
        ({"method": "grpo", "k": 2}, "k=2, but method='grpo' has no k; leave k out"),
        ({"k_switch": 0.3}, "k_switch=0.3 with k_schedule='constant', which has no switch"),
        ({"k_schedule": "cosine"}, "k_schedule='cosine' is unknown; use one of constant, linear"),
        ({"k_schedule": "linear"}, "k_end=None; k_schedule='linear' needs the last k"),
        ({"k_schedule": "linear", "k_end": 5}, "k_end=5 must be between 1 and num_generations=4"),
        ({"k_end": 1}, "k_end=1 with k_schedule='constant'; use 'linear' or 'step'"),
        ({"k_switch": 2.0}, "k_switch=2.0 must be a share"),
        (
            {"method": "grpo", "k_schedule": "linear", "k_end": 2},
            "k_schedule='linear', but method='grpo' has no k",
        ),
    ],
)
def test_impossible_settings_are_refused_before_any_model_is_loaded(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **changes)


PICTURE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}]


@pytest.mark.parametrize(
    "row",
    [{"prompt": "a", "image": [0]}, {"prompt": "a", "images": [[0]]}, {"prompt": PICTURE}],
    ids=["a column", "several", "a part of a message"],
)
def test_off_policy_methods_refuse_prompts_with_images_before_a_model_is_made(tmp_path, row):
    rows = Dataset.from_list([row] * 8)
    given: list[Any] = [rows] if row["prompt"] == PICTURE else [rows, rows.to_iterable_dataset()]
    for data in given:
        with pytest.raises(ValueError, match="'off-policy-exact' is for prompts of text; use an"):
            MaxKTrainer(str(tmp_path), digits, config(tmp_path), data)
    text = Dataset.from_list([{"prompt": [{"role": "user", "content": "a"}]}] * 8)
    assert not has_images(text)
    assert not has_images(text.to_iterable_dataset())
    assert not has_images(None)  # TRL says that there is none


def test_off_policy_methods_refuse_images_that_come_with_a_batch(tmp_path, monkeypatch):
    scored = GRPOTrainer._generate_and_score_completions

    def with_images(self: GRPOTrainer, inputs: Any) -> dict[str, Any]:
        return {**scored(self, inputs), "pixel_values": torch.zeros(4, 3)}

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", with_images)
    with pytest.raises(ValueError, match="is for prompts of text; use an on-policy method"):
        train(tmp_path)


def test_the_logged_advantages_are_ours(tmp_path):
    trainer = train(tmp_path, method="bon-centered", max_steps=1)
    expected = advantages("bon-centered", trainer.batches[0]["rewards"], 2).flatten()
    assert list(trainer._logs["advantages"]) == pytest.approx(expected.tolist(), abs=1e-6)
