"""Models on the way back from a training to the model that it began as, made of both.

That is what `keep_start` does at the end of a training (train/average.py). Here the share is chosen
afterwards, and several can be tried of one training.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from safetensors.torch import save_file

_WEIGHTS = "*.safetensors"


def keep_start(trained: Path, start: Path, share: float, out: Path) -> None:
    """Write a model with a share of the weights it began with; the rest of each is as trained.

    Whatever else there is, as its tokenizer, is that of the trained model. ValueError if the two
    have not the same weights.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of {share:g} is not between 0 and 1")
    if out.exists():
        raise ValueError(f"{out} is there already")
    if (trained / "adapter_config.json").exists():
        raise ValueError(f"{trained} are adapters: a smaller lora_alpha is their way back")
    files = saved(trained)
    begun = {name: source for source in map(opened, saved(start)) for name in source.keys()}  # noqa: SIM118
    unfinished = out.with_name(f".{out.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for file in trained.iterdir():
            if file.is_file() and file not in files:
                shutil.copy(file, unfinished)
        for file in files:
            source = opened(file)
            mixed = {
                name: between(name, source.get_tensor(name), begun, share)
                for name in source.keys()  # noqa: SIM118
            }
            save_file(mixed, unfinished / file.name, source.metadata())
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    unfinished.rename(out)


def between(
    name: str, weight: torch.Tensor, begun: Mapping[str, Any], share: float
) -> torch.Tensor:
    """A weight moved towards what it began as, in its own type."""
    if name not in begun:
        raise ValueError(f"the model that it began as has no {name}")
    first = begun[name].get_tensor(name)
    if first.shape != weight.shape:
        shapes = f"{list(first.shape)} and not {list(weight.shape)}"
        raise ValueError(f"{name} of the model that it began as is {shapes}")
    if not weight.is_floating_point():
        return weight
    return weight.float().lerp(first.float(), share).to(weight.dtype)


def saved(model: Path) -> list[Path]:
    """The files of its weights."""
    files = sorted(model.glob(_WEIGHTS))
    if not files:
        raise ValueError(f"{model} has no {_WEIGHTS}")
    return files


def opened(file: Path) -> Any:
    return safe_open(file, "pt")


def folder_of(model: str) -> Path:
    """Where the files of a model are: a folder, or what there is of the hub's, or it is fetched."""
    folder = Path(model)
    return folder if folder.is_dir() else Path(snapshot_download(model, allow_patterns=_WEIGHTS))
