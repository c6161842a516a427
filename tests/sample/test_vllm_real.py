"""The vLLM back end with vLLM itself, where there is a GPU."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from maxk.sample import Completion, Request, Sampling
from maxk.sample.native.engine import TransformersSampler
from maxk.sample.vllm_ import VllmSampler
from tests.tiny import tiny_model, write_gguf

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None or not torch.cuda.is_available(),
        reason="needs vLLM and a GPU",
    ),
    pytest.mark.filterwarnings("default"),
]
ENGINE: dict[str, Any] = {
    "gpu_memory_utilization": 0.1,
    "max_model_len": 256,
    "enforce_eager": True,
    "batch": 256,
}
GREEDY = Sampling(temperature=0.0, max_tokens=8, chat=False)
REQUESTS = [Request(str(i), "print(" + "ab" * i, tuple(range(70))) for i in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    """A Llama with heads of a width that vLLM's kernels have."""
    path = str(tmp_path_factory.mktemp("model"))
    tokenizer = tiny_model()[1]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.1,  # so that its likeliest token is clear
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def by_sample(sampler: Any, settings: Sampling) -> dict[tuple[str, int], Completion]:
    return {(each.problem, each.sample): each for each in sampler.sample(REQUESTS, settings)}


def alike(one: dict, two: dict) -> None:
    """The same texts with about the same log-probabilities; bfloat16 may turn one or two."""
    assert one.keys() == two.keys()
    first = [key for key in one if key[1] == 0]  # without chance all samples of a prompt are one
    same = [key for key in first if one[key].text == two[key].text]
    assert len(same) >= len(first) - 1
    for key in same:
        assert one[key].logprob == pytest.approx(two[key].logprob, abs=0.3)
        assert one[key].tokens == two[key].tokens


def test_samples_are_many_and_repeat_themselves_and_greedy_ones_are_those_of_transformers(folder):
    sampler = VllmSampler(folder, seeds=True, logprobs=True, **ENGINE)
    settings = Sampling(max_tokens=40, chat=False, seed=1)
    first, second = by_sample(sampler, settings), by_sample(sampler, settings)
    assert len(first) == 280
    assert len({each.text for each in first.values()}) > 250
    assert sum(first[key].text == second[key].text for key in first) > 250
    assert all(each.logprob is not None and each.logprob < 0 for each in first.values())
    assert {each.finish for each in first.values()} <= {"stop", "length"}
    assert max(each.tokens or 0 for each in first.values()) == 40
    alike(by_sample(sampler, GREEDY), by_sample(TransformersSampler(folder), GREEDY))


def test_an_adapter_is_its_merged_model(folder, tmp_path):
    torch.manual_seed(1)
    config = LoraConfig(r=12, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted: Any = get_peft_model(LlamaForCausalLM.from_pretrained(folder), config)
    adapted.peft_config["default"].base_model_name_or_path = folder
    adapted.save_pretrained(str(tmp_path))
    ours = by_sample(TransformersSampler(str(tmp_path)), GREEDY)
    alike(by_sample(VllmSampler(str(tmp_path), logprobs=True, **ENGINE), GREEDY), ours)
    base = by_sample(TransformersSampler(folder), GREEDY)
    assert any(base[key].text != ours[key].text for key in base)


def test_a_gguf_file_is_its_model(folder, tmp_path):
    path = Path(tmp_path) / "model.gguf"
    write_gguf(path, LlamaForCausalLM.from_pretrained(folder), tiny_model()[1])
    sampler: Any = VllmSampler(str(path), logprobs=True, **ENGINE)
    sampler.tokenizer = tiny_model()[1]  # the file's own has the same words, put together otherwise
    alike(by_sample(sampler, GREEDY), by_sample(TransformersSampler(folder), GREEDY))
