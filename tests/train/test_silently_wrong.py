"""Ways to train on wrong numbers without a word: each is refused, said, or right."""

import math
import warnings
from typing import Any

import pytest
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from peft import LoraConfig
from transformers import MixtralConfig, MixtralForCausalLM, ProcessorMixin, TrainerCallback
from trl.trainer import grpo_trainer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.config import ConfigError, TrainConfig
from maxk.estimators import METHODS, advantages
from maxk.store.run import Run
from maxk.train import MaxKTrainer
from maxk.train.job import trl_config
from maxk.train.plan import plan_of
from maxk.train.recorder import conversation
from maxk.train.rewards import RewardError
from tests.tiny import tiny_model
from tests.train.test_trainer import (
    Watched,
    config,
    digits,
    logged,
    token_logps,
    tokens_under,
    train,
)

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


def made(folder: Any, change: Any = None, peft_config: Any = None, **settings: Any) -> MaxKTrainer:
    """A trainer whose tiny model was changed before."""
    model, tokenizer = tiny_model()
    if change is not None:
        change(model)
    return MaxKTrainer(
        model,
        digits,
        config(folder, **settings),
        Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
        peft_config=peft_config,
    )


# --- 1: dropout ------------------------------------------------------------------------------


def attention_dropout(model: Any) -> None:
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.1


def dropout_module(model: Any) -> None:
    model.model.layers[0].mlp = torch.nn.Sequential(
        model.model.layers[0].mlp, torch.nn.Dropout(0.1)
    )


def router_jitter(model: Any) -> None:
    model.model.layers[1].mlp.router_jitter_noise = 0.01


@pytest.mark.parametrize(
    ("change", "lora", "said"),
    [
        (attention_dropout, 0.0, r"attention_dropout=0\.1"),
        (dropout_module, 0.0, r"Dropout=0\.1"),
        (router_jitter, 0.0, r"router_jitter_noise=0\.01"),
        (None, 0.05, r"lora_dropout=0\.05"),
    ],
)
def test_an_off_policy_method_refuses_dropout(tmp_path, change, lora, said):
    adapter = LoraConfig(r=2, target_modules=["q_proj"], lora_dropout=lora) if lora else None
    with pytest.raises(ValueError, match=f"the model has dropout .*{said}.* set it to 0"):
        made(tmp_path, change, adapter, num_iterations=2)
    made(tmp_path, change, adapter)  # one update a batch has no ratio
    made(tmp_path, change, adapter, num_iterations=2, method="bon-mean")


def test_dropout_that_trl_turns_off_is_none(tmp_path):
    made(tmp_path, dropout_module, num_iterations=2, disable_dropout=True)
    with pytest.raises(ValueError, match="attention_dropout"):
        made(tmp_path, attention_dropout, num_iterations=2, disable_dropout=True)


def test_ratios_that_are_noise_are_said(tmp_path):
    noisy = made(tmp_path, attention_dropout, num_iterations=2, method="grpo", max_steps=2)
    with pytest.warns(UserWarning, match="before the first update on a batch log-ratios are 0.0"):
        noisy.train()
    quiet = made(tmp_path, num_iterations=2, method="grpo", max_steps=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="before the first update")
        quiet.train()


# --- 2: truncated sampling -------------------------------------------------------------------

WARPED: list[dict[str, Any]] = [
    {"top_p": 0.9},
    {"top_k": 5},
    {"min_p": 0.1},
    {"repetition_penalty": 1.1},
    {"generation_kwargs": {"typical_p": 0.9}},
    {"generation_kwargs": {"bad_words_ids": [[5]]}},
    {"generation_kwargs": {"temperature": 0.5}},
]


@pytest.mark.parametrize("changed", WARPED, ids=str)
def test_samples_of_another_distribution_than_the_ratios_are_refused(tmp_path, changed):
    inner = changed.get("generation_kwargs", changed)
    name = next(iter(inner))
    with pytest.raises(ValueError, match=f"{name}=.* with method='off-policy-exact'"):
        config(tmp_path, num_iterations=2, **changed)
    config(tmp_path, **changed)
    with pytest.warns(UserWarning, match=f"{name}=.*another distribution than the ratios"):
        made(tmp_path, num_iterations=2, method="bon-mean", **changed)


