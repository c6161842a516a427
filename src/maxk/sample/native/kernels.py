"""Experimental. Triton kernels for the slowest parts of a recorded step: attention and the draw.

Attention by matrix products reads every slot to the end of the longest row and writes all scores;
drawing a token reads and writes the whole vocabulary a dozen times. These kernels read a row only
to its end, and the vocabulary once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_PLACES = 64  # of a slot that are read at once
_WARPS = 4
_SMALLEST = 16  # side of a matrix that the hardware multiplies


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    places_B: Tensor,
    scale: float,
) -> Tensor:
    """Attention of one token of every row, [rows, heads, 1, width], to its slot and itself.

    keys, values: of the slots, [slots, heads, places, width]; those of the token are put there.
    """
    rows, heads, _, width = query.shape
    if value.shape[-1] != width:
        raise ValueError(
            f"keys of {width} and values of {value.shape[-1]} numbers; use kernels=False"
        )
    group = heads // key.shape[1]
    query, key, value = (
        each if each.stride(-1) == 1 else each.contiguous() for each in (query, key, value)
    )
    out = torch.empty(rows, heads, width, dtype=query.dtype, device=query.device)
    _attend[rows, key.shape[1]](
        *(query, key, value, keys, values, places_B, out, scale),
        *(query.stride(0), query.stride(1), key.stride(0), key.stride(1)),
        *(value.stride(0), value.stride(1), keys.stride(0), keys.stride(1)),
        *(values.stride(0), values.stride(1)),
        GROUP=group,
        MEMBERS=max(_SMALLEST, triton.next_power_of_2(group)),
        WIDTH=width,
        ACROSS=max(_SMALLEST, triton.next_power_of_2(width)),
        PLACES=_PLACES,
        num_warps=_WARPS,
    )
    return out[:, None]


@triton.jit
def _attend(
    query, key, value, keys, values, places, out, scale,
    query_row, query_head, key_row, key_head, value_row, value_head,
    keys_row, keys_head, values_row, values_head,
    GROUP: tl.constexpr, MEMBERS: tl.constexpr, WIDTH: tl.constexpr, ACROSS: tl.constexpr,
    PLACES: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place = tl.load(places + row).to(tl.int32)
    member, across = tl.arange(0, MEMBERS), tl.arange(0, ACROSS)
    wide = across < WIDTH
    both = (member < GROUP)[:, None] & wide[None, :]
    heads = head * GROUP + member
    q = tl.load(
        query + row * query_row + heads[:, None] * query_head + across[None, :],
        mask=both,
        other=0.0,
    )
    own_k = tl.load(key + row * key_row + head * key_head + across, mask=wide, other=0.0)
    own_v = tl.load(value + row * value_row + head * value_head + across, mask=wide, other=0.0)
    keys += row * keys_row + head * keys_head
    values += row * values_row + head * values_head
    tl.store(keys + place * WIDTH + across, own_k, mask=wide)
    tl.store(values + place * WIDTH + across, own_v, mask=wide)
    most = tl.sum(q.to(tl.float32) * own_k.to(tl.float32)[None, :], 1) * scale
    total = tl.full([MEMBERS], 1.0, tl.float32)
    sums = tl.zeros([MEMBERS, ACROSS], tl.float32) + own_v.to(tl.float32)[None, :]
    for start in range(0, place, PLACES):
        at = start + tl.arange(0, PLACES)
        there = at < place
        inside = there[:, None] & wide[None, :]
        k = tl.load(keys + at[:, None] * WIDTH + across[None, :], mask=inside, other=0.0)
        v = tl.load(values + at[:, None] * WIDTH + across[None, :], mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(there[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(weights, 1)
        found = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        sums = sums * shrink[:, None] + found
        most = higher
    out += row * tl.num_programs(1) * GROUP * WIDTH
    tl.store(
        out + heads[:, None] * WIDTH + across[None, :],
        (sums / total[:, None]).to(out.dtype.element_ty),
        mask=both,
    )


def sums(logits_BV: Tensor, width: int, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over blocks of logits for `maxk.sample.native.draw.draw_by_blocks`, in one pass."""
    rows, vocabulary = logits_BV.shape
    logits_BV = logits_BV if logits_BV.stride(-1) == 1 else logits_BV.contiguous()
    blocks = triton.cdiv(vocabulary, width)
    out = torch.empty(3, rows, blocks, dtype=torch.float32, device=logits_BV.device)
    _sums[rows, blocks](
        logits_BV,
        out[0],
        out[1],
        out[2],
        vocabulary,
        logits_BV.stride(0),
        1 / temperature,
        WIDTH=width,
    )
    return out[0], out[1], out[2]


@triton.jit
def _sums(logits, tops, totals, dots, vocabulary, row_stride, factor, WIDTH: tl.constexpr):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = block * WIDTH + tl.arange(0, WIDTH)
    found = tl.load(logits + row * row_stride + at, mask=at < vocabulary, other=-float("inf"))
    found = found.to(tl.float32) * factor
    top = tl.maximum(tl.max(found, 0), -3.0e38)
    weights = tl.exp(found - top)
    place = row * tl.num_programs(1) + block
    tl.store(tops + place, top)
    tl.store(totals + place, tl.sum(weights, 0))
    # A logit may be -inf, and 0 times that is no number.
    tl.store(dots + place, tl.sum(tl.where(weights > 0, weights * found, 0.0), 0))
