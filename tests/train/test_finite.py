"""A gradient that is not finite never reaches the weights."""

import math
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention

from maxk.train import MaxKTrainer
from maxk.train.finite import refuse_infinite, without_cudnn
from tests.tiny import tiny_model
from tests.train.test_trainer import config, digits, train

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_training_stops_before_the_step_and_says_where(tmp_path, value):
    found: Any = tiny_model()
    model, tokenizer = found
    broken = model.model.layers[0].mlp.up_proj.weight
    passes, before = [], []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        passes.append(1)
        if len(passes) < 3:
            return gradient
        before.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return torch.full_like(gradient, value)

    broken.register_hook(spoil)
    trainer = MaxKTrainer(
        model,
        digits,
        config(tmp_path, method="grpo"),
        Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
    )
    with pytest.raises(RuntimeError, match=r"step 3 is .* 1 of \d+ weights,.*up_proj"):
        trainer.train()
    assert len(before) == 1
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[0][name])


def test_gradients_may_be_spread_over_processes(tmp_path):
    file = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=file, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = torch.nn.Linear(4, 3)
        for name, weight in list(model.named_parameters()):
            spread = torch.nn.Parameter(distribute_tensor(weight, mesh, [Shard(0)]))
            spread.grad = distribute_tensor(torch.ones_like(weight), mesh, [Shard(0)])
            setattr(model, name, spread)
        refuse_infinite(model, 1)
        bias: Any = model.bias.grad
        bias.to_local()[1] = math.nan
        with pytest.raises(RuntimeError, match="step 2 is not finite, for 1 of 2 weights, 'bias'"):
            refuse_infinite(model, 2)
    finally:
        torch.distributed.destroy_process_group()


def test_large_numbers_are_numbers():
    model = torch.nn.Linear(4, 3)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 1e38)  # the norm is not
    refuse_infinite(model, 1)


def test_no_trainer_uses_the_attention_of_cudnn(tmp_path):
    torch.backends.cuda.enable_cudnn_sdp(True)
    train(tmp_path, method="grpo", max_steps=1)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_attention_with_low_scores_has_a_gradient_at_every_length():
    without_cudnn()
    for length in (64, 704, 705, 768):
        query, key, value = torch.randn(3, 1, 2, length, 64, device="cuda").mul(0.1).unbind()
        query[..., 0], key[..., 0] = 1, -120 * 8  # scores of about -120
        leaves = [each.bfloat16().requires_grad_() for each in (query, key, value)]
        mask = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
        scaled_dot_product_attention(*leaves, attn_mask=mask).sum().backward()
        for leaf in leaves:
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()
