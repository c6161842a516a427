"""Every field of the configuration acts, is refused, or is listed here with why it need not act.

The table of the reference is made of these cases: MAXK_WRITE=1 writes it anew.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from trl.trainer import grpo_trainer

from maxk.estimators.settings import FACTS
from maxk.train import MaxKConfig, MaxKTrainer
from tests.tiny import tiny_model
from tests.train.test_silently_wrong import Engine, dropout_module
from tests.train.test_trainer import config, digits

pytestmark = [
    pytest.mark.filterwarnings("default"),  # of TRL and its libraries, not ours
    pytest.mark.skipif(Version(trl.__version__) < Version("1.16"), reason="fields of TRL 1.16"),
]
PAGE = Path(__file__).parents[2] / "docs/reference/trainer-settings.md"
METHODS = ("grpo", "bon-centered", "off-policy-exact")  # of each class, in the order of the table


@dataclasses.dataclass(frozen=True)
class Case:
    field: str
    value: Any
    does: str  # for each class: A acts, R is refused, - is not of this case
    given: dict[str, Any] = dataclasses.field(default_factory=dict)  # what else is set


def lengths(completions, **_: Any) -> list[float]:
    return [len(set(text)) / 6 for text in completions]


def loud(model: Any) -> None:
    """Some tokens are much more likely than others."""
    model.lm_head.weight.data *= 100


SEVERAL: dict[str, Any] = {"num_iterations": 3, "learning_rate": 3e-4}
FAR = {"num_iterations": 3, "learning_rate": 5e-3}  # ratios beyond 1 +- 0.2
KL: dict[str, Any] = {"beta": 0.3}
SYNC = {**KL, "sync_ref_model": True, "ref_model_sync_steps": 1}
ENTROPY = {"use_adaptive_entropy": True, "entropy_coef": 0.1, "entropy_target": 9.0}
LINEAR = {"k": 1, "k_end": 3, "k_schedule": "linear"}
STEP = {"k": 1, "k_end": 3, "k_schedule": "step"}
NO_MASK = {**SEVERAL, "masking": "none"}
VLLM = {"use_vllm": True}
SERVER = {"use_vllm": True, "vllm_mode": "server"}

CASES = [
    Case("method", "rloo", "AAA"),
    Case("k", 3, "RAA"),
    Case("k_schedule", "linear", "-AA", {"k": 1, "k_end": 3}),
    Case("k_schedule", "linear", "R--", {"k_end": 3}),
    Case("k_end", 2, "-AA", LINEAR),
    Case("k_end", 2, "RRR"),
    Case("k_switch", 0.9, "-AA", STEP),
    Case("k_switch", 0.9, "RRR"),
    Case("clamp_delta", 0.005, "RRA", SEVERAL),
    Case("clamp_delta", 0.02, "--R"),
    Case("masking", "none", "--A", FAR),
    Case("masking", "token", "RRA", FAR),
    Case("masking", "token", "--R"),
    Case("scale_rewards", "none", "RRR"),
    Case("multi_objective_aggregation", "normalize_then_sum", "RRR"),
    Case("reward_weights", [1.0, -1.0], "AAA", {"reward": [digits, lengths]}),
    Case("loss_type", "dapo", "AAA"),
    Case("loss_type", "luspo", "AAA"),
    Case("loss_type", "grpo", "AAR"),
    Case("loss_type", "bnpo", "AAR"),
    Case("loss_type", "cispo", "AAR"),
    Case("loss_type", "sapo", "AAR"),
    Case("loss_type", "vespo", "AAR"),
    Case("epsilon", 0.001, "AAA", SEVERAL),
    Case("epsilon", 0.01, "RRR"),
    Case("epsilon", 0.01, "--R", NO_MASK),
    Case("epsilon_high", 0.001, "AAA", SEVERAL),
    Case("epsilon_high", 0.01, "RRR"),
    Case("epsilon_high", 0.01, "--R", NO_MASK),
    Case("delta", 1.0001, "AAR", SEVERAL),
    Case("delta", 1.001, "RRR"),
    Case("importance_sampling_level", "sequence", "AAR", SEVERAL),
    Case("off_policy_mask_threshold", 1e-6, "AAR", SEVERAL),
    Case("off_policy_mask_threshold", 1e-4, "RRR"),
    *(
        Case(name, value, "AA-", {**SEVERAL, "loss_type": "sapo"})
        for name, value in (("sapo_temperature_neg", 4.0), ("sapo_temperature_pos", 4.0))
    ),
    *(
        Case(name, value, "AA-", {**SEVERAL, "loss_type": "vespo"})
        for name, value in (
            ("vespo_k_pos", 9.0), ("vespo_lambda_pos", 9.0),
            ("vespo_k_neg", 9.0), ("vespo_lambda_neg", 9.0),
        )
    ),
    *(
        Case(name, 5.0, "RRR", SEVERAL)
        for name in (
            "sapo_temperature_neg", "sapo_temperature_pos",
            "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg",
        )
    ),
    Case("beta", 0.3, "AAA"),
    Case("use_bias_correction_kl", False, "AAA", KL),
    Case("use_bias_correction_kl", False, "RRR"),
    Case("sync_ref_model", True, "AAA", {**KL, "ref_model_sync_steps": 1}),
    Case("sync_ref_model", True, "RRR"),
    Case("ref_model_mixup_alpha", 1.0, "AAA", SYNC),
    Case("ref_model_mixup_alpha", 1.0, "RRR", KL),
    Case("ref_model_sync_steps", 2, "AAA", SYNC),
    Case("ref_model_sync_steps", 2, "RRR", KL),
    Case("top_entropy_quantile", 0.3, "AAA"),
    Case("entropy_coef", 0.5, "AAA"),
    Case("use_adaptive_entropy", True, "AAA", {"entropy_coef": 0.1}),
    Case("entropy_coef_max", 0.05, "AAA", ENTROPY),
    Case("entropy_coef_delta", 0.4, "AAA", ENTROPY),
    Case("entropy_target", 0.1, "AAA", ENTROPY),
    *(
        Case(name, value, "RRR")
        for name, value in (
            ("entropy_coef_min", 0.1), ("entropy_coef_max", 0.5),
            ("entropy_coef_delta", 0.1), ("entropy_target", 1.0),
        )
    ),
    Case("mask_truncated_completions", True, "AAA"),
    Case("num_generations", 2, "AAA", {"k": 1}),
    Case("generation_batch_size", 8, "AAA"),
    Case("steps_per_generation", 2, "AAA"),
    Case("num_iterations", 2, "AAA"),
    Case("max_completion_length", 3, "AAA"),
    Case("temperature", 0.5, "AAA"),
    *(
        Case(name, value, does, given)
        for name, value in (
            ("top_p", 0.5), ("top_k", 3), ("min_p", 0.9), ("repetition_penalty", 1.9),
            ("generation_kwargs", {"typical_p": 0.3}),
        )
        for does, given in (("AAA", {"change": loud}), ("--R", SEVERAL))
    ),
    Case("neftune_noise_alpha", 5.0, "AAA"),
    Case("neftune_noise_alpha", 5.0, "--R", SEVERAL),
    Case("shuffle_dataset", False, "AAA"),
    Case("disable_dropout", True, "AAA", {"change": dropout_module}),
    Case("router_aux_loss_coef", 0.1, "RRR"),
    Case("seed", 4, "AAA"),
    Case("learning_rate", 1e-2, "AAA"),
    Case("gradient_accumulation_steps", 2, "AAA"),
    Case("per_device_train_batch_size", 8, "AAA"),
    Case("max_steps", 2, "AAA"),
    Case("vllm_importance_sampling_correction", False, "AAA", VLLM),
    Case("vllm_importance_sampling_mode", "token_truncate", "AAA", VLLM),
    Case("vllm_importance_sampling_clip_max", 9.0, "AAA", VLLM),
    Case("vllm_importance_sampling_clip_min", 1.2, "AAA", VLLM),
    Case("vllm_importance_sampling_cap", 9.0, "AAA", VLLM),
    *(
        Case(name, value, "RRR")
        for name, value in (
            ("vllm_mode", "server"), ("vllm_model_impl", "transformers"),
            ("vllm_enable_sleep_mode", True), ("vllm_structured_outputs_regex", "a"),
            ("vllm_server_base_url", "http://a"), ("vllm_server_host", "a"),
            ("vllm_server_port", 1), ("vllm_server_timeout", 1.0), ("vllm_group_port", 1),
            ("vllm_gpu_memory_utilization", 0.5), ("vllm_max_model_length", 9),
            ("vllm_tensor_parallel_size", 2), ("vllm_importance_sampling_correction", False),
            ("vllm_importance_sampling_mode", "token_mask"),
            ("vllm_importance_sampling_clip_max", 2.0),
            ("vllm_importance_sampling_clip_min", 0.5), ("vllm_importance_sampling_cap", 2.0),
            ("transformers_continuous_batching_config", {"a": 1}),
            ("num_completions_to_print", 1), ("log_unique_prompts", True),
        )
    ),
    *(
        Case(name, value, "RRR", VLLM)
        for name, value in (
            ("vllm_server_host", "a"), ("cache_implementation", "static"),
            ("use_transformers_continuous_batching", True),
        )
    ),
    Case("vllm_gpu_memory_utilization", 0.5, "RRR", SERVER),
    Case("vllm_structured_outputs_regex", "a", "--R", {**VLLM, **SEVERAL}),
    Case(
        "vllm_importance_sampling_mode", "token_mask", "RRR",
        {**VLLM, "vllm_importance_sampling_correction": False},
    ),
    *(
        Case(name, value, "RRR")
        for name, value in (
            ("batch_eval_metrics", True),
            ("eval_do_concat_batches", False), ("include_for_metrics", ["loss"]),
            ("label_names", ["a"]), ("label_smoothing_factor", 0.1),
            ("length_column_name", "a"), ("prediction_loss_only", True),
            ("train_sampling_strategy", "sequential"), ("auto_find_batch_size", True),
        )
    ),
]  # fmt: skip

ELSEWHERE = {  # why a field need not change the weights, and the fields
    "the same gradient, in less time or memory": """skip_zero_variance pack_prompts
        gradient_checkpointing gradient_checkpointing_kwargs pad_to_multiple_of cache_implementation
        use_transformers_continuous_batching transformers_continuous_batching_config
        use_transformers_paged torch_compile torch_compile_backend torch_compile_mode
        use_liger_kernel liger_kernel_config use_cache torch_empty_cache_steps
        ds3_gather_for_generation""",
    "acts where the entropy goes above its target and below it again": "entropy_coef_min",
    "of the precision of numbers": """bf16 fp16 bf16_full_eval fp16_full_eval tf32
        cast_lm_head_to_fp32""",
    "of the optimiser and its schedule, which transformers' Trainer has": """lr_scheduler_type
        lr_scheduler_kwargs warmup_steps optim optim_args optim_target_modules weight_decay
        adam_beta1 adam_beta2 adam_epsilon max_grad_norm num_train_epochs data_seed
        full_determinism""",
    "of a model that is given by name": "model_init_kwargs trust_remote_code",
    "who samples, and where": """use_vllm vllm_mode vllm_model_impl vllm_enable_sleep_mode
        vllm_structured_outputs_regex vllm_server_base_url vllm_server_host vllm_server_port
        vllm_server_timeout vllm_group_port vllm_gpu_memory_utilization vllm_max_model_length
        vllm_tensor_parallel_size""",
    "of prompts that are chat messages, and of tools": """chat_template_kwargs
        max_tool_calling_iterations""",
    "of a model with experts: TRL refuses it for others": "router_aux_loss_coef",
    "of what is logged": """full_reward log_completions log_multimodal num_completions_to_print
        log_unique_prompts log_completions_hub_repo logging_strategy logging_steps
        logging_first_step log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen
        log_level log_level_replica disable_tqdm report_to run_name project trackio_space_id
        trackio_bucket_id trackio_static_space_id skip_memory_metrics debug""",
    "of evaluation": """num_generations_eval eval_strategy eval_steps eval_delay
        per_device_eval_batch_size eval_on_start eval_use_gather_object eval_accumulation_steps
        do_eval do_predict do_train load_best_model_at_end metric_for_best_model
        greater_is_better""",
    "of checkpoints, and of where they go": """output_dir save_only_model save_strategy save_steps
        save_on_each_node save_total_limit enable_jit_checkpoint resume_from_checkpoint
        ignore_data_skip restore_callback_states_from_checkpoint push_to_hub hub_token
        hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision""",
    "of how prompts are read from the data set": """remove_unused_columns dataloader_drop_last
        dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
        dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order""",
    "set by transformers for one process, and not read by TRL's loss": """
        average_tokens_across_devices""",
    "of processes and hardware": """use_cpu accelerator_config parallelism_config
        ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph
        ddp_backend ddp_timeout fsdp fsdp_config deepspeed local_rank""",
}


def test_every_field_is_in_the_table():
    """A new version of TRL with another field fails here, until it is known what the field does."""
    fields = {field.name for field in dataclasses.fields(MaxKConfig)}
    tested = {case.field for case in CASES}
    listed = set(itertools.chain.from_iterable(map(str.split, ELSEWHERE.values())))
    assert sorted(fields - tested - listed) == []
    assert sorted((tested | listed) - fields) == []
    for case in CASES:
        assert "A" in case.does or "R" in case.does
    never = {case.field for case in CASES} - {case.field for case in CASES if "A" in case.does}
    for name in never - listed:  # refused in every case: for every class
        assert any(case.does == "RRR" for case in CASES if case.field == name), name


BASE: dict[str, Any] = {"learning_rate": 2e-2, "max_steps": 3, "k": 2}
PROMPTS = Dataset.from_list([{"prompt": f"{i} "} for i in range(16)])
_ENDS: dict[str, torch.Tensor] = {}


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory):
    """A reference model of other weights; and the tiny model in the place of vLLM."""
    folder = tmp_path_factory.mktemp("fields")
    model, tokenizer = tiny_model(seed=1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo_trainer, "VLLMGeneration", Engine)
        patch.setattr(Engine, "off", (0.0, 2.0, -0.3, 0.5))
        yield str(folder)


def trainer_of(folder: Any, start: str, method: str, given: dict[str, Any]) -> MaxKTrainer:
    more = BASE | {"method": method} | given
    reward: Any = more.pop("reward", digits)
    change: Any = more.pop("change", None)
    if method == "grpo" and "k" not in given:
        more.pop("k")
    elif more.get("method") in ("grpo", "rloo") and "method" in given:
        more.pop("k", None)
    args = config(folder, **more)  # what it refuses needs no model
    model, tokenizer = tiny_model()
    model.config._name_or_path = start
    if change is not None:
        change(model)
    return MaxKTrainer(model, reward, args, PROMPTS, processing_class=tokenizer)


def end(folder: Any, start: str, method: str, given: dict[str, Any]) -> torch.Tensor:
    """All weights after the training, in one row."""
    key = repr((method, sorted(given.items(), key=str)))
    if key not in _ENDS:
        trainer = trainer_of(folder, start, method, given)
        trainer.train()
        model: Any = trainer.model
        _ENDS[key] = torch.cat([w.detach().flatten() for w in model.parameters()])
    return _ENDS[key]


def quick(case: Case) -> str:
    """The class whose training is not a slow test: the off-policy one, if it acts there."""
    return next(m for m, does in zip(METHODS[::-1], case.does[::-1], strict=True) if does == "A")


def cases(letter: str) -> list[Any]:
    """A case and a method each; those that train, quickly for one class alone."""
    return [
        pytest.param(
            case,
            method,
            id=f"{case.field}={case.value}-{method}-{i}",
            marks=pytest.mark.slow if letter == "A" and method != quick(case) else (),
        )
        for i, case in enumerate(CASES)
        for method, does in zip(METHODS, case.does, strict=True)
        if does == letter
    ]


def of(case: Case, method: str) -> dict[str, Any]:
    """What else is set: of max@k nothing, for a method without k."""
    return {k: v for k, v in case.given.items() if k != "k" or method != "grpo"}


@pytest.mark.parametrize(("case", "method"), cases("A"))
def test_it_acts(tmp_path, engine, case, method):
    given = of(case, method)
    needs = {"k_schedule": "k_end", "sync_ref_model": "ref_model_sync_steps"}.get(case.field)
    before = end(tmp_path, engine, method, {k: v for k, v in given.items() if k != needs})
    with deprecated(case):
        after = end(tmp_path, engine, method, {**given, case.field: case.value})
    assert not torch.equal(before, after)


@pytest.mark.parametrize(("case", "method"), cases("R"))
def test_it_is_refused_by_name(tmp_path, engine, case, method):
    name = case.field.split("_sampling_cap")[0]
    with deprecated(case), pytest.raises(ValueError, match=name):
        trainer_of(tmp_path, engine, method, {**of(case, method), case.field: case.value})


def deprecated(case: Case) -> Any:
    """TRL's warning of the one field that has another name by now."""
    if case.field != "vllm_importance_sampling_cap":
        return contextlib.nullcontext()
    return pytest.warns(FutureWarning, match=case.field)