def test_the_model_s_own_generation_settings_count_too(tmp_path):
    def no_repetition(model: Any) -> None:
        model.generation_config.no_repeat_ngram_size = 2

    with pytest.raises(ValueError, match="generation_config has no_repeat_ngram_size=2"):
        made(tmp_path, no_repetition, num_iterations=2)


def test_what_changes_nothing_is_not_refused(tmp_path):
    given = {"max_new_tokens": 4, "top_p": 1.0, "num_beams": 1, "temperature": 1.0}
    config(tmp_path, num_iterations=2, generation_kwargs=given)


# --- 3: the KL term --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> str:
    """Other weights than the model's, so that the KL term has something to pull at."""
    folder = tmp_path_factory.mktemp("reference")
    model, tokenizer = tiny_model(seed=1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def equal(completions, **_: Any) -> list[float]:
    return [0.5] * len(completions)


ALIKE: dict[str, Any] = {
    "num_iterations": 3, "max_steps": 3, "beta": 0.3, "optim": "sgd", "learning_rate": 1.0,
    "max_grad_norm": 0.0,
}  # fmt: skip
HALVES = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
_STOCK: dict[Any, dict[str, torch.Tensor]] = {}


def ends(folder: Any, start: str, reward: Any = equal, **settings: Any) -> dict[str, torch.Tensor]:
    model: Any = train(folder, reward, start=start, **(ALIKE | settings)).model
    return {name: value.clone() for name, value in model.state_dict().items()}


def stock(folder: Any, start: str, corrected: bool) -> dict[str, torch.Tensor]:
    """Where stock TRL ends with the same settings."""
    if corrected not in _STOCK:
        given = {"use_bias_correction_kl": corrected} if corrected_kl() else {}
        args = config(folder, method="grpo", **ALIKE, **given)
        names = {field for field in GRPOConfig.__dataclass_fields__ if field in vars(args)}
        stocks = GRPOConfig(**plain(args, names))
        model, tokenizer = tiny_model()
        model.config._name_or_path = start
        prompts = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
        trainer = GRPOTrainer(model, equal, stocks, prompts, processing_class=tokenizer)
        trainer.train()
        _STOCK[corrected] = {k: v.clone() for k, v in model.state_dict().items()}
    return _STOCK[corrected]


def plain(args: Any, names: set[str]) -> dict[str, Any]:
    """The settings that were asked for: those that differ from TRL's defaults."""
    asked = {**{name: getattr(args, name) for name in ALIKE}, "loss_type": "dr_grpo"}
    for name in ("output_dir", "per_device_train_batch_size", "num_generations", "seed", "use_cpu"):
        asked[name] = getattr(args, name)
    for name in ("max_completion_length", "lr_scheduler_type", "report_to", "bf16"):
        asked[name] = getattr(args, name)
    for name in ("save_strategy", "logging_steps", "use_bias_correction_kl"):
        if name in names:
            asked[name] = getattr(args, name)
    return asked


def corrected_kl() -> bool:
    return "use_bias_correction_kl" in GRPOConfig.__dataclass_fields__


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("grpo", {}),
        ("bon-centered", {}),
        ("off-policy", {}),
        ("off-policy-normalized", {"masking": "none"}),
        ("off-policy-exact", {"masking": "token"}),
        ("off-policy-exact", HALVES),
    ],
)
def test_where_all_rewards_are_equal_the_step_is_that_of_stock_trl(
    tmp_path, reference, method, more, corrected
):
    """The KL term and all else beside the weights, also in the second and third update."""
    due = stock(tmp_path, reference, corrected)
    if "use_bias_correction_kl" in GRPOConfig.__dataclass_fields__:
        more = {**more, "use_bias_correction_kl": corrected}
    found = ends(tmp_path, reference, method=method, **more)
    moved = 0.0
    for name, value in tiny_model()[0].state_dict().items():
        moved = max(moved, float((due[name] - value).abs().max()))
        torch.testing.assert_close(found[name], due[name], atol=1e-6, rtol=1e-4)
    assert moved > 1e-3, "the KL term did nothing"


