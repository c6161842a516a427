"""Which settings would do nothing, and which would make ratios wrong: known from arguments alone.

A setting that would do nothing is refused where it differs from its default. The page
docs/reference/trainer-settings.md has every field of the configuration and whether it acts.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maxk.estimators.settings import FACTS

CLIPPED = ("dr_grpo", "grpo", "bnpo", "dapo", "luspo")  # the loss types that have PPO's clipping
SUMS = ("dr_grpo", "dapo", "luspo")  # those that sum over tokens, times what is equal for all
FEWER_UPDATES = "raise num_iterations or steps_per_generation, or leave it out"


def ratios(args: Any) -> bool:
    """Whether the policy moves while a batch is used, as TRL decides it."""
    return args.gradient_accumulation_steps % (args.steps_per_generation * args.num_iterations) != 0


def off_policy(args: Any) -> bool:
    return FACTS[args.method].off_policy


def masks(args: Any) -> bool:
    """Whether an off-policy method masks what has moved."""
    settings = args.method_settings
    return settings.facts.off_policy and settings.masking != "none"


@dataclass(frozen=True)
class Rule:
    """Settings that do nothing in some configurations."""

    fields: tuple[str, ...]
    idle: Callable[[Any], bool]  # whether they do nothing
    why: str
    fix: str = "leave it out"


RULES = (
    Rule(
        (
            "batch_eval_metrics",
            "eval_do_concat_batches",
            "include_for_metrics",
            "label_names",
            "label_smoothing_factor",
            "length_column_name",
            "prediction_loss_only",
            "train_sampling_strategy",
        ),
        lambda args: True,
        "TRL's trainer has a loss, batches and metrics of its own",
    ),
    Rule(
        ("scale_rewards",),
        lambda args: True,
        "the method scales the rewards",
        "use method='grpo' for the standard deviation of the group, 'dr-grpo' for none",
    ),
    Rule(
        ("multi_objective_aggregation",),
        lambda args: True,
        "the rewards of several functions are summed, with reward_weights",
        "leave it out, or use reward_weights",
    ),
    Rule(
        ("delta", "importance_sampling_level", "off_policy_mask_threshold"),
        off_policy,
        "an off-policy method has the ratios of whole completions in its weights",
        "leave it out, or use masking",
    ),
    Rule(
        ("epsilon", "epsilon_high"),
        lambda args: off_policy(args) and not masks(args),
        "masking='none' drops nothing",
        "leave it out, or use masking='sequence' or 'token'",
    ),
    Rule(
        ("epsilon", "epsilon_high", "delta", "clamp_delta", "off_policy_mask_threshold"),
        # cispo clips the ratio itself at epsilon_high, which is below 1
        lambda args: not ratios(args) and args.loss_type != "cispo",
        "a batch has one update, so every ratio is 1",
        FEWER_UPDATES,
    ),
    Rule(
        ("masking",),
        lambda args: not ratios(args) and args.masking != "none",
        "a batch has one update, so every ratio is 1",
        FEWER_UPDATES,
    ),
    Rule(
        ("epsilon", "epsilon_high"),
        lambda args: args.loss_type in ("sapo", "vespo"),
        "the loss types sapo and vespo do not clip",
    ),
    Rule(
        ("epsilon",),
        lambda args: args.loss_type == "cispo" and args.epsilon_high is not None,
        "loss_type='cispo' clips at epsilon_high alone",
    ),
    Rule(
        ("delta",),
        lambda args: args.loss_type not in CLIPPED,
        "this loss type does not clip at two sides",
        "leave it out, or use loss_type='dr_grpo'",
    ),
    Rule(
        ("sapo_temperature_neg", "sapo_temperature_pos"),
        lambda args: args.loss_type != "sapo" or not ratios(args),
        "it is of loss_type='sapo' with several updates on a batch",
    ),
    Rule(
        ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
        lambda args: args.loss_type != "vespo" or not ratios(args),
        "it is of loss_type='vespo' with several updates on a batch",
    ),
    Rule(
        ("use_bias_correction_kl", "ref_model_mixup_alpha", "ref_model_sync_steps"),
        lambda args: not args.beta,
        "beta=0 means no KL term",
        "leave it out, or set beta",
    ),
    Rule(
        ("ref_model_mixup_alpha", "ref_model_sync_steps"),
        lambda args: not args.sync_ref_model,
        "sync_ref_model=False keeps the reference model as it is",
        "leave it out, or set sync_ref_model=True",
    ),
    Rule(
        ("entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"),
        lambda args: not getattr(args, "use_adaptive_entropy", False),
        "use_adaptive_entropy=False keeps entropy_coef as it is",
        "leave it out, or set use_adaptive_entropy=True",
    ),
    Rule(
        (
            "vllm_mode",
            "vllm_model_impl",
            "vllm_enable_sleep_mode",
            "vllm_structured_outputs_regex",
            "vllm_server_base_url",
            "vllm_server_host",
            "vllm_server_port",
            "vllm_server_timeout",
            "vllm_group_port",
            "vllm_gpu_memory_utilization",
            "vllm_max_model_length",
            "vllm_tensor_parallel_size",
            "vllm_importance_sampling_correction",
            "vllm_importance_sampling_mode",
            "vllm_importance_sampling_clip_max",
            "vllm_importance_sampling_clip_min",
            "vllm_importance_sampling_cap",
        ),
        lambda args: not args.use_vllm,
        "use_vllm=False",
        "leave it out, or set use_vllm=True",
    ),
    Rule(
        (
            "vllm_server_base_url",
            "vllm_server_host",
            "vllm_server_port",
            "vllm_server_timeout",
            "vllm_group_port",
        ),
        lambda args: args.vllm_mode != "server",
        "vllm_mode='colocate' has no server",
        "leave it out, or set vllm_mode='server'",
    ),
    Rule(
        (
            "vllm_model_impl",
            "vllm_enable_sleep_mode",
            "vllm_gpu_memory_utilization",
            "vllm_max_model_length",
            "vllm_tensor_parallel_size",
        ),
        lambda args: args.vllm_mode == "server",
        "vllm_mode='server': the server was started with its own",
        "leave it out, and give it to `trl vllm-serve`",
    ),
    Rule(
        (
            "vllm_importance_sampling_mode",
            "vllm_importance_sampling_clip_max",
            "vllm_importance_sampling_clip_min",
            "vllm_importance_sampling_cap",
        ),
        lambda args: not args.vllm_importance_sampling_correction,
        "vllm_importance_sampling_correction=False",
    ),
    Rule(
        ("cache_implementation", "use_transformers_continuous_batching"),
        lambda args: args.use_vllm,
        "vLLM samples",
    ),
    Rule(
        ("transformers_continuous_batching_config",),
        lambda args: not getattr(args, "use_transformers_continuous_batching", False),
        "use_transformers_continuous_batching=False",
        "leave it out, or set use_transformers_continuous_batching=True",
    ),
    Rule(
        ("num_completions_to_print", "log_unique_prompts"),
        lambda args: not args.log_completions,
        "log_completions=False",
        "leave it out, or set log_completions=True",
    ),
)


def default_of(args: Any, name: str) -> Any:
    field = next(each for each in dataclasses.fields(args) if each.name == name)
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def refuse_idle(args: Any) -> None:
    """ValueError for the first setting that was given and would do nothing."""
    known = {field.name for field in dataclasses.fields(args)}
    for rule in RULES:
        for name in rule.fields:
            if name not in known or (value := getattr(args, name)) == default_of(args, name):
                continue
            if rule.idle(args):
                raise ValueError(f"{name}={value!r} would do nothing: {rule.why}; {rule.fix}")


def refuse_neftune(args: Any) -> None:
    """It adds noise to embeddings in training: each pass has its own."""
    if args.neftune_noise_alpha is not None and off_policy(args) and ratios(args):
        raise ValueError(
            f"neftune_noise_alpha={args.neftune_noise_alpha} with method={args.method!r}: each "
            "pass of the model has noise of its own, and the ratios would be noise; leave it out"
        )


def refuse_loss_type(args: Any) -> None:
    """An off-policy weight is of a whole completion, and holds the ratio."""
    if off_policy(args) and args.loss_type not in SUMS:
        known = ", ".join(map(repr, SUMS))
        raise ValueError(
            f"loss_type={args.loss_type!r} with method={args.method!r}: a weight that holds the "
            "ratio of a whole completion needs a loss that sums over its tokens and has no ratio "
            f"of its own; use one of {known}, or an on-policy method"
        )


# Of generate() and of vLLM: what leaves the distribution of a sampled token as it is.
PLAIN = {
    "assistant_early_exit",
    "best_of",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "detokenize",
    "disable_compile",
    "eos_token_id",
    "include_stop_str_in_output",
    "logprobs",
    "max_length",
    "max_new_tokens",
    "max_time",
    "max_tokens",
    "n",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prefill_chunk_size",
    "renormalize_logits",
    "return_dict_in_generate",
    "seed",
    "skip_special_tokens",
    "stop",
    "stop_strings",
    "stop_token_ids",
    "use_cache",
}
NEUTRAL: dict[str, tuple[Any, ...]] = {  # values of the others that change nothing
    "do_sample": (True,),
    "diversity_penalty": (0.0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "frequency_penalty": (0.0,),
    "guidance_scale": (1.0,),
    "length_penalty": (1.0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "min_p": (0.0,),
    "min_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beam_groups": (1,),
    "num_beams": (1,),
    "presence_penalty": (0.0,),
    "repetition_penalty": (1.0,),
    "top_k": (0, -1),
    "top_p": (1.0,),
    "typical_p": (1.0,),
}


def warped(args: Any) -> list[str]:
    """What was asked for that samples from another distribution than the softmax, as name=value."""
    asked = {name: getattr(args, name) for name in ("top_p", "top_k", "min_p")}
    asked |= {"repetition_penalty": args.repetition_penalty}
    found = changing(asked)
    given = args.generation_kwargs or {}
    for name in changing({k: v for k, v in given.items() if k != "temperature"}):
        found.append(f"generation_kwargs: {name}")
    if given.get("temperature", args.temperature) != args.temperature:
        found.append(f"generation_kwargs: temperature={given['temperature']}")
    if args.use_vllm and args.vllm_structured_outputs_regex:
        found.append(f"vllm_structured_outputs_regex={args.vllm_structured_outputs_regex!r}")
    return found


def changing(options: dict[str, Any]) -> list[str]:
    """Those of the options of a sampler that change the distribution of a token."""
    return [
        f"{name}={value!r}"
        for name, value in options.items()
        if name not in PLAIN and value is not None and value not in NEUTRAL.get(name, ())
    ]


def refuse_warped(args: Any) -> None:
    found = warped(args)
    if found and off_policy(args) and ratios(args):
        raise ValueError(
            f"{', '.join(found)} with method={args.method!r}: the samples are then of another "
            "distribution than the ratios are; leave it out, or make one update a batch"
        )
