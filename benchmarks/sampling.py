"""Tokens a second: maxk's transformers back end beside `model.generate`, on the CPU.

    .venv/bin/python benchmarks/sampling.py

The model is a Llama of about 15 million random weights; its prompts are random tokens. Three ways
to draw n completions of each prompt at temperature 1 from the whole vocabulary:

    generate     model.generate(do_sample=True, num_return_sequences=n), prompt after prompt, as one
                 would write it
    batched      the same with all prompts in one call, padded on the left
    maxk         maxk.sample, which also gives log-probabilities and entropies

and two kinds of model: one that never ends by itself, so that every row has the same length, and
one that ends after 64 tokens on average, as answers do. Only tokens up to the end of a completion
are counted. The ways take turns; a ratio is the median over the rounds of two rates of the same
round, since a machine's speed wanders. Seconds are the process's own, on one thread, so that what
else runs on the machine counts less.
"""

import argparse
import math
import os
import statistics
import time
from types import SimpleNamespace
from typing import Any, cast

os.environ["OMP_NUM_THREADS"] = "1"  # OpenBLAS, without MKL, does not listen to torch

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

from maxk.sample import Request, Sampling
from maxk.sample.native.engine import TransformersSampler

VOCABULARY, END = 16_384, 1


class Numbers:
    """In the place of a tokenizer: a text is the numbers of its tokens."""

    eos_token_id = END

    def __call__(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[int(word) for word in text.split()])

    def decode(self, ids: list[int], **_: object) -> str:
        return " ".join(map(str, ids))


def make_model(mean_length: float | None) -> LlamaForCausalLM:
    """Random weights; with `mean_length`, an end token of probability 1 / mean_length."""
    set_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=320,
            intermediate_size=864,
            num_hidden_layers=8,
            num_attention_heads=10,
            num_key_value_heads=5,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=END,
            bos_token_id=None,
        )
    ).eval()
    # Logits of random weights are all but equal, so what is added says how likely the end is.
    share = 1 / mean_length if mean_length else 0.0
    bias = math.log(share / (1 - share) * VOCABULARY) if mean_length else -1e9

    def ending(_module: object, _inputs: object, logits: torch.Tensor) -> torch.Tensor:
        logits[..., END] += bias
        return logits

    model.lm_head.register_forward_hook(ending)
    return model


def generate(model: LlamaForCausalLM, prompts: list[list[int]], n: int, tokens: int) -> int:
    """One call with all the prompts given; gives the number of tokens."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    out = cast(Any, model).generate(
        input_ids=ids,
        attention_mask=(ids != 0).long(),
        do_sample=True,
        top_k=0,
        num_return_sequences=n,
        max_new_tokens=tokens,
    )
    new = torch.as_tensor(out)[:, longest:]
    ended = (new == END).long().cumsum(1)
    return int((ended - (new == END).long() == 0).sum())  # the end token is the last that counts


def maxk(model: LlamaForCausalLM, prompts: list[list[int]], n: int, tokens: int) -> int:
    requests = [
        Request(str(i), " ".join(map(str, prompt)), tuple(range(n)))
        for i, prompt in enumerate(prompts)
    ]
    settings = Sampling(max_tokens=tokens, chat=False)
    done = TransformersSampler(model, Numbers()).sample(requests, settings)
    return sum(completion.tokens or 0 for completion in done)


def main() -> None:
    parser = argparse.ArgumentParser(description="tokens a second, beside model.generate")
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    n, tokens = arguments.n, arguments.tokens
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linspace(100, 200, arguments.prompts).int().tolist()
    prompts = [
        torch.randint(3, VOCABULARY, (length,), generator=generator).tolist() for length in lengths
    ]
    ways = {
        "generate": lambda model: sum(generate(model, [p], n, tokens) for p in prompts),
        "batched": lambda model: generate(model, prompts, n, tokens),
        "maxk": lambda model: maxk(model, prompts, n, tokens),
    }
    print(f"{len(prompts)} prompts of {lengths} tokens, n = {n}, at most {tokens} new tokens,")
    print(f"one thread, torch {torch.__version__}, transformers {transformers.__version__}")
    for mean_length in (None, 64.0):
        model = make_model(mean_length)
        size = sum(weights.numel() for weights in model.parameters()) / 1e6
        what = "never ends" if mean_length is None else f"ends after {mean_length:.0f} tokens"
        print(f"\na model of {size:.1f}M weights that {what}")
        generate(model, prompts[:1], 2, 4)  # the first call of anything is slow
        maxk(model, prompts[:1], 2, 4)
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                started = time.process_time()
                count = way(model)
                rates[name].append(count / (time.process_time() - started))
        for name, found in rates.items():
            pairs = zip(rates["maxk"], found, strict=True)
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            rate = statistics.median(found)
            print(f"  {name:<10}{rate:8.0f} tokens/s   maxk is {ratio:4.1f} times that", flush=True)


if __name__ == "__main__":
    main()
