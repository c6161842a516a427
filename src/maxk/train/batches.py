"""Micro-batches as TRL buffers them: dicts of tensors with a row per completion."""

from typing import Any

import torch
from torch import Tensor

START = "start_per_token_logps"  # of the policy that sampled, as the training model computes them
PER_COMPLETION = ("row", "advantages", "log_ratio", "clamped", "masked", "effective")


def log_ratio(batch: dict[str, Any], now: Tensor) -> Tensor:
    """log pi_now(y|x) - log pi_then(y|x) of whole completions: the sum over their tokens.

    Both come from the same code, in the same dtype and padding: computed in two ways they would
    differ by as much as the policy lag that is to be measured.
    """
    mask = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    return ((now - batch[START]).float() * mask).sum(dim=1)


def rows_of(inputs: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """Some rows of a micro-batch."""
    count = len(inputs["row"])
    return {
        name: value[rows] if isinstance(value, Tensor) and value.shape[:1] == (count,) else value
        for name, value in inputs.items()
    }


def put_back(part: dict[str, Any], inputs: dict[str, Any], rows: Tensor) -> None:
    """What was found out about these rows into the whole micro-batch: of the others, NaN."""
    for name in PER_COMPLETION[1:]:
        if name in part:
            whole = part[name].new_full((len(inputs["row"]),), torch.nan)
            if name == "advantages":
                whole.zero_()
            inputs[name] = whole.index_copy(0, rows, part[name])


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
