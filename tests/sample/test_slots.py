"""Attention over slots and shared prompts, beside the formula written out."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk.sample.native import slots
from maxk.sample.native.slots import Prompts, by_products, fused

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=7)  # places in use, of every row


def written_out(
    query: torch.Tensor, lengths: list[int], there: Any, prompts: Prompts, scale: float
) -> torch.Tensor:
    """Row by row and head by head, in float64."""
    keys, values = (each.double() for each in there)
    out = torch.zeros(*query.shape[:3], values.shape[-1], dtype=torch.float64)
    for row, length in enumerate(lengths):
        for head in range(keys.shape[1]):
            seen_keys, seen = [keys[row, head, :length]], [values[row, head, :length]]
            for its_keys, its_values, of in prompts:
                if row in torch.arange(len(lengths))[of]:
                    seen_keys.append(its_keys[0, head].double())
                    seen.append(its_values[0, head].double())
            scores = query[row, head].double() @ torch.cat(seen_keys).T * scale
            out[row, head] = scores.softmax(-1) @ torch.cat(seen)
    return out


def example(
    lengths: list[int], shared: list[slice | torch.Tensor], dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor], torch.Tensor, Prompts]:
    """Random queries, keys and values, with NaN-free rubbish behind the ends of the rows."""
    torch.manual_seed(sum(lengths))
    rows, heads, group, width, used = len(lengths), 2, 3, 8, max(lengths)
    query = torch.randn(rows, heads, group, width, dtype=dtype)
    # A part of longer slots, as in use.
    whole = torch.randn(2, rows + 1, heads, used + 4, width, dtype=dtype)
    keys, values = whole[:, :rows, :, :used]
    hidden = torch.arange(used) >= torch.tensor(lengths)[:, None]
    mask = torch.zeros(rows, used, dtype=dtype).masked_fill(hidden, -torch.inf)[:, None, None]
    prompts: Prompts = []
    for i, of in enumerate(shared):
        theirs = torch.randn(2, 1, heads, 3 + 4 * i, width, dtype=dtype)
        prompts.append((theirs[0], theirs[1], of))
    return query, (keys, values), mask, prompts


@pytest.mark.parametrize("way", [fused, by_products])
@given(lengths=LENGTHS, scale=st.sampled_from([0.1, 1.0, 4.0]), apart=st.booleans())
def test_rows_see_their_places_and_their_prompt(way, lengths, scale, apart):
    half = len(lengths) // 2
    shared: list[slice | torch.Tensor] = [slice(0, half), slice(half, len(lengths))]
    if apart:  # rows of a prompt that do not lie side by side; one has none
        shared = [torch.arange(0, len(lengths), 2), torch.arange(1, len(lengths), 2)[1:]]
    shared = [of for of in shared if len(torch.arange(len(lengths))[of])]
    query, there, mask, prompts = example(lengths, shared)
    found = way(query, *there, mask, prompts, scale)
    expected = written_out(query, lengths, there, prompts, scale)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", [fused, by_products])
def test_without_shared_prompts(way):
    query, there, mask, prompts = example([3, 1, 9], [])
    found = way(query, *there, mask, prompts, 0.5)
    expected = written_out(query, [3, 1, 9], there, prompts, 0.5)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", [fused, by_products])
def test_bfloat16_is_as_close_as_it_can_be(way):
    query, there, mask, prompts = example([3, 1, 9, 4], [slice(0, 4)], torch.bfloat16)
    found = way(query, *there, mask, prompts, 0.5)
    assert found.dtype == torch.bfloat16
    expected = written_out(query, [3, 1, 9, 4], there, prompts, 0.5)
    torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("way", [fused, by_products])
def test_a_prompt_that_outweighs_everything_and_one_that_weighs_nothing(way):
    """Joined by their norms, hundreds apart, the two parts must not become inf or NaN."""
    for weight in (-300.0, 300.0):
        query, (keys, values), mask, prompts = example([2, 2], [slice(0, 2)])
        theirs, their_values, of = prompts[0]
        towards = query.mean((0, 1, 2)) / query.mean((0, 1, 2)).norm() ** 2
        query = query * 0 + query.mean((0, 1, 2))
        prompts = [(theirs + weight * towards, their_values, of)]
        found = way(query, keys, values, mask, prompts, 1.0)
        expected = written_out(query, [2, 2], (keys, values), prompts, 1.0)
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_the_kernel_is_for_cpus_whose_library_has_no_batches(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert slots.fusing(cpu)
    assert not slots.fusing(gpu)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert not slots.fusing(cpu)
