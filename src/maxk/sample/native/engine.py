"""Experimental. Continuous batching with transformers models, on the CPU or one GPU.

A prompt is read once for all its samples; where there are many, they use one copy of its cache.
Rows leave the batch when they end and the next ones take their slots, so that no row waits for the
longest one. Prompts are sampled by length, longest first, so that rows in the batch have about as
many positions.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from maxk.records import Completion
from maxk.sample.base import Request, Sampling, prompt_ids, stream_of, text_of
from maxk.sample.models import load
from maxk.sample.native.batch import Ended, Rows
from maxk.sample.native.draw import draw
from maxk.sample.native.graphs import Steps, kernels_there
from maxk.sample.native.slots import KeysValues, Slots, next_logits, read, ready

_CPU_BATCH, _GPU_BATCH, _GRAPH_BATCH = 128, 512, 2048
_SHARE = 32  # samples of a prompt from which on it is not copied; a product of matrices each
_MEMORY = 0.6  # of what is free on a GPU, for the slots
_READ, _TOGETHER = 8192, 32  # tokens of prompts, and prompts, that are read at once
_SHORTEST = 256  # places of the smallest slots; the others have twice as many each


@dataclass
class _Prompt:
    """A request that waits: its tokens, and once it was read its cache and its next logits."""

    request: Request
    ids: list[int]
    limit: int  # tokens that a completion may have
    shared: bool  # its samples look at one copy of it
    waiting: Iterator[int] = field(init=False)
    cache: KeysValues | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.waiting = iter(self.request.samples)

    @property
    def longest(self) -> int:
        """Places that it takes with a completion."""
        return len(self.ids) + self.limit


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
                    yield from _Batch(self, some, settings).completions()

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

    def _classes(self, prompts: list[_Prompt]) -> Iterator[list[_Prompt]]:
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

    def _prompt(self, request: Request, settings: Sampling) -> _Prompt:
        ids = prompt_ids(self.tokenizer, request.prompt, settings.chat)
        positions = getattr(self.model.config, "max_position_embeddings", None) or len(ids) + 2**31
        limit = min(settings.max_tokens, positions - len(ids))
        if not ids or limit < 1:
            raise ValueError(
                f"the prompt of {request.problem} has {len(ids)} tokens and the model "
                f"{positions} positions; leave the problem out or use another model"
            )
        shared = len(request.samples) >= _SHARE and not self.graphs
        return _Prompt(request, ids, limit, shared)


class _Batch:
    """The rows that are being sampled."""

    def __init__(
        self, sampler: TransformersSampler, prompts: list[_Prompt], settings: Sampling
    ) -> None:
        self.model, self.tokenizer, self.settings = sampler.model, sampler.tokenizer, settings
        self.device = sampler.model.device
        self.ends = np.array(sorted(end_tokens(sampler.model, sampler.tokenizer)), np.int64)
        self.prompts = deque(prompts)
        longest = max(prompt.longest for prompt in prompts)
        self.size = min(sampler.rows_at_once(longest), samples_of(prompts))
        self.rows = Rows(self.size, max(prompt.limit for prompt in prompts))
        self.recorded = sampler.steps(self.size, longest, settings) if sampler.graphs else None
        self.slots = Slots(self.size) if self.recorded is None else self.recorded.slots

    def completions(self) -> Iterator[Completion]:
        drawn: torch.Tensor | None = None
        while True:
            ended = [] if drawn is None else self.extend(0, drawn)
            # A few at a time: to admit rows costs about as much as to sample a token.
            free = self.size - len(self.rows)
            if self.prompts and free >= max(1, self.size // 16):
                ended += self.admit(free)
            drawn = self.step() if len(self.rows) else None
            for one in ended:  # while a GPU makes the next tokens
                yield self.completion(one)
            if drawn is None and not self.prompts:
                return

    @torch.inference_mode()
    def admit(self, free: int) -> list[Ended]:
        """Fill the free slots and draw the first token of the new rows."""
        first = len(self.rows)
        firsts: list[torch.Tensor] = []
        while self.prompts and free > 0:
            prompt = self.prompts[0]
            samples = list(islice(prompt.waiting, free))
            if not samples:
                prompt.logits = None
                prompt.cache = prompt.cache if prompt.shared else None
                self.prompts.popleft()
                continue
            if prompt.cache is None:
                self.read()
            assert prompt.cache is not None
            assert prompt.logits is not None
            start, length = len(self.rows), len(prompt.ids)
            for sample in samples:
                uniforms = self.stream(prompt, sample)
                self.rows.add(prompt, sample, uniforms, length, 0 if prompt.shared else length)
            self.slots.make(prompt.cache)
            if not prompt.shared:
                self.slots.fill(prompt.cache, start, len(self.rows))
            firsts.append(prompt.logits.expand(len(samples), -1))
            free -= len(samples)
        if not firsts:
            return []
        ended = self.extend(first, self.draw(first, torch.cat(firsts)))
        self.group()
        return ended

    def group(self) -> None:
        """Tell the slots which rows share which prompt."""
        if self.recorded is not None:
            return
        rows_of: dict[int, list[int]] = {}
        for i, prompt in enumerate(self.rows.prompts):
            if prompt.shared:
                rows_of.setdefault(id(prompt), []).append(i)
        self.slots.shared = []
        for rows in rows_of.values():
            cache = self.rows.prompts[rows[0]].cache
            assert cache is not None
            together = rows[-1] - rows[0] == len(rows) - 1  # as a slice they need no copy
            of = (
                slice(rows[0], rows[-1] + 1) if together else torch.tensor(rows, device=self.device)
            )
            self.slots.shared.append((cache, of))

    def stream(self, prompt: _Prompt, sample: int) -> np.ndarray:
        key = stream_of(self.settings.seed, prompt.request.problem, sample)
        return np.random.Generator(np.random.Philox(key=key)).random(prompt.limit)

    def read(self) -> None:
        """Read the next prompt; with graphs, several side by side.

        Shorter ones are padded at the end, which those before it do not see.
        """
        prompts = [self.prompts[0]]
        for prompt in islice(self.prompts, 1, None) if self.recorded is not None else ():
            if len(prompts) == _TOGETHER or (len(prompts) + 1) * len(prompts[0].ids) > _READ:
                break
            prompts.append(prompt)
        lengths = [len(prompt.ids) for prompt in prompts]
        ids = torch.zeros(len(prompts), max(lengths), dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : lengths[row]] = torch.tensor(prompt.ids)
        ends = sorted(set(lengths))
        cache = DynamicCache()
        out = self.model(
            input_ids=ids.to(self.device),
            past_key_values=cache,
            logits_to_keep=torch.tensor(ends, device=self.device) - 1,
        )
        for row, prompt in enumerate(prompts):
            prompt.cache = read(cache, row, lengths[row])
            prompt.logits = out.logits[row : row + 1, ends.index(lengths[row])]

    @torch.inference_mode()
    def step(self) -> torch.Tensor:
        """One more token for every row, and its log-probability and entropy: [3, rows]."""
        last_3B = self.rows.last()
        if self.recorded is not None:
            return self.recorded(last_3B, self.rows.next_uniforms(0))
        tokens_B, positions_B = torch.from_numpy(last_3B[:2]).to(self.device)
        mask = self.slots.next(torch.from_numpy(last_3B[2]))
        return self.draw(0, next_logits(self.model, self.slots, tokens_B, positions_B, mask))

    def draw(self, first: int, logits_BV: torch.Tensor) -> torch.Tensor:
        """The same for the rows from the first on, whose logits these are."""
        uniforms_B = torch.from_numpy(self.rows.next_uniforms(first)).to(self.device)
        drawn = draw(logits_BV, uniforms_B, self.settings.temperature, self.settings.top_p)
        return torch.stack([each.double() for each in drawn])

    @torch.inference_mode()
    def extend(self, first: int, drawn_3B: torch.Tensor) -> list[Ended]:
        """What was drawn to the rows from the first on; those that have ended are taken out."""
        tokens_B, logprobs_B, entropies_B = drawn_3B.cpu().numpy()
        tokens_B = tokens_B.astype(np.int64)
        done = self.rows.extend(first, tokens_B, logprobs_B, entropies_B, self.ends)
        if not done:
            return []
        ended = [self.rows.ended(row) for row in done]
        sources, targets = self.rows.remove(done)
        if targets:
            used = int(self.rows.last()[2][targets].max())
            self.slots.move(sources, targets, used)
        self.group()
        return ended

    def completion(self, one: Ended) -> Completion:
        prompt, ids = one.prompt, one.ids
        stopped = ids[-1] in self.ends
        return Completion(
            prompt.request.problem,
            one.sample,
            text_of(self.tokenizer, prompt.ids, ids[:-1] if stopped else ids),
            len(ids),
            "stop" if stopped else "length",
            one.logprob,
            one.entropy / len(ids),
            tuple(ids),
        )


def end_tokens(model: PreTrainedModel, tokenizer: Any) -> set[int]:
    """The tokens that end a completion."""
    generation = getattr(model, "generation_config", None)
    ends = set()
    for ids in (getattr(generation, "eos_token_id", None), tokenizer.eos_token_id):
        ends |= set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    return ends


def samples_of(prompts: list[_Prompt]) -> int:
    return sum(len(prompt.request.samples) for prompt in prompts)


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
