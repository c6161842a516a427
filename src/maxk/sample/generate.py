"""Replace `model.generate` by one of maxk's back ends, for code that calls it: TRL's trainers.

On a CPU maxk's own engine is several times as fast. On a GPU the back end can be
vLLM, with the weights of the model that is being trained.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from maxk.sample.base import Request, Sampler, Sampling
from maxk.sample.native.engine import TransformersSampler

_SUPPORTED: dict[str, Any] = {  # values of further options that these back ends support
    "top_k": (None, 0),
    "min_p": (None, 0.0),
    "typical_p": (None, 1.0),
    "repetition_penalty": (None, 1.0),
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "no_repeat_ngram_size": (None, 0),
    "min_new_tokens": (None, 0),
}


def replace_generate(
    model: Any,
    tokenizer: Any,
    sampler: Sampler | None = None,
    before: Callable[[], None] | None = None,
) -> None:
    """Replace `model.generate` for left-padded prompts with a generation_config.

    Equal prompts that follow each other are read once. The seed comes from torch's generator, so
    `set_seed` and a checkpoint's random state work as with the original.

    sampler: samples instead of the model itself, with its own copy of the weights; it must return
    tokens. before: called before every generation, for example to update those weights.
    """
    drawn = TransformersSampler(model, tokenizer) if sampler is None else sampler

    def generate(
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        generation_config: Any = None,
        **_: Any,
    ) -> Tensor:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        prompts = [row[used.bool()].tolist() for row, used in zip(input_ids, mask, strict=True)]
        requests = []
        for i, (prompt, equal) in enumerate(groupby(prompts)):
            requests.append(Request(str(i), prompt, tuple(range(len(list(equal))))))
        places = {
            place: row
            for row, place in enumerate((r.problem, i) for r in requests for i in r.samples)
        }
        if before is not None:
            before()
        longest = generation_config.max_new_tokens
        out = input_ids.new_full((len(prompts), longest), tokenizer.pad_token_id)
        for done in drawn.sample(requests, settings_of(generation_config)):
            assert done.ids is not None
            out[places[done.problem, done.sample], : len(done.ids)] = out.new_tensor(done.ids)
        return torch.cat([input_ids, out], dim=1)

    model.generate = generate


def settings_of(config: Any) -> Sampling:
    """The settings of a GenerationConfig; ValueError for options that maxk does not have."""
    for name, known in _SUPPORTED.items():
        if (asked := getattr(config, name, None)) not in known:
            raise ValueError(
                f'{name}={asked} is not supported by maxk\'s sampling; use model.sampler = "trl"'
            )
    return Sampling(
        temperature=config.temperature if config.do_sample else 0.0,
        top_p=1.0 if config.top_p is None else config.top_p,
        max_tokens=config.max_new_tokens,
        seed=int(torch.randint(2**31, ())),
        chat=False,
    )