@pytest.mark.skipif(not corrected_kl(), reason="a TRL without the setting")
@pytest.mark.parametrize("masking", ["token", "none"])
def test_with_weights_and_a_kl_term_the_gradient_has_both(tmp_path, reference, masking):
    """-w log pi + beta r (exp(ref - now) - (ref - now) - 1), with the token's ratio r."""
    narrow: dict[str, Any] = {"epsilon": 0.01} if masking == "token" else {}
    given = {**ALIKE, **narrow, "max_steps": 2, "use_bias_correction_kl": True}
    trainer = train(tmp_path, method="off-policy-exact", start=reference, masking=masking, **given)
    batch, dropped = trainer.batches[0], 0
    trained: Any = trainer.model
    trainer.states[2] = trained.state_dict()
    then = tokens_under(trainer.states[0], batch)
    with torch.no_grad():
        ref = token_logps(tiny_model(seed=1)[0], batch)
    for step in range(2):
        model, _ = tiny_model()
        model.load_state_dict(trainer.states[step])
        now = token_logps(model, batch)
        change = (now - then).detach()
        ratios = change.sum(1).view_as(batch["rewards"])
        weights = advantages("off-policy-exact", batch["rewards"], 2, ratios, clamp_delta=0.5)
        pushed = weights.view(-1, 1).expand_as(now)
        if masking == "token":
            gone = ((pushed > 0) & (change.expm1() > 0.01)) | (
                (pushed < 0) & (change.expm1() < -0.01)
            )
            dropped += int(gone.sum())
            pushed = pushed.masked_fill(gone, 0.0)
        ratio = (now - then).exp()
        kl = ratio * ((ref - now).exp() - (ref - now) - 1)
        loss = ((-pushed * now + 0.3 * kl) * batch["completion_mask"]).sum() / (len(now) * 6)
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            due = parameter.detach() - parameter.grad
            torch.testing.assert_close(trainer.states[step + 1][name], due, atol=1e-6, rtol=1e-5)
    assert bool(dropped) == (masking == "token")


# --- 4: completions that are left out --------------------------------------------------------


def mixture_of_experts() -> Any:
    _, tokenizer = tiny_model()
    torch.manual_seed(0)
    model = MixtralForCausalLM(
        MixtralConfig(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, num_local_experts=2,
            max_position_embeddings=64, pad_token_id=0, eos_token_id=1, bos_token_id=None,
            output_router_logits=True,
        )
    )  # fmt: skip
    return model, tokenizer


@pytest.mark.skipif(
    "router_aux_loss_coef" not in GRPOConfig.__dataclass_fields__, reason="a TRL without its loss"
)
@pytest.mark.parametrize("setting", ["skip_zero_variance", "pack_prompts"])
def test_a_router_s_loss_and_images_need_every_row(tmp_path, setting):
    model, tokenizer = mixture_of_experts()
    prompts = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
    given = config(tmp_path, **{setting: True})
    fix = f"{setting}=True with a model whose router has a loss.* use .*{setting}=False"
    with pytest.raises(ValueError, match=fix):
        MaxKTrainer(model, digits, given, prompts, processing_class=tokenizer)
    images = ProcessorMixin.__new__(ProcessorMixin)
    with pytest.raises(ValueError, match=f"{setting}=True with a model for images"):
        plan_of(given, tiny_model()[0], images)


# --- 5: the text of a conversation: tests/grade ----------------------------------------------


def test_a_rollout_keeps_the_whole_conversation():
    called = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "run"}]},
        {"role": "tool", "content": "3"},
    ]
    found = conversation(called)
    assert found is not None
    assert '"tool_calls"' in found
    assert conversation([{"role": "assistant", "content": "a"}]) is None
    assert conversation("a") is None
    image = [{"role": "assistant", "content": [{"type": "image", "image": object()}]}]
    assert "<object>" in str(conversation(image))


# --- 6: values of the command line -----------------------------------------------------------


def asked(folder: Any, **trl: Any) -> TrainConfig:
    given: dict[str, Any] = {"run": {"out": folder}, "model": {"name": "m"}, "data": {"name": "d"}}
    given["trl"] = {"num_generations": 8, "use_cpu": True, "bf16": False, **trl}
    return TrainConfig.model_validate(given)


