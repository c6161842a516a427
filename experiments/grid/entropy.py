"""The mean entropy of the tokens of completions, by the model that wrote them (Figure 2)."""

from typing import Any

import pyarrow as pa
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxk.pocket import resolve
from maxk.prompts import messages
from maxk.records import Problem
from maxk.sample.base import prompt_ids
from maxk.store.run import Run

BATCH = 32  # completions at a time
TABLE = pa.schema([("problem", pa.string()), ("sample", pa.int32()), ("entropy", pa.float32())])


def write_entropies(run: Run, problems: list[Problem], model: str, count: int) -> int:
    """Of the first `count` samples of every problem, into the table `entropies`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    folder = resolve(model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    loaded.to(device).eval()
    chat = bool(run.config["settings"]["chat"])
    prompts = {problem.id: prompt_ids(tokenizer, messages(problem), chat) for problem in problems}
    rows = [
        row
        for row in run.read(
            "completions", ["problem", "sample", "completion", "finish"]
        ).to_pylist()
        if row["sample"] < count
    ]
    pairs = [(prompts[row["problem"]], completion_ids(tokenizer, row)) for row in rows]
    values = mean_entropies(loaded, pairs)
    made = [
        {"problem": row["problem"], "sample": row["sample"], "entropy": value}
        for row, value in zip(rows, values, strict=True)
    ]
    run.write("entropies", "000000", pa.Table.from_pylist(made, TABLE))
    return len(made)


def completion_ids(tokenizer: Any, row: dict[str, Any]) -> list[int]:
    """The tokens of a text, which may not be quite those that were drawn."""
    ids = tokenizer(row["completion"], add_special_tokens=False).input_ids
    return [*ids, tokenizer.eos_token_id] if row["finish"] == "stop" else list(ids)


@torch.inference_mode()
def mean_entropies(model: Any, pairs: list[tuple[list[int], list[int]]]) -> list[float]:
    """Over the tokens of each completion, at temperature 1; 0 for an empty one."""
    values = [0.0] * len(pairs)
    order = sorted(
        (i for i in range(len(pairs)) if pairs[i][1]), key=lambda i: -sum(map(len, pairs[i]))
    )
    for first in range(0, len(order), BATCH):
        some = order[first : first + BATCH]
        longest = max(sum(map(len, pairs[i])) for i in some)
        keep = max(len(pairs[i][1]) for i in some) + 1
        ids = torch.zeros(len(some), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(some):  # on the right, where the last logits are
            both = torch.tensor([*pairs[i][0], *pairs[i][1]])
            ids[row, longest - len(both) :] = both
            mask[row, longest - len(both) :] = 1
        ids, mask = ids.to(model.device), mask.to(model.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=keep
        ).logits
        for row, i in enumerate(some):
            length = len(pairs[i][1])
            logps = logits[row, keep - 1 - length : keep - 1].float().log_softmax(-1)
            values[i] = float(-(logps.exp() * logps).sum(-1).mean())
    return values
