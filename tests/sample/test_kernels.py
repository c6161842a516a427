"""The Triton kernels beside their definitions; they need a GPU, and CUDA builds bring Triton."""

from typing import Any

import pytest
import torch

from maxk.sample.native.graphs import kernels_there
from tests.sample.test_draw import plain_sums

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def kernels() -> Any:
    found = kernels_there()
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "group", "width"), [(2, 7, 64), (1, 4, 80), (4, 1, 32)])
def test_a_token_looks_at_its_row_as_far_as_it_goes(kernels, dtype, heads, group, width):
    made = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=made).to("cuda", dtype)

    rows, places = 9, 300
    keys, values = numbers(rows + 2, heads, places, width), numbers(rows + 2, heads, places, width)
    query = numbers(rows, 1, heads * group, width).transpose(1, 2)
    key, value = (numbers(rows, 1, heads, width).transpose(1, 2) for _ in range(2))
    at = torch.tensor([0, 1, 63, 64, 65, 128, 200, 298, 299], device="cuda")
    all_keys, all_values = keys.clone(), values.clone()
    every = torch.arange(rows, device="cuda")
    all_keys[every, :, at], all_values[every, :, at] = key[:, :, 0], value[:, :, 0]
    out = kernels.attend(query, key, value, keys, values, at, width**-0.5)
    assert torch.equal(keys, all_keys)
    assert torch.equal(values, all_values)
    asked = query.reshape(rows, heads, group, width).double() * width**-0.5
    scores = asked @ all_keys[:rows].double().transpose(-1, -2)
    hidden = torch.arange(places, device="cuda") > at[:, None]
    weights = scores.masked_fill(hidden[:, None, None], -torch.inf).softmax(-1)
    expected = (weights @ all_values[:rows].double()).reshape(rows, 1, heads * group, width)
    atol = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(out.double(), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_sums_of_a_block_are_those_of_its_logits(kernels, temperature):
    logits = torch.randn(7, 5000, generator=torch.Generator().manual_seed(0)) * 4
    logits[0, :2000] = -torch.inf
    found = kernels.sums(logits.cuda(), 1024, temperature)
    for one, other in zip(found[1:], plain_sums(logits, 1024, temperature)[1:], strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-3, rtol=1e-5)
