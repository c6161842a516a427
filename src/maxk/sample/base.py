"""The interface of every back end: requests in, completions out as they finish.

The random stream of a sample depends only on the seed, the id of its problem and its own number. So
a run that was stopped, split into shards or batched in another way gives the same completions, as
far as the back end allows: up to rounding with transformers on one device; by the seed of each
request with vLLM and with servers that take a seed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from maxk.records import Completion

Prompt = str | list[dict[str, str]] | list[int]  # text, chat messages, or tokens

_CONTEXT = 4  # last tokens of the prompt, decoded together with a completion


@dataclass(frozen=True)
class Sampling:
    """How to sample, with any back end."""

    temperature: float = 1.0
    """of the softmax; 0 takes the likeliest token every time"""
    top_p: float = 1.0
    """sample among the likeliest tokens that together have this probability"""
    max_tokens: int = 512
    """of a completion; longer ones are truncated"""
    seed: int = 0
    """of all random streams"""
    chat: bool = True
    """put the prompt into the model's chat template"""

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature={self.temperature} must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be above 0 and at most 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens} must be at least 1")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed} must be 0 or more")


@dataclass(frozen=True)
class Request:
    """A prompt of one problem, and the numbers of the samples to draw with it."""

    problem: str
    prompt: Prompt
    samples: tuple[int, ...]


class Sampler(Protocol):
    """A model behind one of the back ends."""

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        """Every sample of every request, each as soon as it is done."""
        ...


def stream_of(seed: int, problem: str, sample: int) -> int:
    """The 128-bit seed of a sample's random stream."""
    text = f"{seed}\0{problem}\0{sample}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "little")


def seed_of(seed: int, problem: str, sample: int) -> int:
    """A 31-bit seed for back ends that take a number: consecutive over the samples of a problem.

    Every server takes 31 bits.
    """
    return (stream_of(seed, problem, -1) + sample) % 2**31


def runs_of(samples: Iterable[int], longest: int) -> Iterator[tuple[int, ...]]:
    """Consecutive numbers in one tuple, never across a multiple of `longest`.

    So the same samples share a request whether or not earlier samples exist already.

    >>> list(runs_of([0, 1, 2, 3, 4, 7], 4))
    [(0, 1, 2, 3), (4,), (7,)]
    """
    run: list[int] = []
    for sample in sorted(samples):
        if run and (sample != run[-1] + 1 or sample % longest == 0):
            yield tuple(run)
            run = []
        run.append(sample)
    if run:
        yield tuple(run)


def plain(prompt: Prompt) -> str:
    """A prompt as text, for models without a chat template."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(message["content"] for message in messages(prompt)) + "\n"


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as chat messages."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if prompt and isinstance(prompt[0], int):
        raise ValueError("this back end takes prompts as text or chat messages, not as tokens")
    return cast(list[dict[str, str]], prompt)


def prompt_ids(tokenizer: Any, prompt: Prompt, chat: bool) -> list[int]:
    """A prompt as tokens."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return cast(list[int], prompt)
    if not chat:
        return list(tokenizer(plain(prompt)).input_ids)
    if not tokenizer.chat_template:
        raise ValueError("chat=True and the tokenizer has no chat template; use chat=False")
    text = tokenizer.apply_chat_template(
        messages(prompt), tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer(text, add_special_tokens=False).input_ids)  # the template adds them


def text_of(tokenizer: Any, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """Tokens that follow a prompt, as text.

    They are decoded together with the last tokens of the prompt: some tokenizers drop the first
    space of a text, and in Python leading spaces matter.
    """

    def decode(some: Sequence[int]) -> str:
        return tokenizer.decode(
            list(some), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    before = list(prompt[-_CONTEXT:])
    start, whole = decode(before), decode([*before, *ids])
    return whole[len(start) :] if whole.startswith(start) else decode(ids)
