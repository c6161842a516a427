"""A family of problems: their parameters, statements, programs and mistakes.

A program is text with two marks. `$t` stands for the parameter t. `«right|wrong|...»` is a slot: a
place where mistakes are made, with the correct filling first. One line thus holds a correct program
and all its near misses:

    print(sum(x for x in map(int,input().split())if x«>|>=|<»$t))
"""

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, Literal

from maxk.pocket.inputs import Inputs

Values = SimpleNamespace  # one value for each parameter

_SLOT = re.compile("«(.*?)»", re.DOTALL)
_PARAMETER = re.compile(r"\$([a-z])")

SLIP = 0.05  # of all examples have a parameter mistaken
LIKELY = 0.6  # at least that often a slot is right where a whole program can be wrong


@dataclass(frozen=True, eq=False)
class Family:
    """Problems that differ in parameters only.

    `share` is how many of its examples in pretraining are correct; the rest are mistakes. `hidden`
    are parameters that the statement does not tell, with how often each value is meant: a
    convention left open, such as whether to count from 0 or from 1. The tests hold one of them, so
    one sample does best with the most frequent, and many samples must cover the others.
    """

    name: str
    difficulty: Literal["easy", "medium", "hard"]
    share: float
    parameters: Mapping[str, Sequence[Any]]  # those that the statement tells
    statements: tuple[str, ...]
    inputs: Inputs
    answer: Callable[[Any, Values], object]  # from the input, read, to what is to be printed
    programs: tuple[str, ...]  # one for each style, all with slots
    mistakes: tuple[str, ...] = ()  # whole programs that are wrong
    hidden: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def choices(self) -> list[tuple[Any, ...]]:
        """All values of the parameters that a statement names."""
        return list(itertools.product(*self.parameters.values()))

    def values(self, choice: Sequence[Any], rng: Random) -> Values:
        """This choice, with the hidden parameters drawn."""
        values = dict(zip(self.parameters, choice, strict=True))
        for name, often in self.hidden.items():
            values[name] = rng.choices([*often], [*often.values()])[0]
        return Values(**values)

    def correct(self, values: Values) -> list[str]:
        """The program in every style."""
        return [fill(_parts(program), values) for program in self.programs]

    def wrong(self, values: Values) -> list[str]:
        """Every program with one mistake."""
        made = [fill(_parts(mistake), values) for mistake in self.mistakes]
        for parts in map(_parts, self.programs):
            for slot in range(1, len(parts), 2):
                for pick in range(1, len(parts[slot])):
                    made.append(fill(parts, values, {slot: pick}))
        return made

    def example(self, values: Values, rng: Random) -> str:
        """A random program as in pretraining: correct in `share` of the cases.

        What can go wrong goes wrong independently: a parameter is mistaken, the whole program is
        another one, a slot is filled wrongly. A model that has learned each of these chances
        writes correct programs as often as it was shown them, however rare they are.
        """
        if rng.random() < SLIP:
            values = self._slip(values, rng)
        parts = _parts(rng.choice(self.programs))
        slots = range(1, len(parts), 2)
        approach, right = self._chances(len(slots))
        if rng.random() > approach:
            return fill(_parts(rng.choice(self.mistakes)), values)
        picks = {s: rng.randrange(1, len(parts[s])) for s in slots if rng.random() > right}
        return fill(parts, values, picks)

    def _chances(self, slots: int) -> tuple[float, float]:
        """Of a program that is not another one altogether, and of each slot to be right.

        Equal ones, but for rare programs: there the approach is what is rare, and a slot is right
        more often than not.
        """
        unslipped = self.share / (1 - SLIP)
        if not self.mistakes:
            return 1.0, unslipped ** (1 / slots)
        right = max(LIKELY, unslipped ** (1 / (slots + 1)))
        return unslipped / right**slots, right

    def _slip(self, values: Values, rng: Random) -> Values:
        """The values with one that the statement tells replaced by another."""
        name = rng.choice([*self.parameters])
        others = [value for value in self.parameters[name] if value != getattr(values, name)]
        return Values(**{**vars(values), name: rng.choice(others)})


@functools.cache
def _parts(program: str) -> list[list[str]]:
    """The text in pieces: even ones have one filling, odd ones are slots."""
    pieces = _SLOT.split(program)
    return [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]


def fill(
    parts: Sequence[Sequence[str]], values: Values, picks: Mapping[int, int] | None = None
) -> str:
    """The text with these fillings of its slots, the correct ones where none is picked."""
    picks = picks or {}
    text = "".join(part[picks.get(i, 0)] for i, part in enumerate(parts))
    return tell(text, values)


def tell(text: str, values: Values) -> str:
    """The text with the values in place of the parameters, also of those inside other values."""
    return _PARAMETER.sub(lambda match: tell(str(getattr(values, match[1])), values), text)