def class_of(method: str) -> str:
    """The method that stands for its class in the table."""
    classes = {(FACTS[each].uses_k, FACTS[each].off_policy): each for each in METHODS}
    return classes[FACTS[method].uses_k, FACTS[method].off_policy]


@functools.cache
def said_of(method: str, number: int) -> str | None:
    """With which words a configuration is refused, if it is; what to do may be another thing."""
    case = CASES[number]
    given: dict[str, Any] = {"method": method, **of(case, class_of(method)), case.field: case.value}
    known = {field.name for field in dataclasses.fields(MaxKConfig)}
    try:
        with deprecated(case):
            config("", **{name: value for name, value in given.items() if name in known})
    except ValueError as error:
        return str(error).partition("; ")[0].replace(repr(method), repr(class_of(method)))
    return None


@pytest.mark.parametrize("method", [method for method in FACTS if method not in METHODS])
def test_a_method_is_refused_what_its_class_is(method):
    """So that three methods can stand for all in the table."""
    refused = 0
    for number, case in enumerate(CASES):
        if case.does[METHODS.index(class_of(method))] == "-" or case.field == "method":
            continue
        due = said_of(class_of(method), number)
        assert said_of(method, number) == due, case
        refused += due is not None
    assert refused > 40


def words(case: Case) -> str:
    """What else is set, for a reader."""
    said = []
    for name, value in case.given.items():
        if name == "reward":
            said.append("several reward functions")
        elif value is dropout_module:
            said.append("a model with dropout")
        elif name == "num_iterations":
            said.append("several updates on a batch")
        elif name not in ("learning_rate", "change"):
            said.append(f"`{name}={value!r}`")
    return " with " + ", ".join(said) if said else ""


