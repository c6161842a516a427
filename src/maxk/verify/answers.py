"""Is a returned value the expected one? Read from the bytes of a stranger, up to what differs.

What is too long to be right is not read. The rest is compared while it is read: by tag, length and
count first, and no further than the first difference. So the work is bounded by the size of what is
expected, whatever was sent. No code of the judged program runs, and nothing of its choice is put
into a set or a dict.

The notions of equality:

    strict           types alike; floats within the tolerance, NaN equal to NaN
    python           what == says of two values: 1 == 1.0 == True, a list is not a tuple
    evalplus         python, or else numpy's allclose with the tolerance, as EvalPlus has it
    livecodebench    python, with a tuple for a list allowed as the whole result
"""

import math
from typing import Any

from maxk.verify.shown import shown, shown_value
from maxk.verify.wire import (
    MAX_DEPTH,
    MalformedError,
    NotPlainError,
    Reader,
    encode,
    fingerprint,
    holds_nan,
    simplest,
)

_NUMBERS = (bool, int, float, complex)
_TAGS = {
    type(None): b"N", int: b"i", float: b"f", complex: b"c", str: b"s", bytes: b"b",
    list: b"l", tuple: b"t", set: b"S", frozenset: b"Z", dict: b"d",
}  # fmt: skip
_NAMES = {
    b"N": "None", b"T": "a bool", b"F": "a bool", b"i": "an int", b"f": "a float",
    b"c": "a complex", b"s": "a str", b"b": "bytes", b"l": "a list", b"t": "a tuple",
    b"S": "a set", b"Z": "a frozenset", b"d": "a dict",
}  # fmt: skip
_RELATIVE = 1e-7  # of EvalPlus
_SHORT = 1000  # bytes that are looked at even if they are too many, to say what is wrong


class DifferentError(Exception):
    """The value is another one; the text says how, where that is worth saying."""