def test_a_word_of_the_command_line_has_the_type_of_its_field(tmp_path):
    more = {"log_completions": "False", "shuffle_dataset": "false", "epsilon": ".04"}
    more |= {"num_iterations": "2", "delta": "None", "weight_decay": "1e-2", "run_name": "7"}
    made = trl_config(asked(tmp_path, **more))
    found = {name: getattr(made, name) for name in more}
    assert found == {
        "log_completions": False, "shuffle_dataset": False, "epsilon": 0.04, "num_iterations": 2,
        "delta": None, "weight_decay": 0.01, "run_name": "7",
    }  # fmt: skip
    assert isinstance(made.log_completions, bool)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("log_completions", "no", "trl.log_completions='no' is not true or false"),
        ("log_completions", 1, "trl.log_completions=1 is not true or false"),
        ("max_steps", "many", "trl.max_steps='many' is not a whole number"),
        ("max_steps", 2.5, "trl.max_steps=2.5 is not a whole number"),
        ("beta", "None", "trl.beta='None' is not a number"),
        ("beta", True, "trl.beta=True is not a number"),
        ("save_only_model", True, "trl.save_only_model=True: a stopped run goes on"),
    ],
)
def test_a_value_that_its_field_cannot_have_is_refused(tmp_path, name, value, said):
    with pytest.raises(ConfigError, match=said):
        trl_config(asked(tmp_path, **{name: value}))


def test_an_empty_table_of_lora_is_an_adapter(tmp_path):
    given = {"run": {"out": tmp_path}, "model": {"name": "m"}, "data": {"name": "d"}, "lora": {}}
    config_of = TrainConfig.model_validate(given)
    assert config_of.lora == {}
    vllm = TrainConfig.model_validate({**given, "model": {"name": "m", "sampler": "vllm"}})
    with pytest.raises(ConfigError, match="has no adapters"):
        trl_config(vllm)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"generation_kwargs": {"typical_p": 0.9}}, r"trl\.typical_p=0\.9 is of TRL's sampling"),
        ({"generation_kwargs": '{"stop_strings": "a"}'}, r"trl\.stop_strings='a' is of TRL's"),
        ({"repetition_penalty": 1.2}, r"trl\.repetition_penalty=1\.2 is of TRL's sampling"),
        ({"cache_implementation": "static"}, r"trl\.cache_implementation='static' is of TRL's"),
        ({"use_transformers_continuous_batching": True}, "is of TRL's sampling, and model.sampler"),
    ],
)
def test_another_sampler_refuses_what_it_does_not_have(tmp_path, given, said):
    if Version(trl.__version__) < Version("1.16"):
        pytest.skip("a TRL without some of the settings")
    whole = asked(tmp_path, **given).model_dump()
    whole["model"]["sampler"] = "maxk"
    with pytest.raises(ConfigError, match=said):
        trl_config(TrainConfig.model_validate(whole))
    taken = asked(tmp_path, generation_kwargs={"max_new_tokens": 5, "top_k": 0}).model_dump()
    taken["model"]["sampler"] = "maxk"
    trl_config(TrainConfig.model_validate(taken))


# --- 7: the end ------------------------------------------------------------------------------


