"""What a checkpoint holds beside TRL's own, whether it is whole, and what it was made with.

    checkpoint-N/maxk-R.pt            of process R: the batch in progress
    checkpoint-N/maxk.json            the settings, and how many processes there were
    checkpoint-N/trainer_state.json   TRL's, written when all processes have written theirs

So a folder with the last of these and all of the first is whole, and older ones are deleted only
after that. A training that was killed before goes on from the last whole one.
"""

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

SETTINGS = "maxk.json"
TRAINER_STATE = "trainer_state.json"
# What may change between the parts of a training: where it goes, what is logged and saved, how
# long it is, and what is computed in another way with the same result.
FREE = {
    "auto_find_batch_size",
    "bf16_full_eval",
    "cache_implementation",
    "disable_tqdm",
    "do_eval",
    "do_predict",
    "do_train",
    "full_determinism",
    "full_reward",
    "fp16_full_eval",
    "greater_is_better",
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "ignore_data_skip",
    "include_for_metrics",
    "include_num_input_tokens_seen",
    "label_names",
    "length_column_name",
    "load_best_model_at_end",
    "local_rank",
    "max_steps",
    "metric_for_best_model",
    "num_completions_to_print",
    "num_generations_eval",
    "num_train_epochs",
    "output_dir",
    "pack_prompts",
    "per_device_eval_batch_size",
    "prediction_loss_only",
    "project",
    "report_to",
    "restore_callback_states_from_checkpoint",
    "resume_from_checkpoint",
    "run_name",
    "skip_memory_metrics",
    "skip_zero_variance",
    "tpu_metrics_debug",
    "use_cpu",
}
FREE_KINDS = ("dataloader_", "ddp_", "debug", "eval_", "hub_", "log_", "logging_", "push_to_hub")
FREE_KINDS += ("save_", "torch_compile", "trackio_", "vllm_server_", "vllm_gpu_", "vllm_group_port")


def state_name(process: int | str) -> str:
    """The file beside a checkpoint that holds what a process needs to go on from there."""
    return f"maxk-{process}.pt"


def settings_of(args: Any) -> dict[str, Any]:
    """The settings on which the result of a training depends, as JSON has them."""
    kept = {
        name: value
        for name, value in args.to_dict().items()
        if name not in FREE and not name.startswith(FREE_KINDS)
    }
    kept["world_size"] = args.world_size
    return json.loads(json.dumps(kept, default=str))


def write(file: Path, put: Callable[[Path], Any]) -> None:
    """There is never half of it."""
    new = file.with_name(f"{file.name}.new")
    put(new)
    os.replace(new, file)


def save(folder: Path, process: int, state: dict[str, Any], args: Any) -> None:
    """Write what a process has; the first also writes the settings."""
    write(folder / state_name(process), lambda file: torch.save(state, file))
    if process == 0:
        text = json.dumps({"processes": args.world_size, "settings": settings_of(args)}, indent=1)
        write(folder / SETTINGS, lambda file: file.write_text(text))


def load(folder: Path, process: int) -> dict[str, Any]:
    return torch.load(folder / state_name(process), map_location="cpu", weights_only=True)


def missing(folder: Path) -> str | None:
    """What a checkpoint lacks to go on from it, in words; None if it is whole."""
    try:
        state = json.loads((folder / TRAINER_STATE).read_text())
    except (OSError, ValueError):
        return f"no whole {TRAINER_STATE}: it was not written to its end"
    if state.get("global_step") != step_of(folder):
        return f"the {TRAINER_STATE} of another step"
    try:
        processes = json.loads((folder / SETTINGS).read_text())["processes"]
    except (OSError, ValueError, KeyError):
        if not any(folder.glob(state_name("*"))):
            return "a model and no more, as save_only_model=True saves it"
        return f"no whole {SETTINGS}"
    lost = [state_name(r) for r in range(processes) if not (folder / state_name(r)).exists()]
    return f"no {', '.join(lost)}" if lost else None


def processes_of(folder: Path) -> int:
    """By how many processes a whole checkpoint was written."""
    return json.loads((folder / SETTINGS).read_text())["processes"]


def refuse_other(folder: Path, args: Any) -> None:
    """ValueError if a training cannot go on from this checkpoint with these settings."""
    if (lack := missing(folder)) is not None:
        raise ValueError(
            f"{folder} has {lack}; a training cannot go on from it as if it had not stopped: "
            "resume from another checkpoint, or begin with its model"
        )
    stored = json.loads((folder / SETTINGS).read_text())
    if stored["processes"] != args.world_size:
        raise ValueError(
            f"{folder} was written by {stored['processes']} processes; go on with as many, not "
            f"{args.world_size}"
        )
    there, here = stored["settings"], settings_of(args)
    other = [
        f"{name}: {there[name]!r} there, {here[name]!r} now"
        for name in sorted(there.keys() & here.keys())
        if not same(there[name], here[name])
    ]
    if other:
        raise ValueError(
            f"{folder} was made with other settings ({'; '.join(other)}); go on with those, or "
            "begin anew in another folder"
        )


def same(one: Any, other: Any) -> bool:
    both = isinstance(one, float) and isinstance(other, float)
    return one == other or (both and math.isnan(one) and math.isnan(other))


def to_go_on_from(asked: Any, args: Any) -> str | None:
    """The checkpoint that is asked for, True for the newest whole one; ValueError if it is none."""
    if asked is True:
        asked = last_whole(Path(args.output_dir), warnings.warn)
        if asked is None:
            raise ValueError(f"{args.output_dir} has no whole checkpoint to resume from")
    if not asked:
        return None
    refuse_other(Path(asked), args)
    return str(asked)


def last_whole(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The newest whole checkpoint in a folder; what is passed over is said."""
    for each in newest_first(folder):
        lack = missing(each)
        if lack is None:
            return each
        say(f"{each} is passed over: it has {lack}")
    return None


def newest_first(folder: Path) -> Iterator[Path]:
    found = [each for each in folder.glob("checkpoint-*") if step_of(each) is not None]
    yield from sorted(found, key=lambda each: -(step_of(each) or 0))


def step_of(folder: Path) -> int | None:
    number = folder.name.removeprefix("checkpoint-")
    return int(number) if number.isdigit() else None
