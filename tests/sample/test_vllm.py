"""The vLLM back end against a stand-in with its classes; test_vllm_real.py has the real one."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from maxk.sample import Request, Sampling, choose, make
from maxk.sample.base import seed_of
from maxk.sample.models import load
from maxk.sample.vllm_ import VllmSampler
from tests.tiny import tiny_model, write_gguf

SETTINGS = Sampling(max_tokens=6, chat=False, seed=5)


class Letters:
    """A tokenizer: a token is the number of a character, 0 the end."""

    def __call__(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[ord(letter) for letter in text])

    def decode(self, ids, skip_special_tokens, clean_up_tokenization_spaces) -> str:
        assert skip_special_tokens
        assert not clean_up_tokenization_spaces
        return "".join(chr(i) for i in ids if i)


class FakeEngine:
    """Finishes one request a step, the newest first; text is the seed of the sample."""

    def __init__(self) -> None:
        self.waiting: dict[str, Any] = {}
        self.model_config = SimpleNamespace(max_model_len=100)
        self.most = 0
        self.aborted: list[str] = []

    def add_request(self, request_id, prompt, params, lora_request=None) -> None:
        assert params.output_kind == "final"
        assert not params.detokenize
        assert params.n == 1 or params.temperature > 0
        self.waiting[request_id] = (prompt["prompt_token_ids"], params, lora_request)
        self.most = max(self.most, sum(each[1].n for each in self.waiting.values()))

    def abort_request(self, request_ids) -> None:
        self.aborted += request_ids

    def tokens(self, seed, lora, ended: bool) -> tuple[int, ...]:
        return (*Letters()(f" {seed} {lora}").input_ids, *([0] if ended else []))

    def step(self) -> list[Any]:
        name, (_, params, lora) = self.waiting.popitem()
        outputs = [
            SimpleNamespace(
                index=i,
                token_ids=self.tokens(params.seed and params.seed + i, lora, ended=i % 2 == 0),
                finish_reason="stop" if i % 2 == 0 else "length",
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
            return Letters()

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
        assert completion.text == f" {seed_of(5, problem, sample)} None"
    assert found["a", 1].finish == "length"
    assert found["a", 1].tokens == len(found["a", 1].text)
    assert found["a", 0].tokens == len(found["a", 0].text) + 1  # the end token
    assert found["a", 65].logprob == -2.0
    assert found["a", 0].entropy is None


def test_the_engine_has_prefix_caching_and_many_rows_and_a_queue_that_stays_short(made):
    sampler = VllmSampler("m", seeds=True, gpu_memory_utilization=0.5)
    assert made[0] == {
        "model": "m",
        "enable_prefix_caching": True,
        "max_num_seqs": 2048,
        "compilation_config": {"max_cudagraph_capture_size": 2048},
        "gpu_memory_utilization": 0.5,
    }
    asked = [Request(str(i), "x", tuple(range(256))) for i in range(40)]
    sampling: Any = sampler.sample(iter(asked), SETTINGS)
    next(sampling)
    assert sampler.llm.llm_engine.most <= 2 * 2048 + 64
    sampling.close()
    assert sampler.llm.llm_engine.aborted  # the engine is free for the next call


def test_a_prompt_that_is_too_long_is_named_before_anything_is_sampled(made):
    sampler = VllmSampler("m")
    asked = [Request("a", "x", (0,)), Request("b", "y" * 100, (0,))]
    with pytest.raises(ValueError, match=r"problem 'b' has a prompt of 100 tokens; .* takes 100"):
        next(iter(sampler.sample(asked, SETTINGS)))
    assert sampler.llm.llm_engine.most == 0


def test_temperature_zero_asks_once_and_gives_every_sample(made):
    asked = [Request("a", "x", (0, 1, 2))]
    found = list(VllmSampler("m").sample(asked, Sampling(temperature=0.0, chat=False)))
    assert [each.sample for each in found] == [0, 1, 2]
    assert {each.text for each in found} == {" None None"}


def test_other_weights_take_the_place_of_those_that_are_there(made):
    sampler = VllmSampler("m")
    engine, loaded, forgets, steps = sampler.llm, [], [False, True], []
    model = SimpleNamespace(load_weights=lambda pairs: loaded.extend(pairs))
    engine.apply_model = lambda function: [function(model)]
    engine.reset_prefix_cache = lambda: forgets.pop(0) if forgets else False
    engine.llm_engine.step = lambda: steps.append(1)  # a batch of ended requests was under way
    sampler.load((name, name.upper()) for name in ("a", "b"))
    assert loaded == [("a", "A"), ("b", "B")]
    assert steps == [1]
    with pytest.raises(RuntimeError, match="still caches prompts"):  # it was sampling
        sampler.load([])


def test_the_tokens_come_with_the_text(made):
    for done in VllmSampler("m").sample([Request("a", "xy", (0, 1))], SETTINGS):
        assert done.ids is not None
        assert len(done.ids) == done.tokens
        assert Letters().decode(done.ids, True, False) == done.text


def test_without_seeds_every_start_draws_other_numbers(made):
    sampler = VllmSampler("m")
    (found,) = sampler.sample([Request("a", "x", (0,))], SETTINGS)
    assert (found.text, found.logprob) == (" None None", None)
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


def test_a_gguf_file_is_unpacked_for_it(made, tmp_path):
    write_gguf(tmp_path / "tiny.gguf", *tiny_model())
    sampler = VllmSampler(str(tmp_path / "tiny.gguf"))
    read, _ = load(made[0]["model"])
    assert read.config.hidden_size == 16
    del sampler
    assert not Path(made[0]["model"]).exists()


def test_without_vllm_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'maxk\[vllm\]'"):
        make("m", "vllm")
    assert choose() == "transformers"
