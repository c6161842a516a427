"""What every back end speaks: requests in, completions out, in whatever order they are done.

The random stream of a sample follows from the seed, the id of its problem and its own number, and
from nothing else. So a run that was stopped, or is shared between machines, or is put into other
batches gives the same completions, as far as the back end lets it: exactly, up to rounding, with
transformers on one device; by the seed of each request with vLLM and with servers that take one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from maxk.records import Completion

Prompt = str | list[dict[str, str]] | list[int]  # text, chat messages, or tokens

_BEFORE = 4  # tokens of the prompt that a completion is decoded behind


@dataclass(frozen=True)
class Settings:
    """How to sample, whatever the back end."""

    temperature: float = 1.0  # 0 takes the likeliest token every time
    top_p: float = 1.0
    max_tokens: int = 256
    seed: int = 0
    chat: bool = True  # put the prompt into the model's chat template

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
    """One problem, and the numbers of the samples that are wanted of it."""

    problem: str
    prompt: Prompt
    samples: tuple[int, ...]


class Sampler(Protocol):
    """A model behind one of the back ends."""

    def sample(self, requests: Iterable[Request], settings: Settings) -> Iterator[Completion]:
        """Every sample of every request, each as soon as it is done."""
        ...


def stream_of(seed: int, problem: str, sample: int) -> int:
    """The 128 bits that a sample's random stream starts from."""
    text = f"{seed}\0{problem}\0{sample}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "little")


def seed_of(seed: int, problem: str, sample: int) -> int:
    """A seed for back ends that take a number: consecutive over the samples of a problem.

    31 bits, which every server takes.
    """
    return (stream_of(seed, problem, -1) + sample) % 2**31


def runs_of(samples: Iterable[int], longest: int) -> Iterator[tuple[int, ...]]:
    """Consecutive numbers together, never across a multiple of `longest`.

    So that the same samples share a request whether or not others are there already.

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
    """A prompt as text, for models that know no chat."""
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
    return list(tokenizer(text, add_special_tokens=False).input_ids)  # the template has them


def text_of(tokenizer: Any, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """Tokens that follow a prompt, as text.

    They are decoded behind the last tokens of the prompt: by themselves some tokenizers lose a
    first space of theirs, which in Python means something.
    """

    def decode(some: Sequence[int]) -> str:
        return tokenizer.decode(
            list(some), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    before = list(prompt[-_BEFORE:])
    start, whole = decode(before), decode([*before, *ids])
    return whole[len(start) :] if whole.startswith(start) else decode(ids)
