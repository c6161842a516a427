"""Experimental. Draw one token per row from its logits, with one uniform number each.

So a draw can be repeated. Inverting the distribution function needs one random number a token;
Gumbel noise and `torch.multinomial` need one for every entry of the vocabulary, and spend more time
on them than on the rest.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_BLOCK, _WIDE = 128, 1024

# (logits, width, temperature) -> three [rows, blocks]. For each block of `width` logits over the
# temperature: the maximum, the sum of the exponentials relative to it, and their sum times logits.
Sums = Callable[[Tensor, int, float], tuple[Tensor, Tensor, Tensor]]


class Drawn(NamedTuple):
    """The tokens, their log-probabilities and the entropies, at temperature 1 without top-p."""

    tokens: Tensor
    logprobs: Tensor
    entropies: Tensor


def draw(
    logits_BV: Tensor,
    uniforms_B: Tensor,
    temperature: float = 1.0,
    top_p: float = 1.0,
    dynamic: bool = True,
) -> Drawn:
    """A token for every row.

    uniforms_B: float64, at least 0 and below 1. Log-probabilities and entropies are those at
    temperature 1 without top-p. dynamic: read values on the host to save work; a graph cannot.
    """
    logits_BV = logits_BV.float()
    probs_BV = model_BV = logits_BV.softmax(-1)
    if temperature == 0:
        tokens_B = logits_BV.argmax(-1)
    else:
        if temperature != 1:
            probs_BV = (logits_BV / temperature).softmax(-1)
        if top_p < 1:
            probs_BV = nucleus(probs_BV, top_p, 256 if dynamic else logits_BV.shape[-1])
        tokens_B = invert(probs_BV, uniforms_B)
    logprobs_B = model_BV.gather(-1, tokens_B[:, None])[:, 0].log()
    # The logarithm of the sum of exponentials, from any one token.
    norms_B = logits_BV.gather(-1, tokens_B[:, None])[:, 0] - logprobs_B
    # A logit may be -inf, and 0 times that is no number.
    finite_BV = logits_BV if dynamic else logits_BV.clamp(min=torch.finfo(torch.float32).min)
    entropies_B = norms_B - torch.linalg.vecdot(model_BV, finite_BV)
    if dynamic and bool(entropies_B.isnan().any()):
        entropies_B = torch.special.entr(model_BV).sum(-1)
    return Drawn(tokens_B, logprobs_B, entropies_B)


def draw_by_blocks(logits_BV: Tensor, uniforms_B: Tensor, temperature: float, sums: Sums) -> Drawn:
    """The same as `draw`, from sums made in one pass; without top-p, at a temperature above 0."""
    tops_BN, totals_BN, dots_BN = sums(logits_BV, _WIDE, 1.0)
    top_B1 = tops_BN.max(-1, keepdim=True).values
    shrink_BN = (tops_BN - top_B1).exp()
    total_B = (totals_BN * shrink_BN).sum(-1)
    norms_B = top_B1[:, 0] + total_B.log()
    entropies_B = norms_B - (dots_BN * shrink_BN).sum(-1) / total_B
    if temperature != 1:
        tops_BN, totals_BN, _ = sums(logits_BV, _WIDE, temperature)
        shrink_BN = (tops_BN - tops_BN.max(-1, keepdim=True).values).exp()
    block_B1, inside_B = _find(totals_BN * shrink_BN, uniforms_B)
    last = logits_BV.shape[-1] - 1
    places_BW = block_B1 * _WIDE + torch.arange(_WIDE, device=logits_BV.device)
    logits_BW = logits_BV.gather(-1, places_BW.clamp(max=last)).float()
    weights_BW = (logits_BW / temperature - tops_BN.gather(-1, block_B1)).exp()
    found_B1, _ = _find(weights_BW.masked_fill(places_BW > last, 0), inside_B)
    logprobs_B = logits_BW.gather(-1, found_B1)[:, 0] - norms_B
    return Drawn(places_BW.gather(-1, found_B1)[:, 0], logprobs_B, entropies_B)


def nucleus(probs_BV: Tensor, top_p: float, first: int = 256) -> Tensor:
    """The likeliest tokens that together reach `top_p`, the others 0; rows do not add up to 1.

    first: how many tokens are sorted at first.
    """
    vocabulary = probs_BV.shape[-1]
    k = min(first, vocabulary)
    while True:
        top_BK, index_BK = probs_BV.topk(k)
        mass_BK = top_BK.cumsum(-1)
        if k == vocabulary or bool((mass_BK[:, -1] >= top_p).all()):
            break
        k = min(8 * k, vocabulary)
    chosen_BK = top_BK * (mass_BK - top_BK < top_p)
    return torch.zeros_like(probs_BV).scatter_(-1, index_BK, chosen_BK)


def invert(weights_BV: Tensor, uniforms_B: Tensor) -> Tensor:
    """The first token at which the running share of the weights exceeds the uniform number.

    First the block, then the token in it: adding thousands of numbers one by one loses the small
    ones in float32, and takes long in float64.
    """
    rows, vocabulary = weights_BV.shape
    blocks = -(-vocabulary // _BLOCK)
    if vocabulary % _BLOCK:
        weights_BV = torch.nn.functional.pad(weights_BV, (0, blocks * _BLOCK - vocabulary))
    weights_BNW = weights_BV.view(rows, blocks, _BLOCK)
    block_B1, inside_B = _find(weights_BNW.sum(-1), uniforms_B)
    weights_BW = weights_BNW[torch.arange(rows, device=weights_BV.device), block_B1[:, 0]]
    token_B1, _ = _find(weights_BW, inside_B)
    return (block_B1 * _BLOCK + token_B1)[:, 0]


def _find(weights_BW: Tensor, uniforms_B: Tensor) -> tuple[Tensor, Tensor]:
    """The weight that each number falls on, and how far into it, from 0 to below 1."""
    sums_BW = weights_BW.double().cumsum(-1)
    # Below 1 by more than rounding, or the last weight would be found where it is 0.
    targets_B1 = uniforms_B[:, None].clamp(max=1 - 2**-40) * sums_BW[:, -1:]
    found_B1 = torch.searchsorted(sums_BW, targets_B1, right=True)
    width_B1 = weights_BW.gather(-1, found_B1).double()
    before_B1 = sums_BW.gather(-1, found_B1) - width_B1
    inside_B1 = ((targets_B1 - before_B1) / width_B1).clamp_(0, 1)
    return found_B1, inside_B1[:, 0]
