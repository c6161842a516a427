"""The transformers back end: right distribution, right figures, the same in any batch."""

import copy
import itertools
import math
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from scipy import stats
from tokenizers import Tokenizer, decoders, models
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from maxk.sample import Completion, Request, Sampling
from maxk.sample.base import text_of
from maxk.sample.models import load, unpack
from maxk.sample.native import slots
from maxk.sample.native.engine import TransformersSampler, refuse_other_layers
from tests.tiny import tiny_model, write_gguf

PROMPTS = {"a": "print(1)", "b": "abc def", "c": "x = 3 * (4 + 5)\n", "d": "z"}
PLAIN = Sampling(max_tokens=24, chat=False, seed=3)


@pytest.fixture(scope="module")
def tiny():
    return tiny_model()


def ending_model(share: float = 0.1):
    """The tiny model, ending about once in 1 / share tokens; by itself it hardly does."""
    model, tokenizer = tiny_model()
    bias = math.log(share / (1 - share) * model.config.vocab_size)

    def ending(_module, _inputs, logits):
        logits[..., tokenizer.eos_token_id] += bias
        return logits

    model.lm_head.register_forward_hook(ending)
    return model, tokenizer


def requests(n: int, problems="abcd") -> list[Request]:
    return [Request(name, PROMPTS[name], tuple(range(n))) for name in problems]


def drawn(pair, asked, settings=PLAIN, **options) -> dict[tuple[str, int], Completion]:
    found = list(TransformersSampler(*pair, **options).sample(asked, settings))
    by_sample = {(each.problem, each.sample): each for each in found}
    assert len(by_sample) == len(found)
    return by_sample


def test_every_sample_that_is_asked_for_comes_once(tiny):
    asked = [Request("a", "x", (0, 2, 5)), Request("b", "yy", ()), Request("c", "z", (9,))]
    assert set(drawn(tiny, asked)) == {("a", 0), ("a", 2), ("a", 5), ("c", 9)}


@pytest.mark.parametrize("n", [300, 20])  # prompts that are shared, and that are copied
def test_sequences_are_distributed_as_the_model_says(tiny, n):
    """Two tokens: all pairs against their exact probabilities. Seed fixed, so it cannot flake."""
    model, tokenizer = tiny
    settings = Sampling(max_tokens=2, chat=False, seed=11)
    count = 6000
    asked = [Request(f"{i}", PROMPTS["b"], tuple(range(n))) for i in range(count // n)]
    found = TransformersSampler(model, tokenizer, batch=600).sample(asked, settings)
    texts = [completion.text for completion in found]
    ids = torch.tensor([tokenizer(PROMPTS["b"]).input_ids])
    words = range(len(tokenizer))
    with torch.no_grad():
        first = model(ids).logits[0, -1].softmax(-1)
        longer = torch.cat([ids.expand(len(words), -1), torch.tensor(words)[:, None]], dim=1)
        second = model(longer).logits[:, -1].softmax(-1)
    # What is left out in the text (special tokens) or looks the same falls into one bin.
    expected: dict[str, float] = {}
    for i, j in itertools.product(words, words):
        stop = i == tokenizer.eos_token_id
        text = tokenizer.decode([i] if stop else [i, j], skip_special_tokens=True)
        expected[text] = expected.get(text, 0.0) + float(first[i] * second[i, j])
    # Every pair is rare; bins of about 60 expected make the chi-square exact enough.
    bins, seen, mass = [], dict.fromkeys(expected, 0), 0.0
    for text in texts:
        seen[text] += 1
    current = [0.0, 0]
    for text, probability in expected.items():
        current = [current[0] + probability * len(texts), current[1] + seen[text]]
        mass += probability
        if current[0] >= 60:
            bins.append(current)
            current = [0.0, 0]
    bins[-1] = [bins[-1][0] + current[0], bins[-1][1] + current[1]]
    assert mass == pytest.approx(1, abs=1e-5)
    statistic = sum((got - wanted) ** 2 / wanted for wanted, got in bins)
    # 5 sigma: a right sampler fails for 1 seed in 3.5 million.
    assert stats.chi2.sf(statistic, len(bins) - 1) > stats.norm.sf(5)
    assert len(bins) > 50


def test_samples_of_a_problem_and_of_problems_differ_and_seeds_matter(tiny):
    asked = [Request(name, "same", tuple(range(8))) for name in "ab"]
    texts = [each.text for each in drawn(tiny, asked).values()]
    assert len(set(texts)) == 16
    other = drawn(tiny, asked, Sampling(max_tokens=24, chat=False, seed=4))
    assert {each.text for each in other.values()}.isdisjoint(texts)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.9)])
