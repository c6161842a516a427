"""How a training will be made: decided once, from arguments, model and processor.

Everything is refused here that cannot be with this model. What cannot be with any model is refused
by `MaxKConfig`.
"""

import re
import warnings
from dataclasses import dataclass
from typing import Any, cast

import torch
import trl.trainer.utils
from transformers import ProcessorMixin
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators import MethodSettings
from maxk.train.arithmetic import whole_groups
from maxk.train.config import MaxKConfig
from maxk.train.fields import CLIPPED, NEUTRAL, changing, ratios, warped
from maxk.train.logps import first_tolerance
from maxk.train.packing import refuse_packing

LISTS = ("bad_words_ids", "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id")
LISTS += ("exponential_decay_length_penalty", "sequence_bias", "suppress_tokens")
GIVEN_BY_TRL = ("do_sample", "min_p", "repetition_penalty", "top_k", "top_p")
NOISE = re.compile(r"drop(out|path|_prob)|pdrop|layerdrop|drop_rate|jitter")


@dataclass(frozen=True)
class Plan:
    """What follows from the settings and the model, and stays so during the training."""

    method: MethodSettings
    n: int
    ratios: bool  # the policy moves while a batch is used
    in_loss: bool  # weights come with the pass of the loss: a micro-batch has whole groups
    regroups: bool  # micro-batches are made to have whole groups
    packs: bool
    skips: bool
    kl_ratios: bool  # TRL's KL term has the ratio of each token, and the weights have none
    clips: bool  # TRL's loss has ratios that can be clipped
    n_eval: int  # completions of a prompt in evaluation
    tolerance: float  # of log-ratios at the first update on a batch
    full_reward: float | None  # of a solved problem, if it was stated


def plan_of(
    args: MaxKConfig,
    model: Any,
    processor: Any,
    *,
    router_loss: bool = False,
    full_reward: float | None = None,
) -> Plan:
    """router_loss: whether TRL adds a model's loss for its router. full_reward: of the functions.

    Raises ValueError for what cannot be with this model.
    """
    method, several = args.method_settings, ratios(args)
    off_policy = method.facts.off_policy
    images = isinstance(processor, ProcessorMixin)
    if off_policy and several:
        refuse_noise(args, model)
        refuse_own_sampling(args, model)
        if args.use_liger_kernel and hasattr(GRPOTrainer, "compute_liger_loss"):
            raise ValueError(
                f"use_liger_kernel=True with method={args.method!r}: the loss of this TRL has no "
                "place for its weights then; use TRL 1.16 or use_liger_kernel=False"
            )
    elif several and (found := warped(args) + own_sampling(model)):
        warnings.warn(
            f"{', '.join(found)}: the samples are of another distribution than the ratios with "
            "which TRL clips; leave it out, or make one update a batch",
            stacklevel=2,
        )
    if args.skip_zero_variance:
        refuse_skipping(images, router_loss)
    if args.pack_prompts:
        if not hasattr(trl.trainer.utils, "add_fused_lm_head"):
            raise ValueError(f"pack_prompts=True needs a newer TRL than {trl.__version__}: 1.16")
        refuse_for_packing(images, router_loss)
        refuse_packing(model.config, args.max_completion_length or 0)
    in_loss = off_policy and several and whole_groups(args) and not images
    half = args.bf16 or args.fp16
    dtype = torch.bfloat16 if half else next(model.parameters()).dtype
    return Plan(
        method=method,
        n=cast(int, args.num_generations),
        ratios=several,
        in_loss=in_loss,
        regroups=whole_groups(args) and not images and (in_loss or args.pack_prompts),
        packs=args.pack_prompts,
        skips=args.skip_zero_variance,
        kl_ratios=off_policy and several and args.beta != 0,
        clips=not off_policy and several and args.loss_type in CLIPPED,
        n_eval=args.num_generations_eval or cast(int, args.num_generations),
        tolerance=first_tolerance(dtype),
        full_reward=full_reward if args.full_reward is None else args.full_reward,
    )


def noise(model: Any) -> list[str]:
    """What makes two passes of a model in training differ: dropout and its like, as name=rate."""
    found = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and value > 0 and NOISE.search(name):
                found.setdefault(f"{type(module).__name__}.{name}={value:g}", path)
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            where = "lora_dropout" if "lora_dropout" in path else type(module).__name__
            found.setdefault(f"{where}={module.p:g}", path)
    return list(found)


def refuse_noise(args: MaxKConfig, model: Any) -> None:
    if found := noise(model):
        raise ValueError(
            f"the model has dropout ({', '.join(found[:4])}): each pass has its own mask, and the "
            f"ratios of method={args.method!r} would be noise; set it to 0 in the model's "
            "configuration and in that of the adapter (disable_dropout=True reaches torch's "
            "modules, not attention_dropout), or use an on-policy method"
        )


def own_sampling(model: Any) -> list[str]:
    """What the model's own generation settings add that TRL does not set."""
    own = getattr(model, "generation_config", None)
    names = [name for name in (*NEUTRAL, *LISTS) if name not in GIVEN_BY_TRL]
    return changing({name: getattr(own, name, None) for name in names})


def refuse_own_sampling(args: MaxKConfig, model: Any) -> None:
    if found := own_sampling(model):
        raise ValueError(
            f"the model's generation_config has {', '.join(found)}: the samples are then of "
            f"another distribution than the ratios of method={args.method!r}; set it to None there"
        )


def has_images(dataset: Any) -> bool:
    """Whether the prompts have images, as far as columns and the first row say it."""
    columns = getattr(dataset, "column_names", None) or ()
    if not {"image", "images"}.isdisjoint(columns):
        return True
    if "prompt" not in columns or not hasattr(dataset, "__len__") or not len(dataset):
        return False  # of a stream the first batch says it
    prompt = dataset[0]["prompt"]
    contents = [] if isinstance(prompt, str) else [message.get("content") for message in prompt]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, dict) and part.get("type") == "image" for part in parts)


def refuse_images(method: MethodSettings, images: bool) -> None:
    """The pass that an off-policy method makes for its ratios has no place for them."""
    if images and method.facts.off_policy:
        raise ValueError(
            f"method={method.method!r} is for prompts of text; use an on-policy method, such as "
            "'bon-centered', for prompts with images"
        )


def refuse_skipping(images: bool, router_loss: bool) -> None:
    if router_loss:
        raise ValueError(
            "skip_zero_variance=True with a model whose router has a loss: completions of weight 0 "
            "have a gradient then; use router_aux_loss_coef=0.0 or skip_zero_variance=False"
        )
    if images:
        raise ValueError(
            "skip_zero_variance=True with a model for images: the images of a micro-batch cannot "
            "be told apart by completion; use skip_zero_variance=False"
        )


def refuse_for_packing(images: bool, router_loss: bool) -> None:
    if router_loss or images:
        what = "a model for images" if images else "a model whose router has a loss"
        raise ValueError(f"pack_prompts=True with {what}; use pack_prompts=False")
