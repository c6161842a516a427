"""Helpers of all loaders: a raw row with its place, lazy tests, and the account of rows."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from maxk.records import StdinTest, Test
from maxk.store.rows import BadRow, read_json

_REQUIRED = object()
_PLAIN_NAMES = {str: "text", list: "a list", dict: "an object", int: "an integer"}


@dataclass(frozen=True)
class Row:
    """One row as it was published, with the name of its data set and its place for errors."""

    dataset: str
    where: str  # "test.jsonl, line 3"
    fields: Mapping[str, Any]

    def id(self, own: object) -> str:
        """The id of the problem: the data set's name and the row's own."""
        return f"{self.dataset}/{own}"

    def has(self, name: str) -> bool:
        """Whether the field exists and is not null: tables fill gaps with nulls."""
        return self.fields.get(name) not in (None, "")

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """The field, checked to be of this type; null counts as missing."""
        value = self.fields.get(name)
        if value is None:
            if default is _REQUIRED:
                raise self.error(name, "is missing")
            return default
        if not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(_PLAIN_NAMES.get(k, k.__name__) for k in kinds)
            raise self.error(name, f"is {plain_name(value)}; use {wanted}")
        return value

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        """A field of text, with plain line ends."""
        return unix(self.get(name, str, default))

    def json(self, name: str, kind: type, default: Any = _REQUIRED) -> Any:
        """A field that is JSON text in some copies of a data set and plain data in others."""
        value = self.get(name, (kind, str), default)
        if isinstance(value, str) and kind is not str:
            try:
                value = read_json(value)
            except ValueError as error:
                raise self.error(name, f"is not JSON: {error}") from None
            if not isinstance(value, kind):
                found = plain_name(value)
                raise self.error(name, f"holds {found}; use {_PLAIN_NAMES[kind]}")
        return value

    def error(self, name: str, message: str) -> BadRow:
        return BadRow(f"{self.where}, field {name}: {message}")


class LazyTests(Sequence[Test]):
    """Tests that are decoded when they are first used, `len` included, and then cached.

    >>> tests = LazyTests(lambda: [StdinTest("3", "6")])
    >>> tests.decoded
    False
    >>> len(tests), tests.decoded
    (1, True)
    """

    def __init__(self, decode: Callable[[], Sequence[Test]]) -> None:
        self._decode: Callable[[], Sequence[Test]] | None = decode
        self._tests: tuple[Test, ...] = ()

    @property
    def decoded(self) -> bool:
        return self._decode is None

    def all(self) -> tuple[Test, ...]:
        if self._decode is not None:
            self._tests = tuple(self._decode())
            self._decode = None  # and with it goes what the tests were decoded from
        return self._tests

    @overload
    def __getitem__(self, index: int) -> Test: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Test, ...]: ...
    def __getitem__(self, index: int | slice) -> Test | tuple[Test, ...]:
        return self.all()[index]

    def __len__(self) -> int:
        return len(self.all())

    def __repr__(self) -> str:
        return f"LazyTests({list(self.all())})" if self.decoded else "LazyTests(not decoded)"


@dataclass
class Account:
    """Counts of rows: problems kept, and rows dropped or kept with a remark, by reason."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)  # what could not be used, and why, one by one

    def drop(self, reason: str) -> None:
        """Count a row that does not become a problem; returns None, as its loader then does."""
        self.dropped[reason] += 1

    def note(self, remark: str) -> None:
        """Count a problem that is kept with a remark."""
        self.noted[remark] += 1

    def __str__(self) -> str:
        lines = [f"kept {self.kept}"]
        lines += [f"dropped {n}: {reason}" for reason, n in self.dropped.most_common()]
        lines += [f"left out: {each}" for each in self.bad]
        lines += [f"noted {n}: {remark}" for remark, n in self.noted.most_common()]
        return "\n".join(lines)


def stdin_tests(
    inputs: Sequence[str], outputs: Sequence[str], tolerance: float | None = None
) -> list[Test]:
    """One test per input and its output, with plain line ends.

    tolerance: for the numbers of outputs in which there is one with a decimal point.
    """
    pairs = [(unix(given), unix(wanted)) for given, wanted in zip(inputs, outputs, strict=True)]
    return [
        StdinTest(given, wanted, tolerance if _FRACTION.search(wanted) else None)
        for given, wanted in pairs
    ]


_FRACTION = re.compile(r"(?:^|\s)[-+]?\d+\.\d+(?=\s|$)")


def unix(text: str) -> str:
    """The text with \\n for every line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def plain_name(value: Any) -> str:
    """The type of a value from JSON or a table, for error messages."""
    return _PLAIN_NAMES.get(type(value), f"a {type(value).__name__}")