class Answer:
    """What a function has to return.

    >>> Answer([1, 0.1 + 0.2]).wrong(encode([1, 0.3])) is None
    True
    >>> Answer(14).wrong(encode(14.0))
    '14.0 is a float, 14 was expected'
    >>> Answer(14, "python").wrong(encode(14.0)) is None
    True
    """

    def __init__(self, expected: Any, equality: str = "strict", tolerance: float = 1e-6) -> None:
        """NotPlainError if nothing that a program returns could be this."""
        self.expected, self.equality, self.tolerance = expected, equality, tolerance
        self.bytes = encode(expected)
        self.strict = equality == "strict"
        self.longest = len(self.bytes) if self.strict else _longest(expected)
        self.tables: dict[int, dict[bytes, Any]] = {}  # of sets and dicts expected, by id
        if equality == "evalplus" and tolerance == 0 and _is_floats(expected):
            self.tolerance = 1e-6

    def wrong(self, data: bytes) -> str | None:
        """None if these bytes are the expected value; else what they are, in short."""
        if data == self.bytes and not (self.equality != "strict" and _has_nan(self.expected)):
            return None
        why = ""
        try:
            if len(data) <= max(self.longest, _SHORT):
                self._compare(data)
                return None
            self._told(data[:1], self.expected, lambda: shown(data))
        except DifferentError as error:
            why = str(error)
        except MalformedError:
            pass
        return why or f"got {shown(data)}"

    def _compare(self, data: bytes) -> None:
        reader = Reader(data)
        try:
            self._match(reader, self.expected, 0)
        except DifferentError:
            if self.equality != "evalplus" or not self.tolerance:
                raise
            reader = Reader(data)
            if data[:1] != _TAGS.get(type(self.expected), b"?") or _shape(self.expected) is None:
                raise
            self._close(reader, self.expected, 0)
        reader.end()

    def _match(self, reader: Reader, expected: Any, depth: int) -> None:
        """Read what is equal to the expected value, or DifferentError."""
        tag = reader.take(1)
        if type(expected) in _NUMBERS:
            self._number(reader, tag, expected)
        elif isinstance(expected, set | frozenset):
            if tag != _TAGS[type(expected)] and (self.strict or tag not in (b"S", b"Z")):
                raise DifferentError
            self._members(reader, expected)
        elif tag != _TAGS[type(expected)] and not (
            depth == 0 and tag == b"t" and self.equality == "livecodebench"
        ):
            self._told(tag, expected, lambda: shown(reader.data[reader.at - 1 :]))
            raise DifferentError
        elif isinstance(expected, dict):
            self._pairs(reader, expected, depth)
        elif isinstance(expected, list | tuple):
            if reader.length() != len(expected):
                raise DifferentError
            for item in expected:
                self._match(reader, item, depth + 1)
        elif isinstance(expected, str | bytes):
            text = isinstance(expected, str)
            wanted = expected.encode("utf-8", "surrogatepass") if text else expected
            if reader.length() != len(wanted) or reader.take(len(wanted)) != wanted:
                raise DifferentError

    def _number(self, reader: Reader, tag: bytes, expected: Any) -> None:
        if tag not in b"TFifc":
            raise DifferentError
        got = reader.leaf(tag)
        if self.strict and type(got) is not type(expected):
            self._told(tag, expected, lambda: shown(encode(got)))
            raise DifferentError
        if self.strict and type(expected) in (float, complex):
            parts = ((got.real, expected.real), (got.imag, expected.imag))
            if not all(_near(a, b, self.tolerance) for a, b in parts):
                raise DifferentError
        elif got != expected:
            raise DifferentError

    def _table(self, expected: Any) -> dict[bytes, Any]:
        """What a set or dict holds, by the fingerprints of its members or keys."""
        if id(expected) not in self.tables:
            values = expected.items() if isinstance(expected, dict) else ((x, x) for x in expected)
            self.tables[id(expected)] = {fingerprint(k, self.strict): v for k, v in values}
        return self.tables[id(expected)]

    def _members(self, reader: Reader, expected: Any) -> None:
        table = self._table(expected)
        left = set(table)
        if reader.length() != len(expected):
            raise DifferentError
        for _ in range(len(expected)):
            self._taken(reader, left)

    def _pairs(self, reader: Reader, expected: dict, depth: int) -> None:
        table = self._table(expected)
        left = set(table)
        if reader.length() != len(expected):
            raise DifferentError
        for _ in range(len(expected)):
            self._match(reader, table[self._taken(reader, left)], depth + 1)

    def _taken(self, reader: Reader, left: set[bytes]) -> bytes:
        """Read a member or key: one of those that are left, which it then is no more."""
        got = reader.value(MAX_DEPTH // 2)
        own = fingerprint(got, self.strict)
        if own not in left or (not self.strict and holds_nan(got)):
            raise DifferentError
        left.remove(own)
        return own

    def _close(self, reader: Reader, expected: Any, depth: int) -> None:
        """Read numbers that numpy's allclose takes for the expected ones."""
        tag = reader.take(1)
        if isinstance(expected, list | tuple):
            if tag not in (b"l", b"t") or reader.length() != len(expected):
                raise DifferentError
            for item in expected:
                self._close(reader, item, depth + 1)
            return
        if tag not in b"TFifc" or type(expected) not in _NUMBERS:
            raise DifferentError
        got = reader.leaf(tag)
        if any(type(x) is int and not -(2**63) <= x < 2**64 for x in (got, expected)):
            raise DifferentError  # numpy has no such number
        if got != expected and not (
            abs(got - expected) <= self.tolerance + _RELATIVE * abs(expected) < math.inf
        ):
            raise DifferentError

    def _told(self, tag: bytes, expected: Any, text: Any) -> None:
        """DifferentError with a reason, where type and not value is what is wrong."""
        alike = (b"TFifc", b"lt", b"SZ")
        ours = encode(expected[:0] if isinstance(expected, list | tuple) else expected)[:1]
        if tag and tag != ours and any(tag in group and ours in group for group in alike):
            raise DifferentError(f"{text()} is {_NAMES[tag]}, {shown_value(expected)} was expected")


def _near(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def _has_nan(x: Any) -> bool:
    if isinstance(x, dict):
        return any(_has_nan(k) or _has_nan(v) for k, v in x.items())
    if isinstance(x, list | tuple | set | frozenset):
        return any(map(_has_nan, x))
    return isinstance(x, float | complex) and x != x


def _is_floats(x: Any) -> bool:
    if isinstance(x, list | tuple) and x:
        return all(isinstance(item, float) for item in x)
    return isinstance(x, float)


def _shape(x: Any) -> tuple[int, ...] | None:
    """Of the array that numpy makes of nested lists; None if it makes none."""
    if not isinstance(x, list | tuple):
        return ()
    inside = {_shape(item) for item in x}
    if len(inside) > 1 or None in inside:
        return None
    return (len(x), *(inside.pop() or () if inside else ()))


def _longest(x: Any) -> int:
    """The most bytes that a value equal to this one may have: a number may be of another type."""
    if isinstance(x, dict):
        return 5 + sum(_longest(k) + _longest(v) for k, v in x.items())
    if isinstance(x, list | tuple | set | frozenset):
        return 5 + sum(map(_longest, x))
    if type(x) in _NUMBERS:
        try:
            return max(17, len(encode(simplest(x))))
        except (NotPlainError, OverflowError):
            return 17
    return len(encode(x))
