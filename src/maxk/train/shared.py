"""Completions of a prompt in one row, so that a training step reads their prompt once.

TRL gives every completion a row of its own with the prompt before it, padded to the longest prompt
and the longest completion. Here a row has a prompt and all its completions:

    prompt without its last token | last token, completion | last token, completion | ... padding

A completion sees the prompt and itself, and has the positions it would have alone. The last token
of the prompt is repeated because what follows it differs. The log-probabilities are the same up to
rounding, and the tokens to read are far fewer where groups are large or prompts long. Attention is
over whole rows, so a group has several if one would be too long.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from maxk.sample.transformers_ import refuse_other_layers

_IGNORED = -100  # the label of a token that is not predicted
_PADDING = -1


@dataclass
class _Row:
    """A prompt and its completions."""

    ids: list[int]
    positions: list[int]
    labels: list[int]
    segments: list[int] = field(default_factory=list)  # 0: the prompt; 1, 2, ...: the completions

    @classmethod
    def of(cls, prompt: list[int]) -> "_Row":
        shared = prompt[:-1]
        length = len(shared)
        return cls(shared, list(range(length)), [_IGNORED] * length, [0] * length)

    def add(self, last: int, completion: list[int], prompt: int) -> int:
        """A completion after a prompt of this length; gives the place of its first token."""
        place, segment = len(self.ids) + 1, max(self.segments, default=0) + 1
        self.ids += [last, *completion]
        self.positions += range(prompt - 1, prompt + len(completion))
        self.labels += [_IGNORED, *completion]
        self.segments += [segment] * (1 + len(completion))
        return place


@dataclass(frozen=True)
class Packed:
    """The rows of a batch, [G, S] each, and where the N tokens of its completions are in them."""

    ids: Tensor
    positions: Tensor
    labels: Tensor
    segments: Tensor
    before: tuple[Tensor, Tensor]  # row and column among the completions
    here: tuple[Tensor, Tensor]

    def mask(self, additive: torch.dtype | None) -> Tensor:
        """What sees what, as True and False or as numbers to add to the scores."""
        seen, sees = self.segments[:, None, :], self.segments[:, :, None]
        length = self.segments.shape[1]
        before = torch.ones(length, length, dtype=torch.bool, device=seen.device).tril()
        allowed = ((seen == sees) | (seen == 0)) & before
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
    prompts, completions = mask[:, :-width].sum(1).tolist(), mask[:, -width:].sum(1).tolist()
    start = ids.shape[1] - width
    texts = ids.tolist()
    keys = [tuple(text[start - prompts[i] : start]) for i, text in enumerate(texts)]
    count, mean = Counter(keys), max(sum(completions) / len(completions), 1.0)
    rows: list[_Row] = []
    last: dict[tuple[int, ...], tuple[int, int]] = {}  # a prompt's last row, and the room in it
    before: list[tuple[int, int]] = []
    here: list[tuple[int, int]] = []
    for i, (key, text) in enumerate(zip(keys, texts, strict=True)):
        number, room = last.get(key, (0, 0))
        if not room:
            number, room = len(rows), even_share(count[key], together(len(key), mean, hidden))
            rows.append(_Row.of(list(key)))
        last[key] = number, room - 1
        place = rows[number].add(key[-1], text[start : start + completions[i]], len(key))
        before += [(i, j) for j in range(completions[i])]
        here += [(number, place + j) for j in range(completions[i])]
    longest = max(len(row.ids) for row in rows)

    def padded(name: str, value: int) -> Tensor:
        lists = [getattr(row, name) for row in rows]
        lists = [given + [value] * (longest - len(given)) for given in lists]
        return torch.tensor(lists, device=ids.device)

    def pair(places: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        first, second = torch.tensor(places, device=ids.device).view(-1, 2).unbind(1)
        return first, second

    return Packed(
        padded("ids", 0),
        padded("positions", 0),
        padded("labels", _IGNORED),
        padded("segments", _PADDING),
        pair(before),
        pair(here),
    )


def together(prompt: int, completion: float, hidden: int) -> int:
    """How many completions go into a row so that each costs least.

    A token costs about 12 hidden^2 products a layer, whatever is around it, and 2 hidden for every
    place of its row. For m completions in a row of P + m C places that is, each, proportional to
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


def shared_logps(
    model: Any, config: Any, ids: Tensor, mask: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every token of the completions, by one pass of the model.

    model: with TRL's fused head, as its trainers make it.
    """
    packed = pack(ids, mask, width, config.get_text_config().hidden_size)
    refuse_other_layers(config, int(mask.sum(1).max()))
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager"):
        raise ValueError(
            f"share_prompts=True with attn_implementation={attention!r}, which takes no mask of "
            "this kind; use 'sdpa' or share_prompts=False"
        )
    out = model(
        input_ids=packed.ids,
        attention_mask=packed.mask(None if attention == "sdpa" else torch.float32),
        position_ids=packed.positions,
        labels=packed.labels,
        fused_lm_head=True,
    )
    shape = (len(ids), width)
    # The head's values are of the tokens from the second on.
    found = [torch.nn.functional.pad(values, (1, 0)) for values in (out.log_probs, out.entropy)]
    return packed.unpack(found[0], shape), packed.unpack(found[1], shape)
