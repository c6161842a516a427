"""A prompt read once for its completions: the same log-probabilities, from fewer tokens."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
import trl.trainer.utils
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig

from maxk.train.packing import all_packed_logps, fitted, pack, packed_logps, together
from tests.tiny import tiny_model
from tests.train.test_trainer import FUSED, SPLIT, logged, train

pytestmark = [pytest.mark.filterwarnings("default"), FUSED]
PROMPTS = {"a": [5, 6, 7], "b": [9], "c": [4, 8, 4, 8, 5, 5]}
ROWS = [("a", [10, 11, 1]), ("c", [12]), ("a", [10, 13, 14, 15]), ("b", [3, 1]), ("a", [16, 1])]


def batch() -> tuple[torch.Tensor, torch.Tensor, int]:
    """As TRL lays them out; one prompt has three completions, and not side by side."""
    width, longest = 5, max(map(len, PROMPTS.values()))
    ids, mask = [], []
    for name, completion in ROWS:
        prompt = PROMPTS[name]
        left, right = longest - len(prompt), width - len(completion)
        ids.append([0] * left + prompt + completion + [0] * right)
        mask.append([0] * left + [1] * (len(prompt) + len(completion)) + [0] * right)
    return torch.tensor(ids), torch.tensor(mask), width


def alone(model: Any, prompt: list[int], completion: list[int]) -> tuple[Any, Any]:
    """Log-probabilities and entropies of one completion, with nothing around it."""
    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    every = logits.log_softmax(-1)
    picked = every.gather(-1, torch.tensor(completion)[:, None])[:, 0]
    return picked, -(every.exp() * every).sum(-1)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_log_probabilities_are_those_of_each_completion_alone(attention):
    model: Any = tiny_model()[0]
    model.set_attn_implementation(attention)
    reference: Any = tiny_model()[0]
    trl.trainer.utils.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    logps, entropies = packed_logps(model, model.config, *batch())
    assert entropies is not None
    assert logps.shape == entropies.shape == (5, 5)
    for i, (name, completion) in enumerate(ROWS):
        picked, entropy = alone(reference, PROMPTS[name], completion)
        length = len(completion)
        torch.testing.assert_close(logps[i, :length], picked)
        torch.testing.assert_close(entropies[i, :length], entropy)
        assert not logps[i, length:].any()
    # and so are the gradients
    factors = torch.randn(logps.shape, generator=torch.Generator().manual_seed(0))
    (logps * factors).sum().backward()
    total: Any = sum(
        (alone(reference, PROMPTS[name], c)[0] * factors[i, : len(c)]).sum()
        for i, (name, c) in enumerate(ROWS)
    )
    total.backward()
    expected = dict(reference.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, atol=1e-5, rtol=1e-4)


def test_a_completion_sees_its_prompt_and_itself_alone():
    packed = pack(*batch(), hidden=1000)
    # A prompt of 3 with 3 completions is the longest; the two others are side by side.
    assert packed.ids.shape == (2, 2 + 4 + 5 + 3)
    for i, (name, completion) in enumerate(ROWS):
        row, place = (int(each[packed.before[0] == i][-1]) for each in packed.here)
        seen = packed.mask(None)[row, 0, place].nonzero()[:, 0]
        assert packed.ids[row, seen].tolist() == PROMPTS[name] + completion
        assert packed.positions[row, seen].tolist() == list(range(len(seen)))


def test_a_group_has_several_prompts_where_one_row_would_be_too_long():
    ids, mask, width = batch()
    packed = pack(ids, mask, width, hidden=1)
    assert packed.prompts.unique().tolist() == [-1, 0, 1, 2, 3]  # three, one of them twice; padding
    values = torch.where(packed.labels == -100, 0, packed.labels)
    assert torch.equal(packed.unpack(values, (5, width)), ids[:, -width:] * mask[:, -width:])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_rows_are_filled_without_overlap(sizes):
    rows, starts = fitted(np.array(sizes))
    places = [
        (row, start + i)
        for row, start, size in zip(rows.tolist(), starts.tolist(), sizes, strict=True)
        for i in range(size)
    ]
    assert len(set(places)) == sum(sizes)
    assert max(place for _, place in places) == max(sizes) - 1
    filled = Counter(row for row, _ in places)
    assert sorted(filled) == list(range(len(filled)))
    # No two rows would fit into one.
    assert all(a + b > max(sizes) for a, b in combinations(filled.values(), 2))


@pytest.mark.parametrize("prompt", [1, 60, 900])
@pytest.mark.parametrize("completion", [5, 50, 700])
def test_no_other_number_of_completions_in_a_row_is_cheaper(prompt, completion):
    def cost(m: int) -> float:
        places = prompt + m * completion
        return places * (12 * 160**2 + 2 * 160 * places) / m

    best = min(range(1, 200), key=cost)
    assert cost(together(prompt, completion, 160)) <= 1.05 * cost(best)


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("bon-centered", {}),
        ("bon-centered", {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}),
        ("off-policy-exact", {"per_device_train_batch_size": 8, "skip_zero_variance": True}),
        ("off-policy-exact", SPLIT),
        ("bon-centered", {"beta": 0.5, "learning_rate": 0.3}),
    ],
    ids=["on-policy", "whole groups", "exact, whole groups", "split groups", "with a reference"],
)
def test_training_goes_the_same_way(tmp_path, method, changes):
    model, ends = tiny_model()[0], []
    model.save_pretrained(start := str(tmp_path / "start"))  # from where TRL takes a reference
    for share in (False, True):
        settings: dict[str, Any] = {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0}
        settings |= {"num_iterations": 2, "max_steps": 4, "pack_prompts": share, **changes}
        trainer = train(tmp_path, start=start, method=method, **settings)
        trained: Any = trainer.model
        ends.append((trained.state_dict(), logged(trainer, "entropy")))
    (plain, lines), (shared, shared_lines) = ends
    for name, value in plain.items():
        torch.testing.assert_close(shared[name], value, atol=1e-5, rtol=1e-4)
    for line, other in zip(lines, shared_lines, strict=True):
        assert other["entropy"] == pytest.approx(line["entropy"], rel=1e-4)
        assert other["loss"] == pytest.approx(line["loss"], abs=1e-4)
        assert other.get("kl") == pytest.approx(line.get("kl"), abs=1e-5)
    assert ("kl" in lines[-1]) == ("beta" in changes)
    assert lines[-1].get("kl", 1.0) > 1e-3


@pytest.mark.parametrize("share", [False, True])
def test_groups_are_put_together_where_their_prompt_is_to_be_shared(tmp_path, share):
    changes: dict[str, Any] = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    trainer = train(tmp_path, method="grpo", max_steps=1, pack_prompts=share, **changes)
    buffered: Any = trainer._buffered_inputs
    groups = [(batch["row"] // 4).view(2, 4) for batch in buffered]
    assert all((each == each[:, :1]).all() for each in groups) == share
    assert torch.cat(groups).flatten().sort().values.tolist() == [i // 4 for i in range(16)]


def test_models_whose_attention_cannot_do_it_are_refused(tmp_path):
    model: Any = tiny_model()[0]
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="pack_prompts=True with attn_implementation='flash"):
        packed_logps(model, model.config, *batch())
    window: Any = LlamaConfig()
    window.sliding_window = 4
    with pytest.raises(ValueError, match="sliding window of 4"):
        packed_logps(model, window, *batch())
    trainer = train(tmp_path, method="grpo", max_steps=1)
    with pytest.raises(ValueError, match="cannot be used with pixel_values"):
        all_packed_logps(trainer.accelerator, trainer.model, *batch(), pixel_values=torch.zeros(1))
