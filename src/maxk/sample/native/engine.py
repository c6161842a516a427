"""Experimental. Sampling with transformers models, on the CPU or one GPU.

The sampler loads the model, chooses how many rows fit into a batch, and which prompts are sampled
together: by length, longest first, so that rows in a batch have about as many positions. The loop
over tokens is in continuous.py.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import torch
from transformers import PreTrainedModel

from maxk.records import Completion
from maxk.sample.base import Request, Sampling, prompt_ids
from maxk.sample.models import load
from maxk.sample.native.continuous import Batch, Prompt, samples_of
from maxk.sample.native.graphs import Steps, kernels_there
from maxk.sample.native.slots import Slots, ready

_CPU_BATCH, _GPU_BATCH, _GRAPH_BATCH = 128, 512, 2048
_SHARE = 32  # samples of a prompt from which on it is not copied; a product of matrices each
_MEMORY = 0.6  # of what is free on a GPU, for the slots
_SHORTEST = 256  # places of the smallest slots; the others have twice as many each


class TransformersSampler:
    """A model of the transformers library, by name or as it is.

    model: a folder, a name on the hub, a LoRA adapter, a GGUF file, or a model; then with its
    tokenizer. batch: rows at a time; default, 128 on a CPU and 512 on a GPU, or as many as fit.
    graphs: on a GPU, record the model's steps and repeat them, which for a small model saves most
    of the time; not for models that decide on the CPU what comes next. kernels: with Triton's for
    attention and the draw, if there is Triton, which needs a C compiler.
    """

    def __init__(
        self,
        model: str | PreTrainedModel,
        tokenizer: Any = None,
        *,
        batch: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        graphs: bool = False,
        kernels: bool = True,
    ) -> None:
        if batch is not None and batch < 1:
            raise ValueError(f"batch={batch} must be at least 1")
        self.batch, self.graphs, self.kernels = batch, graphs, kernels
        self.kept: tuple[Any, Steps] | None = None
        self.model: PreTrainedModel
        if isinstance(model, str):
            self.model, self.tokenizer = load(model, device=device, dtype=dtype)
        elif tokenizer is None:
            raise ValueError("tokenizer=None; a model that is given as it is needs its tokenizer")
        else:
            self.model, self.tokenizer = model, tokenizer
        if graphs and self.model.device.type != "cuda":
            raise ValueError(f"graphs=True needs a GPU; the model is on {self.model.device.type}")

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        """Every sample of every request, each as soon as it is done."""
        prompts = [self._prompt(request, settings) for request in requests if request.samples]
        prompts.sort(key=lambda prompt: len(prompt.ids), reverse=True)
        if prompts:
            refuse_other_layers(self.model.config, max(prompt.longest for prompt in prompts))
            with ready(self.model):
                for some in self._classes(prompts):
                    yield from self._batch(some, settings).completions()

    @torch.no_grad()
    def load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Sample from other weights from now on: names and tensors of a model like this one.

        They are copied into those that are there, whatever the dtype of either.
        """
        there = dict(self.model.named_parameters())
        for name, tensor in weights:
            if name not in there:
                raise ValueError(f"the model that samples has no weights {name!r}")
            there.pop(name).copy_(tensor)
        if there:
            raise ValueError(f"the weights {', '.join(sorted(there))} were not given")

    def _classes(self, prompts: list[Prompt]) -> Iterator[list[Prompt]]:
        """Prompts that are sampled together: by length, where slots do not grow.

        All of them if there are slots of the longest for all, in no more memory than a full batch
        of the shortest takes.
        """
        lengths = [prompt.longest for prompt in prompts]
        shortest, longest = min(lengths), max(lengths)
        count, rows = samples_of(prompts), self.rows_at_once
        if not self.graphs or (
            count <= rows(longest)
            and count * places_for(longest) <= rows(shortest) * places_for(shortest)
        ):
            yield prompts
            return
        for _, some in groupby(prompts, lambda prompt: places_for(prompt.longest)):
            yield list(some)

    def _batch(self, prompts: list[Prompt], settings: Sampling) -> Batch:
        longest = max(prompt.longest for prompt in prompts)
        size = min(self.rows_at_once(longest), samples_of(prompts))
        recorded = self.steps(size, longest, settings) if self.graphs else None
        return Batch(self.model, self.tokenizer, prompts, settings, size, recorded)

    def rows_at_once(self, longest: int) -> int:
        return self.batch or fitting(self.model, longest, self.graphs)

    def steps(self, size: int, longest: int, settings: Sampling) -> Steps:
        """Recorded steps and their slots: those of the last time, if they can be used again."""
        weights = tuple(each.data_ptr() for each in self.model.parameters())
        key = (size, settings.temperature, settings.top_p, weights)
        kept = self.kept
        if kept is None or kept[0] != key or (kept[1].slots.places or 0) < longest:
            self.kept = kept = None  # free them first, for whoever else is on the GPU
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            slots = Slots(size, places_for(longest))
            self.kept = kept = (
                key,
                Steps(
                    *(self.model, slots, settings),
                    kernels=kernels_there() if self.kernels else None,
                ),
            )
        return kept[1]

    def _prompt(self, request: Request, settings: Sampling) -> Prompt:
        ids = prompt_ids(self.tokenizer, request.prompt, settings.chat)
        positions = getattr(self.model.config, "max_position_embeddings", None) or len(ids) + 2**31
        limit = min(settings.max_tokens, positions - len(ids))
        if not ids or limit < 1:
            raise ValueError(
                f"the prompt of {request.problem} has {len(ids)} tokens and the model "
                f"{positions} positions; leave the problem out, or use another model"
            )
        shared = len(request.samples) >= _SHARE and not self.graphs
        return Prompt(request, ids, limit, shared)


def places_for(length: int) -> int:
    """The places of the slots that so many fit into: few sizes, so that few graphs are made."""
    places = _SHORTEST
    while places < length:
        places *= 2
    return places


def fitting(model: PreTrainedModel, longest: int, graphs: bool) -> int:
    """How many rows at a time."""
    if model.device.type != "cuda":
        return _CPU_BATCH
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    places = places_for(longest) if graphs else longest
    row = 2 * config.num_hidden_layers * heads * width * places * model.dtype.itemsize
    free, _ = torch.cuda.mem_get_info(model.device)
    return max(1, min(_GRAPH_BATCH if graphs else _GPU_BATCH, int(_MEMORY * free / row)))


def refuse_other_layers(config: Any, length: int) -> None:
    """ValueError for models whose layers do not all look at everything before."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    if kinds == {"full_attention"} and not getattr(config, "use_sliding_window", True):
        window = None
    other = kinds - {"full_attention", "sliding_attention"}
    if other or (window is not None and window < length):
        what = ", ".join(sorted(other)) or f"a sliding window of {window} tokens"
        raise ValueError(f"this model has {what}, which this back end has not; use vllm")
