"""Completions of a prompt in one row, so that a training step reads their prompt once.

TRL gives every completion a row of its own with the prompt before it, padded to the longest prompt
and the longest completion. Here a row has a prompt and all its completions:

    prompt without its last token | last token, completion | last token, completion | ... padding

A completion sees the prompt and itself, and has the positions it would have alone. The last token
of the prompt is repeated because what follows it differs. The log-probabilities are the same up to
rounding, and the tokens to read are far fewer where groups are large or prompts long. Attention is
over whole rows, so a group has several if one would be too long; and what is shorter than the
longest shares a row with others, which it does not see, since padding costs as much as text.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk.sample.native.engine import refuse_other_layers

_IGNORED = -100  # the label of a token that is not predicted
_PADDING = -1


@dataclass(frozen=True)
class Packed:
    """The rows of a batch, [G, S] each, and where the N tokens of its completions are in them."""

    ids: Tensor
    positions: Tensor
    labels: Tensor
    segments: Tensor  # numbers of prompts and completions
    prompts: Tensor  # the prompt that a token sees beside its own segment
    before: tuple[Tensor, Tensor]  # row and column among the completions
    here: tuple[Tensor, Tensor]

    def mask(self, additive: torch.dtype | None) -> Tensor:
        """What sees what, as True and False or as numbers to add to the scores."""
        seen, own, prompt = (
            self.segments[:, None, :],
            self.segments[:, :, None],
            self.prompts[:, :, None],
        )
        length = self.segments.shape[1]
        before = torch.ones(length, length, dtype=torch.bool, device=seen.device).tril()
        allowed = ((seen == own) | (seen == prompt)) & before
        if additive is None:
            return allowed[:, None]
        least = torch.finfo(additive).min
        return torch.zeros_like(allowed, dtype=additive).masked_fill_(~allowed, least)[:, None]

    def unpack(self, values_GS: Tensor, shape: tuple[int, int]) -> Tensor:
        """What belongs to the tokens of the completions, in the place of these; 0 elsewhere."""
        return values_GS.new_zeros(shape).index_put(self.before, values_GS[self.here])


def pack(ids: Tensor, mask: Tensor, width: int, hidden: int) -> Packed:
    """Prompts padded on the left and then completions padded on the right, of this width.

    hidden: the width of the model.
    """
    texts_NT, seen_NT = ids.cpu().numpy(), mask.cpu().numpy().astype(bool)
    start = texts_NT.shape[1] - width
    prompts_N, lengths_N = seen_NT[:, :start].sum(1), seen_NT[:, start:].sum(1)
    keys = [texts_NT[i, start - size : start].tobytes() for i, size in enumerate(prompts_N)]
    units_N, offsets_N, sizes_U = units(keys, prompts_N, lengths_N, hidden)
    rows_U, starts_U = fitted(sizes_U)
    rows_N, places_N = rows_U[units_N], starts_U[units_N] + offsets_N
    ends_N = places_N + 1 + lengths_N
    shape = (rows_N.max() + 1, ends_N.max())
    ids_GS, positions_GS = np.zeros(shape, int), np.zeros(shape, int)
    labels_GS = np.full(shape, _IGNORED)
    segments_GS, prompts_GS = np.full(shape, _PADDING), np.full(shape, _PADDING)
    for i, (unit, row, place, end) in enumerate(
        zip(units_N, rows_N, places_N, ends_N, strict=True)
    ):
        prompt, last = prompts_N[i], start + lengths_N[i]
        if offsets_N[i] == prompt - 1:  # the first of its unit
            there = slice(place - prompt + 1, place)
            ids_GS[row, there] = texts_NT[i, start - prompt : start - 1]
            positions_GS[row, there] = np.arange(prompt - 1)
            segments_GS[row, there] = prompts_GS[row, there] = unit
        ids_GS[row, place:end] = texts_NT[i, start - 1 : last]
        positions_GS[row, place:end] = np.arange(prompt - 1, prompt + lengths_N[i])
        labels_GS[row, place + 1 : end] = texts_NT[i, start:last]
        segments_GS[row, place:end], prompts_GS[row, place:end] = len(sizes_U) + i, unit
    columns = np.arange(lengths_N.sum()) - np.repeat(lengths_N.cumsum() - lengths_N, lengths_N)
    numbers, rows, firsts = (
        np.repeat(each, lengths_N) for each in (np.arange(len(keys)), rows_N, places_N + 1)
    )

    def moved(*arrays: np.ndarray) -> tuple[Tensor, ...]:
        """To the device, by one copy."""
        return torch.from_numpy(np.stack(arrays)).to(ids.device).unbind()

    number, column, row, place = moved(numbers, columns, rows, firsts + columns)
    rows_GS = moved(ids_GS, positions_GS, labels_GS, segments_GS, prompts_GS)
    return Packed(*rows_GS, before=(number, column), here=(row, place))


def units(
    keys: list[bytes], prompts_N: np.ndarray, lengths_N: np.ndarray, hidden: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What goes side by side: a prompt with some of its completions. Of each completion the unit
    and the place in it of the repeated last token, and of each unit the length.

    keys: equal for completions of the same prompt.
    """
    count, mean = Counter(keys), max(float(lengths_N.mean()), 1.0)
    last: dict[bytes, int] = {}  # unit of a prompt
    shares: list[int] = []  # of each unit: how many completions it is to have,
    counts: list[int] = []  # has,
    ends: list[int] = []  # and where the next begins
    found: list[tuple[int, int]] = []
    for key, prompt, length in zip(keys, prompts_N.tolist(), lengths_N.tolist(), strict=True):
        unit = last.get(key)
        if unit is None or counts[unit] == shares[unit]:
            unit = last[key] = len(shares)
            shares.append(even_share(count[key], together(prompt, mean, hidden)))
            counts.append(0)
            ends.append(prompt - 1)
        counts[unit] += 1
        found.append((unit, ends[unit]))
        ends[unit] += 1 + length
    units_N, offsets_N = np.array(found).T
    return units_N, offsets_N, np.array(ends)


