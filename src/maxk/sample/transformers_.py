"""Sampling with transformers, on the CPU or one GPU.

A prompt is read once for all its samples, and where there are many they share what was read. Rows
leave the batch as they end, and the next ones take their slots, so that no row waits for the
longest and the batch stays full. Prompts are taken by length, longest first, so that rows side by
side see about as many positions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from maxk.sample.base import Completion, Request, Settings, prompt_ids, stream_of, text_of
from maxk.sample.draw import draw
from maxk.sample.graphs import Steps
from maxk.sample.models import load
from maxk.sample.slots import Slots, ready

_CPU_BATCH, _GPU_BATCH = 128, 512
_SHARE = 32  # samples of a prompt from which on it is not copied; a product of matrices each
_MEMORY = 0.6  # of what is free on a GPU, for the slots


@dataclass
class _Prompt:
    """A request that waits: its tokens, and once it was read its cache and its next logits."""

    request: Request
    ids: list[int]
    limit: int  # tokens that a completion may have
    shared: bool  # its samples look at one copy of it
    waiting: Iterator[int] = field(init=False)
    cache: DynamicCache | None = None
    logits: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.waiting = iter(self.request.samples)


@dataclass
class _Row:
    """A sample in the making."""

    prompt: _Prompt
    sample: int
    uniforms: np.ndarray
    ids: list[int] = field(default_factory=list)
    logprob: float = 0.0
    entropy: float = 0.0  # summed over the tokens

    @property
    def position(self) -> int:
        """Of its last token."""
        return len(self.prompt.ids) + len(self.ids) - 1

    @property
    def place(self) -> int:
        """The same, in its slot."""
        return self.position - (len(self.prompt.ids) if self.prompt.shared else 0)


class TransformersSampler:
    """A model of the transformers library, by name or as it is.

    model: a folder, a name on the hub, a LoRA adapter, a GGUF file, or a model; then with its
    tokenizer. batch: rows at a time; default, 128 on a CPU and 512 on a GPU, or as many as fit.
    graphs: on a GPU, record the model's steps and repeat them, which for a small model saves most
    of the time; not for models that decide on the CPU what comes next.
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
    ) -> None:
        if batch is not None and batch < 1:
            raise ValueError(f"batch={batch} must be at least 1")
        self.batch, self.graphs = batch, graphs
        self.model: PreTrainedModel
        if isinstance(model, str):
            self.model, self.tokenizer = load(model, device=device, dtype=dtype)
        elif tokenizer is None:
            raise ValueError("tokenizer=None; a model that is given as it is needs its tokenizer")
        else:
            self.model, self.tokenizer = model, tokenizer
        if graphs and self.model.device.type != "cuda":
            raise ValueError(f"graphs=True needs a GPU; the model is on {self.model.device.type}")

    def sample(self, requests: Iterable[Request], settings: Settings) -> Iterator[Completion]:
        """Every sample of every request, each as soon as it is done."""
        prompts = [self._prompt(request, settings) for request in requests if request.samples]
        prompts.sort(key=lambda prompt: len(prompt.ids), reverse=True)
        if prompts:
            refuse_other_layers(self.model.config, max(len(p.ids) + p.limit for p in prompts))
            with ready(self.model):
                yield from _Batch(self, prompts, settings).completions()

    def _prompt(self, request: Request, settings: Settings) -> _Prompt:
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
        self, sampler: TransformersSampler, prompts: list[_Prompt], settings: Settings
    ) -> None:
        self.model, self.tokenizer, self.settings = sampler.model, sampler.tokenizer, settings
        self.device = sampler.model.device
        self.ends = end_tokens(sampler.model, sampler.tokenizer)
        self.prompts = iter(prompts)
        self.current = next(self.prompts, None)
        longest = max(len(prompt.ids) + prompt.limit for prompt in prompts)
        total = sum(len(prompt.request.samples) for prompt in prompts)
        self.size = min(sampler.batch or fitting(sampler.model, longest), total)
        self.slots = Slots(self.size)
        self.recorded = Steps(self.model, self.slots) if sampler.graphs else None
        self.rows: list[_Row] = []

    def completions(self) -> Iterator[Completion]:
        while True:
            # A few at a time: to admit rows costs about as much as to sample a token.
            free = self.size - len(self.rows)
            if self.current is not None and free >= max(1, self.size // 16):
                yield from self.admit(free)
            if self.rows:
                yield from self.step()
            elif self.current is None:
                return

    @torch.inference_mode()
    def admit(self, free: int) -> list[Completion]:
        """Fill the free slots and draw the first token of the new rows."""
        first = len(self.rows)
        firsts: list[torch.Tensor] = []
        while self.current is not None and free > 0:
            prompt = self.current
            samples = list(islice(prompt.waiting, free))
            if not samples:
                prompt.logits = None
                prompt.cache = prompt.cache if prompt.shared else None
                self.current = next(self.prompts, None)
                continue
            if prompt.cache is None:
                self.read(prompt)
            assert prompt.cache is not None
            assert prompt.logits is not None
            start = len(self.rows)
            self.rows += [_Row(prompt, sample, self.stream(prompt, sample)) for sample in samples]
            self.slots.make(prompt.cache)
            if not prompt.shared:
                self.slots.fill(prompt.cache, start, len(self.rows))
            firsts.append(prompt.logits.expand(len(samples), -1))
            free -= len(samples)
        if not firsts:
            return []
        completions = self.extend(first, torch.cat(firsts))
        self.group()
        return completions

    def group(self) -> None:
        """Tell the slots which rows share which prompt."""
        rows_of: dict[int, list[int]] = {}
        for i, row in enumerate(self.rows):
            if row.prompt.shared:
                rows_of.setdefault(id(row.prompt), []).append(i)
        self.slots.shared = []
        for rows in rows_of.values():
            cache = self.rows[rows[0]].prompt.cache
            assert cache is not None
            together = rows[-1] - rows[0] == len(rows) - 1  # as a slice they need no copy
            of = (
                slice(rows[0], rows[-1] + 1) if together else torch.tensor(rows, device=self.device)
            )
            self.slots.shared.append((cache, of))

    def stream(self, prompt: _Prompt, sample: int) -> np.ndarray:
        key = stream_of(self.settings.seed, prompt.request.problem, sample)
        return np.random.Generator(np.random.Philox(key=key)).random(prompt.limit)

    def read(self, prompt: _Prompt) -> None:
        prompt.cache = DynamicCache()
        ids = torch.tensor([prompt.ids], device=self.device)
        out = self.model(input_ids=ids, past_key_values=prompt.cache, logits_to_keep=1)
        prompt.logits = out.logits[:, -1]

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """One more token for every row."""
        last = [[row.ids[-1], row.position] for row in self.rows]
        logits_BV = self.next(last) if self.recorded is None else self.recorded(last)
        completions = self.extend(0, logits_BV)
        if completions:
            self.group()
        return completions

    def next(self, last: list[list[int]]) -> torch.Tensor:
        """Logits, from each row's last token and its position."""
        mask = self.slots.next([row.place for row in self.rows])
        last_B2 = torch.tensor(last, device=self.device)
        out = self.model(
            input_ids=last_B2[:, :1],
            position_ids=last_B2[:, 1:],
            attention_mask=mask,
            past_key_values=self.slots,
            maxk_slots=self.slots,
        )
        return out.logits[:, -1]

    def extend(self, first: int, logits_BV: torch.Tensor) -> list[Completion]:
        """Draw a token for every row from the first on; take out those that have ended."""
        rows = self.rows[first:]
        uniforms = [row.uniforms[len(row.ids)] for row in rows]
        uniforms_B = torch.tensor(uniforms, dtype=torch.float64, device=self.device)
        drawn = draw(logits_BV, uniforms_B, self.settings.temperature, self.settings.top_p)
        # One tensor, so that a GPU is waited for once.
        tokens, logprobs, entropies = torch.stack([each.double() for each in drawn]).tolist()
        done: list[int] = []
        for i, row in enumerate(rows):
            row.ids.append(int(tokens[i]))
            row.logprob += logprobs[i]
            row.entropy += entropies[i]
            if row.ids[-1] in self.ends or len(row.ids) == row.prompt.limit:
                done.append(first + i)
        completions = [self.completion(self.rows[i]) for i in done]
        self.remove(done)
        return completions

    def remove(self, done: list[int]) -> None:
        """The last rows take the place of those that are done."""
        kept = len(self.rows) - len(done)
        gone = set(done)
        targets = [i for i in done if i < kept]
        sources = [i for i in range(kept, len(self.rows)) if i not in gone]
        if targets:
            used = max(self.rows[i].place for i in sources)
            self.slots.move(sources, targets, used)
        for source, target in zip(sources, targets, strict=True):
            self.rows[target] = self.rows[source]
        del self.rows[kept:]

    def completion(self, row: _Row) -> Completion:
        stopped = row.ids[-1] in self.ends
        text = text_of(self.tokenizer, row.prompt.ids, row.ids[:-1] if stopped else row.ids)
        return Completion(
            row.prompt.request.problem,
            row.sample,
            text,
            len(row.ids),
            "stop" if stopped else "length",
            row.logprob,
            row.entropy / len(row.ids),
            tuple(row.ids),
        )


def end_tokens(model: PreTrainedModel, tokenizer: Any) -> set[int]:
    """The tokens that end a completion."""
    generation = getattr(model, "generation_config", None)
    ends = set()
    for ids in (getattr(generation, "eos_token_id", None), tokenizer.eos_token_id):
        ends |= set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    return ends


def fitting(model: PreTrainedModel, longest: int) -> int:
    """How many rows at a time."""
    if model.device.type != "cuda":
        return _CPU_BATCH
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    row = 2 * config.num_hidden_layers * heads * width * longest * model.dtype.itemsize
    free, _ = torch.cuda.mem_get_info(model.device)
    return max(1, min(_GPU_BATCH, int(_MEMORY * free / row)))


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
