"""`replace_generate`: what TRL gets in the place of `model.generate`."""

from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from maxk.sample.generate import replace_generate, settings_of
from maxk.sample.native.engine import TransformersSampler
from tests.tiny import tiny_model

PLAIN: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "max_new_tokens": 12}


def inputs(*prompts: str) -> dict[str, torch.Tensor]:
    """Padded on the left, as TRL gives them."""
    tokenizer = tiny_model()[1]
    return dict(tokenizer(list(prompts), padding=True, return_tensors="pt"))


def test_completions_follow_their_prompts_and_end_in_padding():
    model: Any
    model, tokenizer = tiny_model()
    replace_generate(model, tokenizer)
    given = inputs("abc", "abc", "print(1)", "abc")
    torch.manual_seed(0)
    out = model.generate(**given, generation_config=GenerationConfig(**PLAIN), disable_compile=True)
    length = given["input_ids"].shape[1]
    assert out.shape == (4, length + 12)
    assert torch.equal(out[:, :length], given["input_ids"])
    rows = out[:, length:].tolist()
    assert len({tuple(row) for row in rows}) == 4  # equal prompts have samples of their own
    for row in rows:
        end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else 11
        assert set(row[end + 1 :]) <= {0}  # padding


def test_without_chance_it_is_what_the_model_s_own_gives():
    model: Any
    model, tokenizer = tiny_model()
    config = GenerationConfig(do_sample=False, max_new_tokens=10, pad_token_id=0, eos_token_id=1)
    given = inputs("abc", "print(1)", "x = 3")
    own = model.generate(**given, generation_config=config)
    replace_generate(model, tokenizer)
    ours = model.generate(**given, generation_config=config)
    assert torch.equal(ours[:, : own.shape[1]], own)


def test_torch_s_seed_decides_what_is_drawn():
    model: Any
    model, tokenizer = tiny_model()
    replace_generate(model, tokenizer)
    given, config = inputs("abc"), GenerationConfig(**PLAIN)

    def draw(seed: int) -> list[list[list[int]]]:
        torch.manual_seed(seed)
        return [model.generate(**given, generation_config=config).tolist() for _ in range(2)]

    first = draw(1)
    assert first == draw(1)
    assert first[0] != first[1]
    assert first != draw(2)


def test_another_sampler_is_given_its_weights_before_it_is_asked():
    model: Any
    model, tokenizer = tiny_model()
    other, _ = tiny_model(seed=1)
    told = []

    def load() -> None:
        told.append(1)
        other.load_state_dict(model.state_dict())

    greedy = GenerationConfig(do_sample=False, max_new_tokens=12)
    wanted = model.generate(**inputs("abc", "print"), generation_config=greedy)
    replace_generate(model, tokenizer, TransformersSampler(other, tokenizer), load)
    found = model.generate(**inputs("abc", "print"), generation_config=greedy)
    assert torch.equal(found[:, : wanted.shape[1]], wanted)
    assert told == [1]


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="top_k=50 is not supported by maxk's"):
        settings_of(GenerationConfig(**PLAIN | {"top_k": 50}))
    with pytest.raises(ValueError, match=r"repetition_penalty=1\.2 is not supported"):
        settings_of(GenerationConfig(**PLAIN, repetition_penalty=1.2))
    found = settings_of(GenerationConfig(**PLAIN | {"temperature": 0.7, "top_p": 0.9}))
    assert (found.temperature, found.top_p, found.max_tokens) == (0.7, 0.9, 12)
