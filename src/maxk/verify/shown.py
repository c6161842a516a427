"""The beginning of a value as Python writes it, for the reason of a wrong answer; bounded work.

The bytes are a stranger's: no more of them is read than is shown, and nothing is built of them.
"""

import reprlib
from typing import Any

from maxk.verify.wire import MalformedError, Reader, encode

_ITEMS = 6  # of a list
_CHARS = 30  # of a text
_BITS = 1000  # of a number
_ENOUGH = 160  # characters in all


class _FullError(Exception):
    """Enough is shown."""


def shown(data: bytes) -> str:
    """The value in these bytes, in short.

    >>> shown(encode([1, {"a": {2}}, list(range(99))]))
    "[1, {'a': {2}}, [0, 1, 2, 3, 4, 5, ...]]"
    >>> shown(b"l"), shown(b"s\\0\\0\\0\\1\\xff")
    ('', '')
    """
    parts: list[str] = []
    try:
        _show(Reader(data), parts, 0)
    except _FullError:
        parts.append("...")
    except (MalformedError, UnicodeDecodeError):
        return ""
    return "".join(parts)


def shown_value(value: Any) -> str:
    """The same for a value of our own."""
    try:
        return shown(encode(value))
    except ValueError:
        return f"a {type(value).__name__}"


_BRACKETS = {b"l": "[]", b"t": "()", b"S": "{}", b"Z": ("frozenset({", "})"), b"d": "{}"}
_EMPTY = {b"S": "set()", b"Z": "frozenset()", b"t": "()"}


def _show(reader: Reader, parts: list[str], depth: int) -> None:
    tag = reader.take(1)
    if tag not in _BRACKETS:
        _add(parts, _leaf(reader, tag))
        return
    count = reader.length()
    if not count and tag in _EMPTY:
        _add(parts, _EMPTY[tag])
        return
    opening, closing = _BRACKETS[tag]
    _add(parts, opening)
    for i in range(min(count, _ITEMS)):
        _add(parts, ", " if i else "")
        _show(reader, parts, depth + 1)
        if tag == b"d":
            _add(parts, ": ")
            _show(reader, parts, depth + 1)
    if count > _ITEMS:
        # What comes behind cannot be found without reading it all, unless this is the whole.
        _add(parts, ", ...")
        if depth:
            _skip(reader, count - _ITEMS, tag == b"d")
    _add(parts, closing if (tag, count) != (b"t", 1) else ",)")


def _leaf(reader: Reader, tag: bytes) -> str:
    if tag in b"sb":
        size = reader.length()
        start = reader.at
        reader.take(0)
        reader.at = start + size
        if size <= 2 * _CHARS:
            cut = reader.data[start : start + size]
            return reprlib.repr(cut.decode("utf-8", "surrogatepass") if tag == b"s" else cut)
        half = _CHARS // 2
        ends = reader.data[start : start + half], reader.data[reader.at - half : reader.at]
        texts = [repr(e.decode("utf-8", "ignore") if tag == b"s" else e) for e in ends]
        return f"{texts[0][:-1]}...{texts[1][1 if tag == b's' else 2 :]}"
    if tag == b"i":
        size = reader.length()
        if size > _BITS // 8:
            top = reader.data[reader.at : reader.at + 9]
            reader.at += size
            bits = abs(int.from_bytes(top, "big", signed=True)).bit_length() + 8 * (size - len(top))
            return f"{bits} bits"
        reader.at -= 4
    return repr(reader.leaf(tag))


def _skip(reader: Reader, count: int, pairs: bool) -> None:
    """Go past values without building them; no more of them than could be shown again."""
    left = 2 * count if pairs else count
    for _ in range(2_000):
        if not left:
            return
        left -= 1
        tag = reader.take(1)
        if tag in _BRACKETS:
            left += reader.length() * (2 if tag == b"d" else 1)
        elif tag in b"sbi":
            size = reader.length()
            reader.at += size
        elif tag in b"fc":
            reader.at += 8 if tag == b"f" else 16
        elif tag not in b"NTF":
            raise MalformedError("no tag")
    raise _FullError


def _add(parts: list[str], text: str) -> None:
    parts.append(text)
    if sum(map(len, parts)) > _ENOUGH:
        raise _FullError