def fitted(sizes_U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows as long as the longest, and few of them: the row of each unit, and where in it it is.

    The longest first, each into the first row that has room for it.
    """
    rows_U, starts_U = np.zeros_like(sizes_U), np.zeros_like(sizes_U)
    longest = int(sizes_U.max())
    ends: list[int] = []
    for unit in np.argsort(-sizes_U, kind="stable"):
        size = int(sizes_U[unit])
        row = next((row for row, end in enumerate(ends) if end + size <= longest), len(ends))
        ends += [0] * (row == len(ends))
        rows_U[unit], starts_U[unit] = row, ends[row]
        ends[row] += size
    return rows_U, starts_U


def together(prompt: int, completion: float, hidden: int) -> int:
    """How many completions go with a prompt so that each costs least.

    A token costs about 12 hidden^2 products a layer, whatever is around it, and 2 hidden for every
    place of its row. For m completions and rows of P + m C places that is, each, proportional to
    (P + m C) (6 hidden + P + m C) / m, which is least at m = sqrt(P (6 hidden + P)) / C.

    >>> together(60, 52, 160), together(600, 200, 896), together(20, 500, 160)
    (5, 9, 1)
    """
    return max(1, round(math.sqrt(prompt * (6 * hidden + prompt)) / completion))


def even_share(count: int, most: int) -> int:
    """How many of `count` each of as few rows as needed gets, none more than `most`.

    >>> even_share(8, 5), even_share(8, 8), even_share(7, 3)
    (4, 8, 3)
    """
    return -(-count // -(-count // most))


def refuse_packing(config: Any, length: int) -> None:
    """ValueError if a model cannot read rows of this kind with texts of this length."""
    try:
        refuse_other_layers(config.get_text_config(), length)
    except ValueError as error:
        raise ValueError(
            f"pack_prompts=True: {error.args[0].split(',')[0]}, where a token does not see all "
            "before it; use pack_prompts=False"
        ) from None
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise ValueError(
            f"pack_prompts=True with attn_implementation={attention!r}, which takes no mask of "
            "this kind; use 'sdpa' or pack_prompts=False"
        )


def packed_logps(
    model: Any, config: Any, ids: Tensor, mask: Tensor, width: int
) -> tuple[Tensor, Tensor | None]:
    """Log-probability and entropy of every token of the completions, by one pass of the model.

    model: with TRL's fused head, as its trainers make it; that of a reference model gives no
    entropies.
    """
    packed = pack(ids, mask, width, config.get_text_config().hidden_size)
    refuse_packing(config, int(mask.sum(1).max()))
    attention = config._attn_implementation
    out = model(
        input_ids=packed.ids,
        attention_mask=packed.mask(None if attention == "sdpa" else torch.float32),
        position_ids=packed.positions,
        labels=packed.labels,
        fused_lm_head=True,
    )

    def unpacked(values: Tensor) -> Tensor:
        # The head's values are of the tokens from the second on.
        return packed.unpack(torch.nn.functional.pad(values, (1, 0)), (len(ids), width))

    return unpacked(out.log_probs), None if out.entropy is None else unpacked(out.entropy)


def all_packed_logps(
    accelerator: Any,
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    logits_to_keep: int,
    batch_size: int | None = None,
    compute_entropy: bool = False,
    **more: Any,
) -> tuple[Tensor, Tensor | None, None]:
    """`packed_logps` in the place of TRL's own function, with its arguments and results."""
    for name, value in more.items():
        if value is not None and value is not False:
            raise ValueError(f"pack_prompts=True cannot be used with {name}")
    config: Any = accelerator.unwrap_model(model).config
    size = batch_size or len(input_ids)
    parts = []
    for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
        with accelerator.autocast():
            parts.append(packed_logps(model, config, ids, mask, logits_to_keep))
    logps, entropies = zip(*parts, strict=True)
    return torch.cat(logps), torch.cat(entropies) if compute_entropy else None, None
