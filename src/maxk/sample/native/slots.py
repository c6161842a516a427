"""Experimental. The key-value cache of the running rows, and the attention over it.

transformers' own cache copies itself for every token, and its attention copies keys and values once
more for every group of heads that uses them. Here a row is a slot of tensors that are allocated
once, and the heads of a group are several queries on the same keys. A prompt of many rows is stored
once: all of them attend to it in one matrix product.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

_GROWTH = 128  # positions added at a time
_ATTENTION = "maxk_slots"

KeysValues = list[tuple[Tensor, Tensor]]  # of a prompt, [1, heads, length, width] in every layer
Prompts = list[tuple[Tensor, Tensor, slice | Tensor]]  # those of one layer, and whose rows they are


class Slots(Cache):
    """A row per slot; rows differ in length, and some have their prompt in a common copy."""

    def __init__(self, slots: int, places: int | None = None) -> None:
        """places: of every slot, once and for all; default, they grow."""
        super().__init__(layers=[])
        self.slots, self.places, self.room, self.used = slots, places, 0, 0
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.whole: Tensor | None = None  # all of them in one, where they do not grow
        self.shared: list[tuple[KeysValues, slice | Tensor]] = []  # a prompt, and whose it is
        self.attend: Callable[..., Tensor] | None = None  # `kernels.attend`, where it can be used
        self.rows_B = self.places_B = torch.empty(0)

    def fill(self, prompt: KeysValues, start: int, stop: int) -> None:
        """A copy of the prompt into the slots from start to stop."""
        length = prompt[0][0].shape[2]
        self.make(prompt)
        self.reserve(length + 1)
        for i, (keys, values) in enumerate(prompt):
            self.keys[i][start:stop, :, :length] = keys
            self.values[i][start:stop, :, :length] = values

    def make(self, like: KeysValues) -> None:
        """The tensors, at the first prompt that shows their shape."""
        if self.keys:
            return
        shapes = {each.shape for pair in like for each in pair}
        if self.places is not None and len(shapes) == 1:
            first = like[0][0]
            self.room = self.places
            whole = first.new_zeros(len(like), 2, *self._shape(first, self.room))
            self.keys, self.values = list(whole[:, 0]), list(whole[:, 1])
            self.whole = whole
            return
        self.keys = [keys.new_empty(self._shape(keys, 0)) for keys, _ in like]
        self.values = [values.new_empty(self._shape(values, 0)) for _, values in like]
        self.reserve(self.places or 0)

    def reserve(self, length: int) -> None:
        """Room for so many places in every slot."""
        if length <= self.room:
            return
        more = -(-(length - self.room) // _GROWTH) * _GROWTH
        for tensors in (self.keys, self.values):
            for i, tensor in enumerate(tensors):
                # Zeros, not what lay in memory: 0 times NaN would reach a row from behind its mask.
                added = tensor.new_zeros(self._shape(tensor, more))
                tensors[i] = torch.cat([tensor, added], dim=2)
        self.room += more

    def move(self, sources: Sequence[int], targets: Sequence[int], used: int) -> None:
        """Rows to other slots: what lies in the first `used` places."""
        device = self.keys[0].device
        source_M, target_M = (torch.tensor(rows, device=device) for rows in (sources, targets))
        for tensor in (*self.keys, *self.values) if self.whole is None else (self.whole,):
            tensor[..., target_M, :, :used, :] = tensor[..., source_M, :, :used, :]

    def next(self, places_B: Tensor) -> Tensor:
        """Where the next token of every row goes; gives what to add to the scores of each place."""
        used = int(places_B.max()) + 1
        self.reserve(used)
        return self.at(places_B.to(self.keys[0].device), used)

    def at(self, places_B: Tensor, used: int) -> Tensor:
        """The same, for places on the device, all below `used`, for which there is room."""
        keys = self.keys[0]
        self.used, self.places_B = used, places_B
        if self.attend is not None:  # it knows by itself where a row ends
            return keys.new_zeros(1, 1, 1, 1)
        self.rows_B = torch.arange(len(places_B), device=keys.device)
        hidden_BL = torch.arange(used, device=keys.device) > places_B[:, None]
        return hidden_BL.to(keys.dtype).masked_fill_(hidden_BL, -torch.inf)[:, None, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Called by the model: the next token of every row in, what its slot holds out."""
        if self.attend is not None:
            return key_states, value_states
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        # Under autocast the keys of rotated heads have another dtype than the values.
        keys[self.rows_B, :, self.places_B] = key_states[:, :, 0].to(keys.dtype)
        values[self.rows_B, :, self.places_B] = value_states[:, :, 0].to(values.dtype)
        rows = len(self.rows_B)
        return keys[:rows, :, : self.used], values[:rows, :, : self.used]

    def _shape(self, like: Tensor, length: int) -> tuple[int, ...]:
        return (self.slots, like.shape[1], length, like.shape[3])


