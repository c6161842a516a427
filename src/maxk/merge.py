"""Models made of the weights of others: on the way back to what a training began as, or between.

The way back is what `keep_start` does at the end of a training (train/average.py). Here the share
is chosen afterwards, and several can be tried of one training. The mean of several trainings keeps
what they have in common.
"""

import shutil
from collections.abc import Mapping, Sequence
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
    mix([(trained, 1 - share), (start, share)], out)


def mix(models: Sequence[tuple[Path, float]], out: Path) -> None:
    """Write a model that has a share of each, such as the mean of trainings with several seeds.

    Shares sum to 1. Whatever else there is, as the tokenizer, is that of the first. ValueError if
    they have not the same weights.
    """
    if abs(sum(share for _, share in models) - 1) > 1e-9:
        raise ValueError(f"shares of {[share for _, share in models]} do not sum to 1")
    if out.exists():
        raise ValueError(f"{out} is there already")
    first = models[0][0]
    for model, _ in models:
        if (model / "adapter_config.json").exists():
            raise ValueError(f"{model} are adapters: a smaller lora_alpha is their way back")
    files = saved(first)
    others = [(model, weights_of(model), share) for model, share in models[1:]]
    unfinished = out.with_name(f".{out.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for file in first.iterdir():
            if file.is_file() and file not in files:
                shutil.copy(file, unfinished)
        for file in files:
            source = opened(file)
            mixed = {
                name: moved(name, source.get_tensor(name), others)
                for name in source.keys()  # noqa: SIM118
            }
            save_file(mixed, unfinished / file.name, source.metadata())
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    unfinished.rename(out)


def moved(
    name: str, weight: torch.Tensor, others: Sequence[tuple[Path, Mapping[str, Any], float]]
) -> torch.Tensor:
    """A weight moved towards those of other models by their shares, in its own type."""
    total = weight.float()
    for model, weights, share in others:
        if name not in weights:
            raise ValueError(f"{model} has no {name}")
        other = weights[name].get_tensor(name)
        if other.shape != weight.shape:
            shapes = f"{list(other.shape)} and not {list(weight.shape)}"
            raise ValueError(f"{name} of {model} is {shapes}")
        total = total + share * (other.float() - weight.float())
    return total.to(weight.dtype) if weight.is_floating_point() else weight


def weights_of(model: Path) -> dict[str, Any]:
    """The open file that each weight is in."""
    return {name: source for source in map(opened, saved(model)) for name in source.keys()}  # noqa: SIM118


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