def test_logprob_and_entropy_are_those_of_a_forward_pass_at_temperature_1(temperature, top_p):
    model, tokenizer = ending_model()
    settings = Sampling(temperature, top_p, max_tokens=24, chat=False)
    for (problem, _), completion in drawn((model, tokenizer), requests(3), settings).items():
        prompt = tokenizer(PROMPTS[problem]).input_ids
        words = tokenizer(completion.text).input_ids
        if completion.finish == "stop":
            words.append(tokenizer.eos_token_id)
        if len(words) != completion.tokens:
            continue  # a special token was drawn, which the text does not show
        with torch.no_grad():
            logits = model(torch.tensor([prompt + words])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.double().log_softmax(-1)
        total = logprobs.gather(-1, torch.tensor(words)[:, None]).sum()
        assert completion.logprob == pytest.approx(float(total), abs=1e-4)
        entropy = torch.special.entr(logprobs.exp()).sum(-1).mean()
        assert completion.entropy == pytest.approx(float(entropy), abs=1e-5)


@pytest.mark.parametrize("n", [6, 40])  # prompts that are copied, and that are shared
def test_a_sample_is_the_same_alone_and_in_any_batch(n):
    model, tokenizer = ending_model()
    whole = drawn((model, tokenizer), requests(n), batch=4 * n)
    assert len({each.tokens for each in whole.values()}) > 5  # rows end at different times
    for batch in (7, 3 * n, *([1] if n == 6 else [])):  # forty one by one take seconds
        other = drawn((model, tokenizer), requests(n, "db"), batch=batch)
        for key, completion in other.items():
            assert completion.text == whole[key].text
            assert completion.logprob == pytest.approx(whole[key].logprob, abs=1e-4)
    asked = [Request("b", PROMPTS["b"], (n - 1,)), Request("c", PROMPTS["c"], (1, 3))]
    for key, completion in drawn((model, tokenizer), asked).items():
        assert completion.text == whole[key].text


def test_temperature_zero_is_generate_without_sampling(tiny):
    model, tokenizer = tiny
    greedy = Sampling(temperature=0.0, max_tokens=20, chat=False)
    for (problem, _), completion in drawn((model, tokenizer), requests(2), greedy).items():
        ids = torch.tensor([tokenizer(PROMPTS[problem]).input_ids])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20
        )
        text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        assert completion.text == text


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "gemma", "mistral", "gpt_neox", "starcoder2"])
@pytest.mark.parametrize("fusing", [True, False])
def test_other_architectures_give_what_generate_gives(tiny, kind, fusing, monkeypatch):
    monkeypatch.setattr(slots, "fusing", lambda _device: fusing)
    _, tokenizer = tiny
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(tokenizer)}
    ends = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **ends)).eval()
    for weights in model.parameters():  # large enough that what comes before matters
        torch.nn.init.normal_(weights, std=0.3)
    ids = torch.tensor([tokenizer(PROMPTS["c"]).input_ids])
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=16)
    text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    greedy = Sampling(temperature=0.0, max_tokens=16, chat=False)
    for n in (2, 40):
        found = drawn((model, tokenizer), requests(n), greedy)
        assert {each.text for (problem, _), each in found.items() if problem == "c"} == {text}