def read(cache: DynamicCache, row: int, length: int) -> KeysValues:
    """What a cache holds of a prompt: one of its rows, without the places behind its end."""
    layers: list[Any] = cache.layers
    one = slice(row, row + 1)
    return [(layer.keys[one, :, :length], layer.values[one, :, :length]) for layer in layers]


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    maxk_slots: Slots | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: over a whole prompt, or of one token of every row."""
    for name in ("softcap", "s_aux", "position_bias"):
        if more.get(name) is not None:
            raise ValueError(f"this model's attention has {name}; use another back end")
    rows, heads, _, width = query.shape
    kv_heads = key.shape[1]
    if attention_mask is None:
        out = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=heads != kv_heads
        )
        return out.transpose(1, 2), None
    if maxk_slots is None:
        raise ValueError(f"{type(module).__name__} drops arguments; use another back end")
    scale = width**-0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    if maxk_slots.attend is not None:
        there = maxk_slots.keys[layer], maxk_slots.values[layer], maxk_slots.places_B
        return maxk_slots.attend(query, key, value, *there, scale), None
    query = query.view(rows, kv_heads, heads // kv_heads, width)
    prompts = [(*prompt[layer], of) for prompt, of in maxk_slots.shared]
    one_kind = query.dtype == key.dtype == value.dtype and key.shape[-1] == value.shape[-1]
    look = fused if one_kind and fusing(query.device) else by_products
    out = look(query, key, value, attention_mask, prompts, scale)
    return out.reshape(rows, 1, heads, -1), None


def fusing(device: torch.device) -> bool:
    """Whether `fused` is the faster one: on a CPU without MKL a product for each row is a call."""
    return device.type == "cpu" and not torch.backends.mkl.is_available()


def by_products(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, prompts: Prompts, scale: float
) -> Tensor:
    """[rows, heads, group, width] over the slots' places and those of shared prompts."""
    query = query * scale
    scores = query @ key.transpose(-1, -2) + mask
    longest = max((keys.shape[2] for keys, _, _ in prompts), default=0)
    if prompts:
        scores = pad(scores, (longest, 0), value=-torch.inf)
        for keys, _, of in prompts:
            found = shared_product(query[of], keys[0].transpose(-1, -2))
            scores[of, :, :, : found.shape[-1]] = found
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    out = weights[..., longest:] @ value
    for keys, values, of in prompts:
        out[of] += shared_product(weights[of, :, :, : keys.shape[2]], values[0])
    return out


def fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, prompts: Prompts, scale: float
) -> Tensor:
    """The same by torch's own kernel for CPUs: slots and prompts apart, joined by their norms."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, norms = kernel(query, key, value, attn_mask=mask, scale=scale)
    for keys, values, of in prompts:
        _, heads, group, width = query.shape
        flat = query[of].transpose(0, 1).reshape(1, heads, -1, width)
        found, their_norms = kernel(flat, keys, values, scale=scale)
        found, their_norms = (
            each.view(heads, -1, group, *each.shape[3:]).transpose(0, 1)
            for each in (found, their_norms)
        )
        share = (their_norms - norms[of]).sigmoid()[..., None].to(out.dtype)
        out[of] = torch.lerp(out[of], found, share)
    return out


def shared_product(rows: Tensor, matrices: Tensor) -> Tensor:
    """[rows, heads, group, m] with the one [heads, m, n] that all rows have: one product a head."""
    count, heads, group, _ = rows.shape
    flat = rows.transpose(0, 1).reshape(heads, count * group, -1)
    return (flat @ matrices).view(heads, count, group, -1).transpose(0, 1)


def next_logits(
    model: Any, slots: Slots, tokens_B: Tensor, positions_B: Tensor, mask: Tensor
) -> Tensor:
    """Of every row, from its last token; mask: what the slots gave for the places of these."""
    out = model(
        input_ids=tokens_B[:, None],
        position_ids=positions_B[:, None],
        attention_mask=mask,
        past_key_values=slots,
        maxk_slots=slots,
    )
    return out.logits[:, -1]


@contextlib.contextmanager
def ready(model: PreTrainedModel) -> Iterator[None]:
    """The model in evaluation mode and with this attention, and afterwards as it was."""
    AttentionInterface.register(_ATTENTION, attention)
    before, training = model.config._attn_implementation or "sdpa", model.training
    model.set_attn_implementation(_ATTENTION)
    model.eval()
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        model.train(training)
