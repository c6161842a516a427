"""Experimental. The running samples as arrays, a row each, without Python per row and token."""

from typing import Any, NamedTuple

import numpy as np


class Ended(NamedTuple):
    """A finished sample."""

    prompt: Any
    sample: int
    ids: list[int]
    logprob: float
    entropy: float  # summed over the tokens


class Rows:
    """At most `size` rows of at most `longest` tokens; those in use come first."""

    def __init__(self, size: int, longest: int) -> None:
        self.prompts: list[Any] = []  # of the rows in use; the arrays below have room for all
        self.samples = np.zeros(size, np.int64)
        self.uniforms = np.zeros((size, longest))
        self.ids = np.zeros((size, longest), np.int64)
        self.drawn = np.zeros(size, np.int64)  # tokens
        self.limits = np.zeros(size, np.int64)
        self.before = np.zeros(size, np.int64)  # tokens of the prompt
        self.inside = np.zeros(size, np.int64)  # tokens of the prompt that are in the row's slot
        self.logprobs = np.zeros(size)
        self.entropies = np.zeros(size)

    def __len__(self) -> int:
        return len(self.prompts)

    def add(self, prompt: Any, sample: int, uniforms: np.ndarray, before: int, inside: int) -> None:
        i = len(self.prompts)
        self.prompts.append(prompt)
        self.samples[i], self.before[i], self.inside[i] = sample, before, inside
        self.uniforms[i, : len(uniforms)] = uniforms
        self.limits[i] = len(uniforms)
        self.drawn[i] = self.logprobs[i] = self.entropies[i] = 0

    def last(self) -> np.ndarray:
        """Every row's last token, its position, and its place in the slot: [3, rows]."""
        used = slice(len(self))
        newest = self.drawn[used] - 1
        tokens = self.ids[np.arange(len(self)), newest]
        return np.stack([tokens, self.before[used] + newest, self.inside[used] + newest])

    def next_uniforms(self, first: int) -> np.ndarray:
        """For the next token of the rows from the first on."""
        rows = np.arange(first, len(self))
        return self.uniforms[rows, self.drawn[rows]]

    def extend(
        self,
        first: int,
        tokens: np.ndarray,
        logprobs: np.ndarray,
        entropies: np.ndarray,
        ends: np.ndarray,
    ) -> list[int]:
        """Append a token to the rows from `first` on; returns those that have ended."""
        rows = np.arange(first, first + len(tokens))
        self.ids[rows, self.drawn[rows]] = tokens
        self.logprobs[rows] += logprobs
        self.entropies[rows] += entropies
        self.drawn[rows] += 1
        done = np.isin(tokens, ends) | (self.drawn[rows] == self.limits[rows])
        return rows[done].tolist()

    def ended(self, row: int) -> Ended:
        ids = self.ids[row, : self.drawn[row]].tolist()
        logprob, entropy = float(self.logprobs[row]), float(self.entropies[row])
        return Ended(self.prompts[row], int(self.samples[row]), ids, logprob, entropy)

    def remove(self, done: list[int]) -> tuple[list[int], list[int]]:
        """Remove rows; the last rows move into their places. Returns which move, and where to."""
        left, gone = len(self) - len(done), set(done)
        targets = [row for row in done if row < left]
        sources = [row for row in range(left, len(self)) if row not in gone]
        if targets:
            for array in (self.samples, self.uniforms, self.ids, self.drawn, self.limits):
                array[targets] = array[sources]
            for array in (self.before, self.inside, self.logprobs, self.entropies):
                array[targets] = array[sources]
            for source, target in zip(sources, targets, strict=True):
                self.prompts[target] = self.prompts[source]
        del self.prompts[left:]
        return sources, targets
