"""`draw`: one token per row from its logits."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from maxk.sample.native.draw import draw, draw_by_blocks, invert, nucleus


def grid(count: int) -> torch.Tensor:
    """Uniform numbers without chance: the middles of `count` equal parts of [0, 1)."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


@pytest.mark.parametrize("vocabulary", [1, 5, 128, 300])
def test_the_share_of_a_token_is_its_probability(vocabulary):
    count = 20_000
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(0)) * 2
    tokens = draw(logits.expand(count, -1), grid(count)).tokens
    shares = torch.bincount(tokens, minlength=vocabulary) / count
    # On an even grid a share is off by less than two of its cells, and rounding by less than that.
    assert (shares - logits.softmax(-1)).abs().max() < 3 / count


def test_a_token_of_probability_zero_is_never_drawn():
    weights = torch.tensor([[0.0, 0.2, 0.0, 0.5, 0.0]]).repeat(1, 60)
    ends = torch.tensor([0.0, 1 - 2**-53, 0.5, 1e-300, 1 - 2**-52], dtype=torch.float64)
    tokens = invert(weights.expand(5, -1), ends)
    assert set((tokens % 5).tolist()) <= {1, 3}
    assert tokens[0] == 1
    assert tokens[1] == 298


def test_logprob_and_entropy_are_of_the_model_as_it_is_whatever_was_sampled_with():
    logits = torch.randn(6, 200, generator=torch.Generator().manual_seed(0))
    logits[:, 7] = -torch.inf
    for temperature, top_p in [(1.0, 1.0), (0.5, 1.0), (1.0, 0.8), (0.0, 1.0)]:
        drawn = draw(logits, grid(6), temperature, top_p)
        expected = logits.double().log_softmax(-1)
        wanted = expected.gather(-1, drawn.tokens[:, None])[:, 0]
        torch.testing.assert_close(drawn.logprobs.double(), wanted, atol=1e-5, rtol=0)
        entropies = torch.special.entr(expected.exp()).sum(-1)
        torch.testing.assert_close(drawn.entropies.double(), entropies, atol=1e-5, rtol=0)


def test_temperature_zero_takes_the_likeliest():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(draw(logits, grid(4), temperature=0.0).tokens, logits.argmax(-1))


def test_temperature_divides_the_logits():
    logits = torch.randn(60, generator=torch.Generator().manual_seed(0)).expand(500, -1)
    assert torch.equal(
        draw(logits, grid(500), temperature=0.5).tokens, draw(logits * 2, grid(500)).tokens
    )


@pytest.mark.parametrize("vocabulary", [10, 3000])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(vocabulary):
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(0))
    probs = logits.softmax(-1)
    for top_p in (0.1, 0.5, 0.97):
        kept = nucleus(probs, top_p)
        for row, all_of in zip(kept, probs, strict=True):
            count = int((row > 0).sum())
            best = all_of.sort(descending=True).values
            assert math.isclose(float(row.sum()), float(best[:count].sum()), rel_tol=1e-5)
            assert best[:count].sum() >= top_p - 1e-6
            assert best[: count - 1].sum() < top_p


def test_the_same_numbers_give_the_same_tokens_in_any_batch():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(40, 3000)), dtype=torch.float32)
    uniforms = torch.tensor(rng.random(40))
    together = draw(logits, uniforms).tokens
    alone = torch.cat([draw(logits[i : i + 1], uniforms[i : i + 1]).tokens for i in range(40)])
    assert torch.equal(together, alone)


def test_what_is_drawn_without_dynamic_is_the_same():
    torch.manual_seed(0)
    logits, uniforms = torch.randn(50, 300), torch.rand(50, dtype=torch.float64)
    for how in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.7), (0.0, 1.0)):
        for one, two in zip(
            draw(logits, uniforms, *how), draw(logits, uniforms, *how, dynamic=False), strict=True
        ):
            assert torch.equal(one, two)
    logits[:, ::3] = -torch.inf
    one, two = draw(logits, uniforms), draw(logits, uniforms, dynamic=False)
    assert torch.equal(one.tokens, two.tokens)
    assert two.entropies.numpy() == pytest.approx(one.entropies.numpy(), abs=1e-5)


def plain_sums(logits: torch.Tensor, width: int, temperature: float) -> Any:
    """What the kernel computes, from its definition."""
    found = []
    for block in (logits.double() / temperature).split(width, dim=-1):
        top = block.max(-1, keepdim=True).values.clamp(min=-1e300)
        weights = (block - top).exp()
        dots = torch.where(weights > 0, weights * block, 0).sum(-1)
        found.append(torch.stack([top[:, 0], weights.sum(-1), dots]))
    return tuple(torch.stack(found, -1).float())


@pytest.mark.parametrize("vocabulary", [3, 1024, 2500])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_a_draw_by_blocks_is_the_same_draw(vocabulary, temperature):
    logits = torch.randn(200, vocabulary, generator=torch.Generator().manual_seed(1)) * 3
    logits[50:, : vocabulary // 2] = -torch.inf  # in the largest, the whole first block
    logits[:50, vocabulary // 2 :] = -torch.inf
    expected = draw(logits, grid(200), temperature)
    found = draw_by_blocks(logits, grid(200), temperature, plain_sums)
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.logprobs, expected.logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.entropies, expected.entropies, atol=1e-5, rtol=0)
