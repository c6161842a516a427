"""Is the answer right? Comparison of what a program printed or returned, in the judge's process.

Everything compared here is a plain value of the judge's own making: strings, or the result of
`wire.decode`. No code of the judged program runs, so no `__eq__` of its can answer for it.
"""

import math
import re
import reprlib
from collections.abc import Collection, Iterable
from typing import Any

from maxk.verify.wire import Members, Pairs, encode

# float() takes underscores, "infinity" and digits of every script; printed answers should not.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def same_output(
    got: str, expected: str, tolerance: float | None = None, *, exact: bool = False
) -> bool:
    """Whether a program's stdout is the expected one.

    By default all tokens must be equal, in order and number; whitespace only separates. With a
    tolerance, two tokens that are both decimal numbers need only be that close. exact compares
    every character, apart from the form of line ends and one at the end of the text.

    >>> same_output("1  2\\n3\\n", "1 2 3")
    True
    >>> same_output("0.333", "0.3333333", tolerance=1e-3)
    True
    """
    if exact:
        return _lines(got) == _lines(expected)
    if tolerance is None:
        return got.split() == expected.split()
    ours, theirs = got.split(), expected.split()
    return len(ours) == len(theirs) and all(
        map(_close_tokens, ours, theirs, [tolerance] * len(ours))
    )


def same_value(got: Any, expected: Any, tolerance: float = 1e-6) -> bool:
    """Whether a returned value, read by `wire.decode`, is the expected one: all types alike.

    Floats, also inside containers, may differ by the tolerance, relative or absolute; NaN equals
    NaN. Keys of dicts and members of sets must be equal exactly. True is not 1, 1 is not 1.0, a
    list is not a tuple.

    >>> same_value([1, 0.1 + 0.2], [1, 0.3])
    True
    >>> same_value((1, 2), [1, 2])
    False
    """
    if isinstance(expected, dict):
        if type(got) is not Pairs or len(got.items) != len(expected):
            return False
        ours = {_print(key): value for key, value in got.items}
        theirs = {_print(key): value for key, value in expected.items()}
        return ours.keys() == theirs.keys() and all(
            same_value(ours[key], theirs[key], tolerance) for key in theirs
        )
    if isinstance(expected, set | frozenset):
        if type(got) is not Members or got.kind is not type(expected):
            return False
        return len(got.items) == len(expected) and _prints(got.items) == _prints(expected)
    if type(got) is not type(expected):
        return False
    if isinstance(expected, float):
        return _close(got, expected, tolerance)
    if isinstance(expected, complex):
        parts = ((got.real, expected.real), (got.imag, expected.imag))
        return all(_close(a, b, tolerance) for a, b in parts)
    if isinstance(expected, list | tuple):
        return len(got) == len(expected) and all(
            same_value(a, b, tolerance) for a, b in zip(got, expected, strict=True)
        )
    return got == expected


def equal(got: Any, expected: Any) -> bool:
    """`got == expected` as Python has it, of a value read by `wire.decode` and a literal.

    Nothing of a stranger's choice is kept in a set or a dict unless it is equal to one of ours.

    >>> equal([1.0, True], [1, 1]), equal((1, 2), [1, 2])
    (True, False)
    """
    if isinstance(expected, dict):
        if type(got) is not Pairs or len(got.items) != len(expected):
            return False
        keys = [key for key, _ in got.items]
        return _same_members(keys, expected) and all(
            equal(value, expected[key]) for key, value in got.items
        )
    if isinstance(expected, set):  # a frozenset may be equal to it
        return (
            type(got) is Members
            and len(got.items) == len(expected)
            and _same_members(got.items, expected)
        )
    if isinstance(expected, list | tuple):
        return (
            type(got) is type(expected)
            and len(got) == len(expected)
            and all(map(equal, got, expected))
        )
    return type(got) not in (Pairs, Members) and got == expected


def _same_members(got: list[Any], expected: Collection[Any]) -> bool:
    """As many as expected, each of them one of these, and none twice."""
    try:
        return all(each in expected for each in got) and len(set(got)) == len(expected)
    except TypeError:  # a member that holds a set or a dict, which no literal's can
        return False


def shown(got: Any) -> str:
    """The beginning of a value read by `wire.decode` as Python writes it, in bounded time.

    >>> shown([1, Pairs([("a", Members(set, [2]))]), list(range(99))])
    "[1, {'a': {2}}, [0, 1, 2, 3, 4, 5, ...]]"
    """
    return _SHORT.repr(got)


class _Short(reprlib.Repr):
    """Nothing is hashed, and no number is too long to print."""

    def repr_Pairs(self, x: Pairs, level: int) -> str:  # noqa: N802
        items = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in x.items[:6]]
        return "{" + ", ".join(items + ["..."] * (len(x.items) > 6)) + "}"

    def repr_Members(self, x: Members, level: int) -> str:  # noqa: N802
        inside = self.repr_list(x.items, level)[1:-1]
        inside = f"{{{inside}}}" if inside else ""
        return inside if x.kind is set and inside else f"{x.kind.__name__}({inside})"

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 1000 else f"{x.bit_length()} bits"


_SHORT = _Short()


def _print(x: Any) -> bytes:
    """Bytes that differ wherever type or value does, for keys and members on either side."""
    if isinstance(x, Members | frozenset):
        return b"Z" + encode(sorted(_prints(x.items if isinstance(x, Members) else x)))
    if isinstance(x, tuple) and not isinstance(x, Pairs):
        return b"t" + encode([_print(item) for item in x])
    return encode(x + 0.0 if type(x) is float else x)  # -0.0 is the same member as 0.0


def _prints(items: Iterable[Any]) -> set[bytes]:
    return {_print(item) for item in items}


def _close(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def _close_tokens(a: str, b: str, tolerance: float) -> bool:
    if a == b:
        return True
    if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):
        return False
    x, y = float(a), float(b)
    return math.isfinite(x) and math.isfinite(y) and _close(x, y, tolerance)


def _lines(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return text[:-1] if text.endswith("\n") else text