def test_it_stops_when_all_have_ended():
    model, tokenizer = ending_model(share=0.5)
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    model.register_forward_hook(count)
    found = drawn((model, tokenizer), requests(4), Sampling(max_tokens=100, chat=False))
    longest = max(each.tokens or 0 for each in found.values())
    assert longest < 30
    assert calls == 4 + longest - 1  # the prompts, and a step for every token but the first
    assert {each.finish for each in found.values()} == {"stop"}


def test_a_prompt_is_read_once_for_all_its_samples(tiny):
    model, tokenizer = tiny
    lengths = []
    hook = model.model.register_forward_pre_hook(
        lambda _module, _args, given: lengths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    drawn((model, tokenizer), requests(50), batch=16)
    hook.remove()
    assert sorted(length for length in lengths if length > 1) == [7, 8, 16]
    assert lengths.count(1) > 20


def test_the_model_is_left_as_it_was(tiny):
    model, tokenizer = tiny
    model.train()
    before = model.config._attn_implementation
    drawn((model, tokenizer), requests(1))
    assert model.training
    assert model.config._attn_implementation == before
    assert torch.is_grad_enabled()
    sampling: Any = TransformersSampler(model, tokenizer).sample(requests(2), PLAIN)
    next(sampling)
    assert not torch.is_inference_mode_enabled()  # not even between two completions
    sampling.close()
    assert model.config._attn_implementation == before


def save(folder, model, tokenizer) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_an_adapter_is_its_merged_model_and_not_its_base(tmp_path):
    base = save(tmp_path / "base", *tiny_model())
    torch.manual_seed(0)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted = get_peft_model(tiny_model()[0], config)
    adapted.peft_config["default"].base_model_name_or_path = base
    adapted.save_pretrained(str(tmp_path / "adapter"))
    merged = save(tmp_path / "merged", adapted.merge_and_unload(), tiny_model()[1])

    texts = {}
    for name in (base, str(tmp_path / "adapter"), merged):
        found = TransformersSampler(name).sample(requests(3), PLAIN)
        texts[name] = {(each.problem, each.sample): each.text for each in found}
    assert texts[str(tmp_path / "adapter")] == texts[merged]
    assert texts[merged] != texts[base]


def test_an_adapter_on_the_hub_is_known_by_its_name(tmp_path):
    """From the hub's cache, as a download leaves it."""
    stored = tmp_path / "hub" / "models--some--lora"
    (stored / "snapshots" / "abc").mkdir(parents=True)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc")
    (stored / "snapshots" / "abc" / "adapter_config.json").write_text('{"r": 12}')
    program = """
from maxk.sample.models import adapter_of
print(adapter_of("some/lora"), adapter_of("some/model"), adapter_of("no/such.gguf"))
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'r': 12} None None\n"


def test_a_first_space_of_a_completion_stays():
    """As tokenizers made with SentencePiece would lose it."""
    plain = Tokenizer(models.WordLevel({"<unk>": 0, "▁def": 1, "▁": 2, "▁x": 3}, "<unk>"))
    plain.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain)
    assert tokenizer.decode([2, 2, 3]) == "  x"  # one space short
    assert text_of(tokenizer, [1], [2, 2, 3]) == "   x"
    assert text_of(tokenizer, [], [1]) == "def"


def test_the_chat_template_is_used_where_it_is_asked_for(tiny):
    model, tokenizer = tiny_model()
    ask = [Request("a", [{"role": "user", "content": "abc"}], (0,))]
    with pytest.raises(ValueError, match="chat=True and the tokenizer has no chat template"):
        list(TransformersSampler(model, tokenizer).sample(ask, Sampling()))
    tokenizer.chat_template = "({{ messages[0].content }})"
    chat = drawn((model, tokenizer), ask, Sampling(max_tokens=9))
    text = [Request("a", "(abc)", (0,))]
    plain = drawn((model, tokenizer), text, Sampling(max_tokens=9, chat=False))
    assert chat == plain


def test_a_prompt_that_does_not_fit_is_named(tiny):
    with pytest.raises(ValueError, match="the prompt of long has 130 tokens and the model 128"):
        drawn(tiny, [Request("long", "x" * 130, (0,))])
    (found,) = drawn(tiny, [Request("close", "x" * 120, (0,))]).values()
    assert (found.tokens, found.finish) == (8, "length")


def test_models_that_forget_are_refused(tiny):
    config = tiny[0].config
    refuse_other_layers(config, 1000)
    window = SimpleNamespace(sliding_window=64, layer_types=["sliding_attention"] * 2)
    refuse_other_layers(window, 64)
    with pytest.raises(ValueError, match="a sliding window of 64 tokens"):
        refuse_other_layers(window, 65)
    linear = SimpleNamespace(layer_types=["linear_attention", "full_attention"])
    with pytest.raises(ValueError, match="linear_attention"):
        refuse_other_layers(linear, 1)


def test_bfloat16_and_several_heads_sharing_keys_sample_too():
    model, tokenizer = tiny_model()
    config: Any = copy.deepcopy(model.config)
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = 4, 2, 4
    grouped: Any = type(model)(config)
    grouped.to(torch.bfloat16)
    assert len(drawn((grouped, tokenizer), requests(40))) == 160


def test_a_model_under_autocast_samples_too(tiny, monkeypatch):
    model, tokenizer = tiny  # as in training with bf16=True: weights in float32
    cast = torch.autocast("cpu", torch.bfloat16)(model.forward)
    monkeypatch.setattr(model, "forward", cast)
    settings = Sampling(temperature=0.0, max_tokens=6, chat=False)
    for samples in ((0,), tuple(range(40))):  # with the prompt in every row, and with one for all
        (first, *others) = TransformersSampler(model, tokenizer).sample(
            [Request("p", "print(", samples)], settings
        )
        ids = tokenizer("print(", return_tensors="pt").input_ids
        out = model(torch.cat([ids, torch.tensor([first.ids])], 1)).logits[0, ids.shape[1] - 1 :]
        drawn_ids = list(first.ids or ())
        gaps = out.max(-1).values[:-1] - out[range(len(drawn_ids)), drawn_ids]
        assert gaps.max() < 0.02  # the likeliest, up to rounding
        assert {each.ids for each in others} <= {first.ids}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 must be 0 or more"),
        ({"temperature": math.nan}, "temperature=nan"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0"),
        ({"max_tokens": 0}, "max_tokens=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be 0 or more"),
    ],
)
def test_a_bad_setting_is_named(changed, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**changed)


def test_a_gguf_file_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "model.gguf").touch()
    with pytest.raises(ImportError, match="pip install gguf"):
        load(str(tmp_path / "model.gguf"))


def test_a_gguf_file_is_the_model_that_was_written_into_it(tmp_path):
    model, tokenizer = tiny_model()
    write_gguf(tmp_path / "tiny.gguf", model, tokenizer)
    read, _ = load(str(tmp_path / "tiny.gguf"), device="cpu")
    assert drawn((read, tokenizer), requests(3)) == drawn((model, tokenizer), requests(3))


def test_an_unpacked_gguf_file_is_an_ordinary_model(tmp_path):
    model, tokenizer = tiny_model()
    write_gguf(tmp_path / "tiny.gguf", model, tokenizer)
    unpack(str(tmp_path / "tiny.gguf"), str(tmp_path / "unpacked"))
    read, words = load(str(tmp_path / "unpacked"), device="cpu")
    for name, weights in read.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name].bfloat16().float())
    assert words.convert_ids_to_tokens([5, 7]) == tokenizer.convert_ids_to_tokens([5, 7])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_what_a_cpu_draws():
    model: Any
    model, tokenizer = ending_model()
    on_cpu = drawn((model, tokenizer), requests(40))
    on_gpu = drawn((model.to("cuda"), tokenizer), requests(40))
    assert len(on_cpu) == len(on_gpu) == 160
    same = [key for key in on_cpu if on_cpu[key].text == on_gpu[key].text]
    assert len(same) >= 156  # a rounding may decide a draw
    for key in same:
        assert on_gpu[key].logprob == pytest.approx(on_cpu[key].logprob, abs=1e-3)
        assert on_gpu[key].entropy == pytest.approx(on_cpu[key].entropy, abs=1e-4)
