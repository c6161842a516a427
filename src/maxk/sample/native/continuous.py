"""Experimental. Continuous batching: rows leave when they end, and others take their slots.

No row waits for the longest one. A prompt is read once for all its samples; where there are many,
they use one copy of its cache.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from maxk.records import Completion
from maxk.sample.base import Request, Sampling, stream_of, text_of
from maxk.sample.native.batch import Ended, Rows
from maxk.sample.native.draw import draw
from maxk.sample.native.graphs import Steps
from maxk.sample.native.slots import KeysValues, Slots, next_logits, read

_READ, _TOGETHER = 8192, 32  # tokens of prompts, and prompts, that are read at once


@dataclass
class Prompt:
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


class Batch:
    """The rows that are being sampled, at most `size` at once. recorded: the steps of a GPU."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any,
        prompts: list[Prompt],
        settings: Sampling,
        size: int,
        recorded: Steps | None,
    ) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.device = model.device
        self.ends = np.array(sorted(end_tokens(model, tokenizer)), np.int64)
        self.prompts = deque(prompts)
        self.size = size
        self.rows = Rows(size, max(prompt.limit for prompt in prompts))
        self.recorded = recorded
        self.slots = Slots(size) if recorded is None else recorded.slots

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

    def stream(self, prompt: Prompt, sample: int) -> np.ndarray:
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


def samples_of(prompts: list[Prompt]) -> int:
    return sum(len(prompt.request.samples) for prompt in prompts)


def end_tokens(model: PreTrainedModel, tokenizer: Any) -> set[int]:
    """The tokens that end a completion."""
    generation = getattr(model, "generation_config", None)
    ends = set()
    for ids in (getattr(generation, "eos_token_id", None), tokenizer.eos_token_id):
        ends |= set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    return ends