class StopAt(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step == 1


@pytest.mark.parametrize("end", ["all steps", "a callback", "an error"])
def test_the_last_batch_is_written_however_a_training_ends(tmp_path, end):
    run = Run.start(tmp_path / "run", "train", {})
    calls: list[int] = []

    def reward(completions, **_: Any) -> list[float]:
        calls.append(1)
        if end == "an error" and len(calls) == 2:
            raise OSError("no judge")
        return digits(completions)

    model, tokenizer = tiny_model()
    trainer = MaxKTrainer(
        model, reward, config(tmp_path, max_steps=2),
        Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer, run=run,
        callbacks=[StopAt()] if end == "a callback" else None,
    )  # fmt: skip
    if end == "an error":
        with pytest.raises(RewardError, match="no judge"):
            trainer.train()
    else:
        trainer.train()
    steps = {row["step"] for row in run.read("rollouts").to_pylist()}
    assert steps == ({0, 1} if end == "all steps" else {0})


# --- 9: the correction for vLLM --------------------------------------------------------------


class Engine:
    """In the place of TRL's vLLM: the model itself, and of some tokens another probability."""

    off: tuple[float, ...] = ()  # nats by which the engine differs, for the samples of a group

    def __init__(self, model: Any, accelerator: Any, **_: Any) -> None:
        self.model, self.drawn = model, 0

    def sync_weights(self) -> None:
        pass

    @torch.no_grad()
    def generate(self, prompts: Any, **_: Any) -> tuple[Any, list[Any], list[Any], None]:
        ids, said = [], []
        for i, prompt in enumerate(prompts):
            generator = torch.Generator().manual_seed(self.drawn)
            self.drawn += 1
            drawn = torch.randint(3, 20, (5,), generator=generator).tolist()
            whole = torch.tensor([[*prompt, *drawn]])
            now = self.model(input_ids=whole).logits[0, -6:-1].log_softmax(-1)
            own = (
                now.gather(-1, torch.tensor(drawn)[:, None])[:, 0] - self.off[i % len(self.off)] / 5
            )
            ids.append(drawn)
            said.append([[value] for value in own.tolist()])
        return None, ids, said, None


@pytest.mark.parametrize("method", ["bon-centered", "off-policy-exact"])
def test_what_the_correction_for_vllm_masks_leaves_its_group(tmp_path, monkeypatch, method):
    """Ratios of 1, e^2, 1 and e^0.5 of a group: above 3 TRL masks the completion."""
    if Version(trl.__version__) < Version("1.16"):
        pytest.skip("a TRL that asks vLLM in another way")
    monkeypatch.setattr(grpo_trainer, "VLLMGeneration", Engine)
    monkeypatch.setattr(Engine, "off", (0.0, 2.0, 0.0, 0.5))
    run = Run.start(tmp_path / "run", "train", {})
    model, tokenizer = tiny_model()
    trainer = Watched(
        model, digits, config(tmp_path, method=method, use_vllm=True, max_steps=1),
        Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]), processing_class=tokenizer,
        run=run,
    )  # fmt: skip
    trainer.train()
    rows = run.read("rollouts").to_pylist()
    rewards = torch.tensor([row["reward"] for row in rows])
    due = torch.zeros(4)
    due[[0, 2, 3]] = advantages(method, rewards[[0, 2, 3]], 2, 0)
    assert due.abs().max() > 0
    (seen,) = trainer.seen
    torch.testing.assert_close(seen["weights"], due[seen["row"]], atol=1e-6, rtol=1e-4)
    written = torch.tensor([row["weights"][0] for row in rows])
    torch.testing.assert_close(
        written, due * torch.tensor([1, 0, 1, math.e**0.5]), atol=1e-5, rtol=1e-3
    )
    assert logged(trainer, "loss")[0]["ratio/vllm_masked"] == 0.25


# --- what stock TRL does not mind ------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "bon-centered", "off-policy-exact"])
def test_completions_without_a_reward_are_in_no_group(tmp_path, method):
    """The first of four in the first group, three of the second, and all of the third."""

    def some(completions, **_: Any) -> list[Any]:
        found: list[Any] = digits(completions)
        for i in (0, 4, 5, 6, 8, 9, 10, 11):
            found[i] = None
        return found

    trainer = train(
        tmp_path, some, method=method, per_device_train_batch_size=16, num_iterations=2,
        max_steps=2,
    )  # fmt: skip
    rewards = trainer.batches[0]["rewards"]
    assert rewards.isnan().sum() == 8
    k = 2 if METHODS[method].uses_k else None
    due = torch.zeros(4, 4)
    due[0, 1:] = advantages(method, rewards[0, 1:], k, 0)
    due[3] = advantages(method, rewards[3], k, 0)
    seen = trainer.seen[0]
    torch.testing.assert_close(seen["weights"], due.flatten()[seen["row"]])
    assert logged(trainer, "loss")[0]["groups/unscored"] == 0.75


def test_an_object_whose_call_is_to_be_awaited_is_a_reward(tmp_path):
    class Judge:
        async def __call__(self, completions, **_: Any) -> list[float]:
            return digits(completions)

    trainer = train(tmp_path, Judge(), max_steps=1)
    assert "rewards/Judge/mean" in logged(trainer, "loss")[0]


def test_an_environment_can_own_the_reward(tmp_path, monkeypatch):
    """TRL adds its reward to those that are given, which may be none."""
    seen: list[Any] = []

    def scores(completions, **_: Any) -> list[float]:
        seen.append(1)
        return digits(completions)

    original = GRPOTrainer.__init__

    def with_environment(self: Any, model: Any, reward_funcs: Any, *args: Any, **kwargs: Any):
        reward_funcs.append(scores)
        original(self, model, reward_funcs, *args, **kwargs)

    monkeypatch.setattr(GRPOTrainer, "__init__", with_environment)
    train(tmp_path, None, max_steps=1)
    assert seen == [1]