def cell(field: str, column: int) -> str:
    """What a setting does for a class of methods."""
    said: dict[tuple[str, str], list[str]] = {}
    found = [case for case in CASES if case.field == field]
    for letter, verb in (("A", "acts"), ("R", "refused")):
        for case in found:
            if case.does[column] == letter:
                said.setdefault((verb, words(case)), []).append(repr(case.value))
    several = field in ("loss_type", "masking")
    parts = []
    for (verb, where), values in said.items():
        value = f" as {', '.join(f'`{each}`' for each in values)}" if several else ""
        rest = verb == "refused" and not where and len(said) > 1 and not several
        parts.append("else refused" if rest else f"{verb}{value}{where}")
    parts.sort(key=lambda part: part.startswith("else"))
    return "; ".join(parts)


def table() -> str:
    lines = [
        "| setting | methods without k | on-policy max@k | off-policy |",
        "|---|---|---|---|",
    ]
    for field in dict.fromkeys(case.field for case in CASES):
        lines.append(f"| `{field}` | " + " | ".join(cell(field, i) for i in range(3)) + " |")
    lines += ["", "| settings that need not change the weights | why |", "|---|---|"]
    for why, names in ELSEWHERE.items():
        lines.append(f"| {', '.join(f'`{name}`' for name in sorted(names.split()))} | {why} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_the_reference_has_the_table():
    before, mark, _ = PAGE.read_text().partition("<!-- made by tests/train/test_fields.py -->\n\n")
    if os.environ.get("MAXK_WRITE"):
        PAGE.write_text(before + mark + table())
    assert PAGE.read_text() == before + mark + table()
    assert mark
