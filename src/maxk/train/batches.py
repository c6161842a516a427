"""Micro-batches as TRL buffers them: dicts of tensors with a row per completion."""

from collections.abc import MutableSequence
from typing import Any

import torch
from torch import Tensor

NOTED = ("clamped", "masked", "masked_tokens", "effective")  # logged as ratio/NAME
PER_COMPLETION = ("row", "advantages", "log_ratio", *NOTED)


def rows_of(inputs: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """Some rows of a micro-batch."""
    count = len(inputs["row"])
    return {
        name: value[rows] if isinstance(value, Tensor) and value.shape[:1] == (count,) else value
        for name, value in inputs.items()
    }


def put_back(part: dict[str, Any], inputs: dict[str, Any], rows: Tensor | None) -> None:
    """What was found out about these rows into the whole micro-batch: of the others, NaN.

    rows: None if these are all. TRL may have read `advantages` by token; `weights` are then those
    of completions.
    """
    found = {**part, "advantages": part.get("weights", part["advantages"])}
    for name in PER_COMPLETION[1:]:
        if name not in found:
            continue
        if rows is None:
            inputs[name] = found[name]
            continue
        whole = found[name].new_full((len(inputs["row"]),), torch.nan)
        if name == "advantages":
            whole.zero_()
        inputs[name] = whole.index_copy(0, rows, found[name])


def replace_last(shown: MutableSequence[float], values: list[float]) -> None:
    """The last of what is shown become these values; of more than are shown, the last of them."""
    count = min(len(values), len(shown))
    for i in range(1, count + 1):
        shown[-i] = values[-i]


def regrouped(batches: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The same micro-batches with whole groups in each, in the order in which TRL's came first."""
    row = torch.cat([batch["row"] for batch in batches])
    group = row // n
    first = {int(g): i for i, g in reversed(list(enumerate(group.tolist())))}
    place = torch.tensor([first[int(g)] for g in group.tolist()], device=row.device)
    order = (place * (len(row) + 1) + row % n).argsort()
    size = len(batches[0]["row"])
    out = [dict(batch) for batch in batches]
    for key, value in batches[0].items():
        if isinstance(value, Tensor) and value.ndim > 0:
            whole = torch.cat([batch[key] for batch in batches])[order]
            for i, batch in enumerate(out):
                batch[key] = whole[i * size : (i + 1) * size]
    return out
