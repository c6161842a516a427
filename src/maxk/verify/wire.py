"""Plain values as bytes, with their exact types: how a result leaves the sandbox.

The writer runs beside untrusted code and the reader in the judge, so the reader believes nothing:
every length is checked, nesting is bounded, nothing is evaluated or looked up by name. Only exact
types are written; an instance of a subclass, which could bring its own `__eq__`, is refused. Sets
and dicts are read as lists of what was sent: hashing numbers of a stranger's choice takes quadratic
time if they all fall into one slot.

    value   := tag payload
    N T F            None, True, False
    i f c            integer (length, two's complement), float (8 bytes), complex (16 bytes)
    s b              str (length, UTF-8 with surrogates), bytes (length)
    l t S Z          list, tuple, set, frozenset (count, values)
    d                dict (count, key and value in turn)
    h n              an object that stays where it is (8 bytes), a name of Python's own (length)

Lengths and counts are 4 bytes, big-endian. The standard library alone is used: this file is also
loaded inside the sandbox.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_DEPTH = 100
MAX_BYTES = 16 * 2**20

_SEQUENCES: dict[type, bytes] = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z"}
_BUILD: dict[bytes, type] = {tag: kind for kind, tag in _SEQUENCES.items()}


class Members(NamedTuple):
    """A set or frozenset as it was sent."""

    kind: type
    items: list[Any]


class Pairs(NamedTuple):
    """A dict as it was sent."""

    items: list[tuple[Any, Any]]


class Handle(NamedTuple):
    """Stands for an object in the process of the judged program."""

    number: int


class Builtin(NamedTuple):
    """One of Python's own names, such as the type int; looked up inside the sandbox only."""

    name: str


class NotPlainError(ValueError):
    """The value has a type, a depth or a size that is not written."""


class MalformedError(ValueError):
    """The bytes are not what `encode` writes."""


def encode(value: Any, max_bytes: int = MAX_BYTES) -> bytes:
    """The value as bytes, or NotPlainError.

    >>> encode([1, "a"])
    b'l\\x00\\x00\\x00\\x02i\\x00\\x00\\x00\\x01\\x01s\\x00\\x00\\x00\\x01a'
    """
    parts: list[bytes] = []

    def write(x: Any, depth: int) -> None:
        kind = type(x)
        if kind is int:
            data = x.to_bytes(x.bit_length() // 8 + 1, "big", signed=True)
            parts.append(b"i" + _length(data) + data)
        elif kind is str:
            data = x.encode("utf-8", "surrogatepass")
            parts.append(b"s" + _length(data) + data)
        elif x is None:
            parts.append(b"N")
        elif kind is bool:
            parts.append(b"T" if x else b"F")
        elif kind is float:
            parts.append(b"f" + struct.pack(">d", x))
        elif kind in _SEQUENCES or kind is dict:
            if depth == MAX_DEPTH:
                raise NotPlainError(f"nested more than {MAX_DEPTH} deep")
            if len(parts) + len(x) > max_bytes:  # what is left is a byte each, at the least
                raise NotPlainError(f"more than {max_bytes} bytes")
            if kind is dict:
                parts.append(b"d" + _length(x))
                for key, item in x.items():
                    write(key, depth + 1)
                    write(item, depth + 1)
            else:
                parts.append(_SEQUENCES[kind] + _length(x))
                for item in x:
                    write(item, depth + 1)
        elif kind is complex:
            parts.append(b"c" + struct.pack(">dd", x.real, x.imag))
        elif kind is bytes:
            parts.append(b"b" + _length(x) + x)
        elif kind is Handle:
            parts.append(b"h" + x.number.to_bytes(8, "big"))
        elif kind is Builtin:
            data = x.name.encode()
            parts.append(b"n" + _length(data) + data)
        else:
            raise NotPlainError(f"a {kind.__name__} is not a plain value")

    write(value, 0)
    if sum(map(len, parts)) > max_bytes:
        raise NotPlainError(f"more than {max_bytes} bytes")
    return b"".join(parts)


def decode(data: bytes) -> Any:
    """The value that `encode` wrote, or MalformedError. Bytes from anyone are safe to read.

    >>> decode(encode([1, (2.5, None)]))
    [1, (2.5, None)]
    >>> decode(encode({"a": 1}))
    Pairs(items=[('a', 1)])
    """
    at = 0

    def take(n: int) -> bytes:
        nonlocal at
        if n > len(data) - at:
            raise MalformedError(f"{n} bytes promised at {at}, {len(data) - at} left")
        at += n
        return data[at - n : at]

    def length() -> int:
        # Whatever is announced takes at least a byte each, so a false count fails here at once.
        n = int.from_bytes(take(4), "big")
        if n > len(data) - at:
            raise MalformedError(f"{n} entries promised at {at}, {len(data) - at} bytes left")
        return n

    def read(depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise MalformedError(f"nested more than {MAX_DEPTH} deep")
        tag = take(1)
        if tag in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"i":
            return int.from_bytes(take(length()), "big", signed=True)
        if tag == b"f":
            return struct.unpack(">d", take(8))[0]
        if tag == b"c":
            return complex(*struct.unpack(">dd", take(16)))
        if tag == b"s":
            return take(length()).decode("utf-8", "surrogatepass")
        if tag == b"b":
            return take(length())
        if tag == b"h":
            return Handle(int.from_bytes(take(8), "big"))
        if tag == b"n":
            return Builtin(take(length()).decode("utf-8"))
        if tag == b"d":
            return Pairs([(read(depth + 1), read(depth + 1)) for _ in range(length())])
        if tag in _BUILD:
            kind, items = _BUILD[tag], [read(depth + 1) for _ in range(length())]
            return Members(kind, items) if kind in (set, frozenset) else kind(items)
        raise MalformedError(f"unknown tag {tag!r} at {at - 1}")

    try:
        value = read(0)
    except UnicodeDecodeError as error:
        raise MalformedError(str(error)) from None
    if at != len(data):
        raise MalformedError(f"{len(data) - at} bytes too many")
    return value


def refused(reference: "Handle | Builtin") -> Any:
    raise MalformedError(f"{reference} where a plain value was due")


def rebuilt(value: Any, resolve: Callable[[Handle | Builtin], Any] = refused) -> Any:
    """The value with its sets and dicts made again; done inside the sandbox only.

    `resolve` says what a handle or a name stands for. It has to refuse what the other side has no
    business to send: `exit`, sent by a program in the place of its function, would end its test.
    """
    if isinstance(value, Handle | Builtin):
        return resolve(value)
    if isinstance(value, Members):
        return value.kind(rebuilt(item, resolve) for item in value.items)
    if isinstance(value, Pairs):
        return {rebuilt(k, resolve): rebuilt(v, resolve) for k, v in value.items}
    if isinstance(value, list | tuple):
        return type(value)(rebuilt(item, resolve) for item in value)
    return value


def _length(x: Any) -> bytes:
    if len(x) >= 2**32:
        raise NotPlainError("longer than 4 GiB")
    return len(x).to_bytes(4, "big")
