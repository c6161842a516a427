"""The vLLM back end, against a stand-in with its classes, and the real one where there is a GPU."""

import importlib.util
import json
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from maxk.sample import Request, Settings, choose, make
from maxk.sample.base import seed_of
from maxk.sample.vllm_ import VllmSampler
from tests.tiny import tiny_model

SETTINGS = Settings(max_tokens=6, chat=False, seed=5)


class FakeEngine:
    """Finishes one request a step, the newest first; text is the seed of the sample."""

    def __init__(self) -> None:
        self.waiting: dict[str, Any] = {}
        self.most = 0
        self.aborted: list[str] = []

    def add_request(self, request_id, prompt, params, lora_request=None) -> None:
        assert params.output_kind == "final"
        assert params.n == 1 or params.temperature > 0
        self.waiting[request_id] = (prompt["prompt_token_ids"], params, lora_request)
        self.most = max(self.most, sum(each[1].n for each in self.waiting.values()))

    def abort_request(self, request_ids) -> None:
        self.aborted += request_ids

    def step(self) -> list[Any]:
        name, (ids, params, lora) = self.waiting.popitem()
        outputs = [
            SimpleNamespace(
                index=i,
                text=f"{params.seed if params.seed is None else params.seed + i} {lora}",
                token_ids=ids,
                finish_reason="length" if i % 2 else "stop",
                cumulative_logprob=None if params.logprobs is None else -1.0 - i,
            )
            for i in range(params.n)
        ]
        unfinished = SimpleNamespace(request_id="other", finished=False, outputs=[])
        done = SimpleNamespace(request_id=name, finished=True, outputs=outputs[::-1])
        return [unfinished, done]


@pytest.fixture
def made(monkeypatch) -> list[dict]:
    """A module vllm; gives the arguments of every LLM that is made."""
    calls: list[dict] = []

    class LLM:
        def __init__(self, **given) -> None:
            calls.append(given)
            self.llm_engine = FakeEngine()

        def get_tokenizer(self):
            return tiny_model()[1]

    def module(name: str, **names) -> None:
        made = ModuleType(name)
        made.__spec__ = importlib.util.spec_from_loader(name, None)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, name, made)

    module("vllm", LLM=LLM, SamplingParams=lambda **given: SimpleNamespace(**given))
    module("vllm.sampling_params", RequestOutputKind=SimpleNamespace(FINAL_ONLY="final"))
    module("vllm.lora", __path__=[])
    module("vllm.lora.request", LoRARequest=lambda *given: given)
    return calls


def test_every_sample_has_the_seed_that_its_number_says(made):
    asked = [Request("a", "xy", tuple(range(150))), Request("b", "z", (3, 4, 9))]
    sampler = VllmSampler("m", seeds=True, logprobs=True)
    found = {(c.problem, c.sample): c for c in sampler.sample(asked, SETTINGS)}
    assert len(found) == 153
    for (problem, sample), completion in found.items():
        assert completion.text == f"{seed_of(5, problem, sample)} None"
    assert found["a", 1].finish == "length"
    assert (found["a", 0].tokens, found["b", 3].tokens) == (2, 1)
    assert found["a", 65].logprob == -2.0
    assert found["a", 0].entropy is None


def test_the_engine_has_prefix_caching_and_many_rows_and_a_queue_that_stays_short(made):
    sampler = VllmSampler("m", seeds=True, gpu_memory_utilization=0.5)
    assert made[0] == {
        "model": "m",
        "enable_prefix_caching": True,
        "max_num_seqs": 512,
        "gpu_memory_utilization": 0.5,
    }
    asked = [Request(str(i), "x", tuple(range(256))) for i in range(40)]
    sampling: Any = sampler.sample(iter(asked), SETTINGS)
    next(sampling)
    assert sampler.llm.llm_engine.most <= 2 * 512 + 64
    sampling.close()
    assert sampler.llm.llm_engine.aborted  # the engine is free for the next call


def test_temperature_zero_asks_once_and_gives_every_sample(made):
    asked = [Request("a", "x", (0, 1, 2))]
    found = list(VllmSampler("m").sample(asked, Settings(temperature=0.0, chat=False)))
    assert [each.sample for each in found] == [0, 1, 2]
    assert {each.text for each in found} == {"None None"}


def test_without_seeds_every_start_draws_other_numbers(made):
    sampler = VllmSampler("m")
    (found,) = sampler.sample([Request("a", "x", (0,))], SETTINGS)
    assert (found.text, found.logprob) == ("None None", None)
    VllmSampler("m")
    assert made[0]["seed"] != made[1]["seed"]


def test_an_adapter_goes_to_its_base_model(made, tmp_path):
    config = {"base_model_name_or_path": "base", "r": 12}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    sampler = VllmSampler(str(tmp_path))
    assert (made[0]["model"], made[0]["enable_lora"], made[0]["max_lora_rank"]) == (
        "base",
        True,
        16,
    )
    (found,) = sampler.sample([Request("a", "x", (0,))], SETTINGS)
    assert found.text.endswith(f"('adapter', 1, '{tmp_path}')")


def test_without_vllm_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'maxk\[vllm\]'"):
        make("m", "vllm")
    assert choose() == "transformers"


# --- the real thing ------------------------------------------------------------------------------


def real() -> bool:
    import torch

    return importlib.util.find_spec("vllm") is not None and torch.cuda.is_available()


@pytest.mark.skipif(not real(), reason="needs vLLM and a GPU")
@pytest.mark.filterwarnings("default")
def test_the_real_vllm_samples_repeats_itself_and_agrees_with_transformers(tmp_path):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from maxk.sample.transformers_ import TransformersSampler

    _, tokenizer = tiny_model()
    torch.manual_seed(0)
    config = LlamaConfig(  # heads of a width that vLLM's kernels have
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=1,
        bos_token_id=None,
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    sampler = VllmSampler(
        str(tmp_path),
        seeds=True,
        logprobs=True,
        gpu_memory_utilization=0.2,
        max_model_len=256,
        enforce_eager=True,
    )
    settings = Settings(max_tokens=40, chat=False, seed=1)
    asked = [Request(str(i), "print(" + "ab" * i, tuple(range(70))) for i in range(4)]

    def by_sample(some) -> dict:
        return {(each.problem, each.sample): each for each in some}

    began = time.monotonic()
    first = by_sample(sampler.sample(asked, settings))
    seconds = time.monotonic() - began
    print(f"{sum(each.tokens for each in first.values()) / seconds:.0f} tokens/s")
    assert len(first) == 280
    assert len({each.text for each in first.values()}) > 270
    second = by_sample(sampler.sample(asked, settings))
    same = sum(first[key].text == second[key].text for key in first)
    assert same > 250  # other batches round otherwise
    for key, completion in first.items():
        assert completion.logprob is not None, key
    greedy = Settings(temperature=0.0, max_tokens=8, chat=False)
    ours = by_sample(TransformersSampler(str(tmp_path)).sample(asked[:2], greedy))
    theirs = by_sample(sampler.sample(asked[:2], greedy))
    for key, completion in theirs.items():
        assert completion.logprob == pytest.approx(ours[key].logprob, abs=0.5)
