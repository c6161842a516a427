"""Merge models weight by weight: interpolation towards the base model, and model soups.

Weight interpolation (WiSE-FT: Wortsman et al., 2022; for pass@k: Dang et al., 2025) takes a tuned
model part of the way back to its base model. Changes that nothing rewarded are small and shrink
with the distance, so that much of what was learned can outlast much of what was lost.

A model soup (Wortsman et al., 2022; Rame et al., 2024) is the mean of several models that were
tuned from the same base model.

Weights are read and written one tensor at a time: memory holds one file of the result.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

_WEIGHTS = "*.safetensors"


def interpolate(base: Path, tuned: Path, alpha: float, out: Path) -> None:
    """Write the model with the weights alpha * base + (1 - alpha) * tuned.

    alpha is the BASE model's share: 0.3 keeps 30 % of the base model and 70 % of the tuning. All
    else, such as the tokenizer and the type of the numbers, is that of the tuned model.
    """
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha={alpha:g} is not between 0 and 1: it is the share of the base model's weights, "
            "such as 0.3"
        )
    _write(tuned, [base], lambda weight, others: weight.lerp(others[0], alpha), out)


def soup(models: Sequence[Path], out: Path, weights: Sequence[float] | None = None) -> None:
    """Write the mean of the models' weights (a uniform soup), or their weighted mean.

    weights: the share of each model; they sum to 1. All else, such as the tokenizer and the type
    of the numbers, is that of the first model.
    """
    if len(models) < 2:
        raise ValueError(f"models has {len(models)} model(s); a soup needs two or more")
    if weights is None:
        weights = [1 / len(models)] * len(models)
    if len(weights) != len(models):
        raise ValueError(
            f"weights has {len(weights)} number(s) for {len(models)} models; give one each"
        )
    if not abs(sum(weights) - 1) <= 1e-9:
        raise ValueError(f"weights={list(weights)} sum to {sum(weights):g}; they must sum to 1")
    shares = weights[1:]

    def mean(weight: Tensor, others: Sequence[Tensor]) -> Tensor:
        """The first plus differences to it: the mean of equal weights is exactly that weight."""
        steps = (s * (other - weight) for s, other in zip(shares, others, strict=True))
        return sum(steps, start=weight)

    _write(models[0], models[1:], mean, out)


def _write(
    first: Path,
    others: Sequence[Path],
    merged: Callable[[Tensor, Sequence[Tensor]], Tensor],
    out: Path,
) -> None:
    """Write to `out` the first model, with weights merged from its own and those of the others."""
    if out.exists():
        raise ValueError(f"out={out} exists; give a new folder")
    for model in (first, *others):
        if (model / "adapter_config.json").exists():
            raise ValueError(
                f"{model} holds LoRA adapters, not a whole model: merge them into their base model "
                "first (PEFT's merge_and_unload)"
            )
    files = _weight_files(first)
    open_files = [(model, _file_of_each_weight(model)) for model in others]
    unfinished = out.with_name(f".{out.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for file in first.iterdir():
            if file.is_file() and file not in files:
                shutil.copy(file, unfinished)
        for file in files:
            source = _open(file)
            tensors: dict[str, Tensor] = {}
            for name in source.keys():  # noqa: SIM118
                weight = source.get_tensor(name)
                same = [_weight_like(weight, first, name, *other) for other in open_files]
                if weight.is_floating_point():  # counters and the like stay as they are
                    weight = merged(weight.float(), same).to(weight.dtype)
                tensors[name] = weight
            save_file(tensors, unfinished / file.name, source.metadata())
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    unfinished.rename(out)


def _weight_like(
    weight: Tensor, first: Path, name: str, model: Path, files: Mapping[str, Any]
) -> Tensor:
    """The weight of this name in another model, in float32."""
    if name not in files:
        raise ValueError(f"{model} has no weight {name}, which {first} has: other architectures")
    other = files[name].get_tensor(name)
    if other.shape != weight.shape:
        shapes = f"{list(other.shape)} in {model} and {list(weight.shape)} in {first}"
        raise ValueError(f"the weight {name} is {shapes}: models of other sizes do not merge")
    return other.float()


def _file_of_each_weight(model: Path) -> dict[str, Any]:
    """The open file that holds each weight."""
    files = map(_open, _weight_files(model))
    return {name: file for file in files for name in file.keys()}  # noqa: SIM118


def _weight_files(model: Path) -> list[Path]:
    files = sorted(model.glob(_WEIGHTS))
    if not files:
        raise ValueError(f"{model} has no {_WEIGHTS}; give the folder of a model")
    return files


def _open(file: Path) -> Any:
    return safe_open(file, "pt")


def folder_of(model: str) -> Path:
    """The folder with a model's weights: itself, or the hub's cache, filled if need be."""
    folder = Path(model)
    return folder if folder.is_dir() else Path(snapshot_download(model, allow_patterns=_WEIGHTS))
