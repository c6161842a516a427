"""Test inputs of several kinds: one integer, a line of numbers, a word, a line of words.

Half of what is drawn lies near the parameters, since that is where programs differ: the threshold
itself, its neighbours, multiples, the letter asked for. Among the eight tests of a problem some are
small and some are large, so that a mistake fails some of them and seldom all.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

TESTS = 8  # of each problem
_COMMON = "aeinorst"


@dataclass(frozen=True)
class Inputs:
    """How to draw an input (from a source of chance, the parameters, the test's number), and how
    to read it."""

    draw: Callable[[Random, Any, int], str]
    read: Callable[[str], Any]


def integer(low: int, high: int, near: str = "", multiple: str = "") -> Inputs:
    """One integer; every second one near a parameter, or near a multiple of one, within bounds."""

    def draw(rng: Random, p: Any, number: int) -> str:
        value = rng.randint(low, high)
        if (near or multiple) and number % 2:
            value = _close(rng, p, near, multiple, high)
        if len(multiple) > 1 and number == 1:  # one that all of them divide
            both = math.lcm(*(getattr(p, name) for name in multiple))
            value = both * rng.randint(1, max(1, high // both))
        return str(min(max(value, low), high))

    return Inputs(draw, int)


def pair(low: int, high: int) -> Inputs:
    """Two integers on a line."""

    def draw(rng: Random, p: Any, number: int) -> str:
        return f"{rng.randint(low, high)} {rng.randint(low, high)}"

    return Inputs(draw, _integers)


def numbers(
    low: int = -9,
    high: int = 60,
    near: str = "",
    multiple: str = "",
    longest: int = 7,
    shortest: int = 1,
    spread: int = 20,
) -> Inputs:
    """A line of integers, from low to high or on both sides of the parameter `near`.

    The first tests have few of them, and often one comes twice.
    """

    def draw(rng: Random, p: Any, number: int) -> str:
        size = rng.randint(shortest, max(shortest, 2 if number < 2 else longest))
        middle = getattr(p, near) if near else 0
        ends = (middle - spread, middle + spread) if near else (low, high)
        row = [rng.randint(*ends) for _ in range(size)]
        if rng.random() < 0.5:
            row[-1] = row[0]
        for i in range(size):
            if (near or multiple) and rng.random() < 0.5:
                row[i] = _close(rng, p, near, multiple, high)
        return " ".join(map(str, row))

    return Inputs(draw, _integers)


def word(
    letters: str = "", longest: int = 9, shortest: int = 1, also: str = "", capitals: float = 0
) -> Inputs:
    """A word in which the letters that these parameters name are frequent, some as capitals."""

    def draw(rng: Random, p: Any, number: int) -> str:
        size = rng.randint(shortest, max(shortest, 3 if number < 2 else longest))
        row = [_letter(rng, p, letters, also) for _ in range(size)]
        return "".join(c.upper() if rng.random() < capitals else c for c in row)

    return Inputs(draw, str)


def words(letters: str = "", longest: int = 6, also: str = "", most: int = 6) -> Inputs:
    """A line of words."""

    def draw(rng: Random, p: Any, number: int) -> str:
        count = rng.randint(1, 2 if number < 2 else most)
        sizes = [rng.randint(1, longest) for _ in range(count)]
        row = ["".join(_letter(rng, p, letters, also) for _ in range(n)) for n in sizes]
        return " ".join(row)

    return Inputs(draw, str.split)


def _integers(text: str) -> list[int]:
    return [int(number) for number in text.split()]


def _close(rng: Random, p: Any, near: str, multiple: str, high: int) -> int:
    step = rng.choice((-1, 0, 0, 1))
    if near and (not multiple or rng.random() < 0.5):
        return getattr(p, rng.choice(near)) + step
    factor = getattr(p, rng.choice(multiple))
    if len(multiple) > 1 and rng.random() < 0.4:  # of all of them
        factor = math.prod(getattr(p, name) for name in multiple)
    return factor * rng.randint(1, max(1, high // factor)) + step


def _letter(rng: Random, p: Any, letters: str, also: str) -> str:
    if letters and rng.random() < 0.4:
        return getattr(p, rng.choice(letters))
    return rng.choice(_COMMON + also)
