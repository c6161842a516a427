"""Plain values as bytes, with their exact types: how a result leaves the sandbox.

The writer runs beside untrusted code and the reader in the judge, so the reader believes nothing.
It accepts exactly what `encode` can write: every length is checked, nesting is bounded, integers
have their shortest form, keys and members can be hashed and are there once. Nothing is evaluated or
looked up by name. Only exact types are written; an instance of a subclass, which could bring its
own `__eq__`, is refused. Sets and dicts are read as lists of what was sent: hashing numbers of a
stranger's choice takes quadratic time if they all fall into one slot.

    value   := tag payload
    N T F            None, True, False
    i f c            integer (length, two's complement), float (8 bytes), complex (16 bytes)
    s b              str (length, UTF-8 with surrogates), bytes (length)
    l t S Z          list, tuple, set, frozenset (count, values)
    d                dict (count, key and value in turn)
    h n              an object that stays where it is (8 bytes), a name of Python's own (length)
    I                what an iterator gave (count, values)
    v                a value of the library: the name of its type, and what that is made of

The last four are read only where the reader says that references are due. Lengths and counts are 4
bytes, big-endian. The standard library alone is used: this file is also loaded inside the sandbox.
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


class Iterated(NamedTuple):
    """What an iterator gave, one after the other."""

    items: list[Any]


class Known(NamedTuple):
    """A value of a type of the standard library, such as Fraction, and its arguments."""

    kind: str
    args: list[Any]


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
    size = 0

    def put(data: bytes) -> None:
        nonlocal size
        size += len(data)
        if size > max_bytes:  # a list that holds itself many times ends here
            raise NotPlainError(f"more than {max_bytes} bytes")
        parts.append(data)

    def write(x: Any, depth: int) -> None:
        kind = type(x)
        if kind is int:
            data = x.to_bytes(x.bit_length() // 8 + 1, "big", signed=True)
            put(b"i" + _length(data) + data)
        elif kind is str:
            data = x.encode("utf-8", "surrogatepass")
            put(b"s" + _length(data) + data)
        elif x is None:
            put(b"N")
        elif kind is bool:
            put(b"T" if x else b"F")
        elif kind is float:
            put(b"f" + struct.pack(">d", x))
        elif kind is Iterated or kind is Known:
            put(b"I" + _length(x.items) if kind is Iterated else b"v")
            for item in x.items if kind is Iterated else x:
                write(item, depth + 1)
        elif kind in _SEQUENCES or kind is dict:
            if depth == MAX_DEPTH:
                raise NotPlainError(f"nested more than {MAX_DEPTH} deep")
            if size + len(x) > max_bytes:  # what is left is a byte each, at the least
                raise NotPlainError(f"more than {max_bytes} bytes")
            if kind is dict:
                put(b"d" + _length(x))
                for key, item in x.items():
                    write(key, depth + 1)
                    write(item, depth + 1)
            else:
                put(_SEQUENCES[kind] + _length(x))
                for item in x:
                    write(item, depth + 1)
        elif kind is complex:
            put(b"c" + struct.pack(">dd", x.real, x.imag))
        elif kind is bytes:
            put(b"b" + _length(x) + x)
        elif kind is Handle:
            put(b"h" + x.number.to_bytes(8, "big"))
        elif kind is Builtin:
            data = x.name.encode()
            put(b"n" + _length(data) + data)
        else:
            raise NotPlainError(f"a {kind.__name__} is not a plain value")

    write(value, 0)
    return b"".join(parts)


class Reader:
    """Reads what `encode` writes, from the front. Every promise of the bytes is checked first."""

    def __init__(self, data: bytes, references: bool = False) -> None:
        self.data, self.at, self.references = data, 0, references

    def take(self, n: int) -> bytes:
        at = self.at
        if n > len(self.data) - at:
            raise MalformedError(f"{n} bytes promised at {at}, {len(self.data) - at} left")
        self.at = at + n
        return self.data[at : at + n]

    def length(self) -> int:
        # Whatever is announced takes at least a byte each, so a false count fails here at once.
        n = int.from_bytes(self.take(4), "big")
        if n > len(self.data) - self.at:
            raise MalformedError(
                f"{n} entries promised at {self.at}, {len(self.data) - self.at} bytes left"
            )
        return n

    def integer(self, n: int) -> int:
        """Of n bytes, which have to be as few as can be."""
        value = int.from_bytes(self.take(n), "big", signed=True)
        if n != value.bit_length() // 8 + 1:
            raise MalformedError(f"an integer of {value.bit_length()} bits in {n} bytes")
        return value

    def text(self, n: int) -> str:
        try:
            return self.take(n).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise MalformedError(str(error)) from None

    def leaf(self, tag: bytes) -> Any:
        """A value that holds no others."""
        if tag in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"i":
            return self.integer(self.length())
        if tag == b"f":
            return struct.unpack(">d", self.take(8))[0]
        if tag == b"c":
            return complex(*struct.unpack(">dd", self.take(16)))
        if tag == b"s":
            return self.text(self.length())
        if tag == b"b":
            return self.take(self.length())
        if tag == b"h" and self.references:
            return Handle(int.from_bytes(self.take(8), "big"))
        if tag == b"n" and self.references:
            name = self.text(self.length())
            if not name.isidentifier() or not name.isascii():
                raise MalformedError("no name of Python's own")
            return Builtin(name)
        raise MalformedError(f"unexpected tag {tag!r} at {self.at - 1}")

    def value(self, depth: int = 0) -> Any:
        tag = self.take(1)
        further = self.references and tag in b"Iv"
        if tag not in _BUILD and tag != b"d" and not further:
            return self.leaf(tag)
        if depth == MAX_DEPTH:
            raise MalformedError(f"nested more than {MAX_DEPTH} deep")
        if tag == b"v":
            name, args = self.value(depth + 1), self.value(depth + 1)
            if type(name) is not str or type(args) is not list:
                raise MalformedError("no value of the library")
            return Known(name, args)
        count = self.length()
        if tag == b"I":
            return Iterated([self.value(depth + 1) for _ in range(count)])
        if tag == b"d":
            pairs = Pairs([(self.value(depth + 1), self.value(depth + 1)) for _ in range(count)])
            distinct([key for key, _ in pairs.items])
            return pairs
        kind, items = _BUILD[tag], [self.value(depth + 1) for _ in range(count)]
        if kind is not set and kind is not frozenset:
            return kind(items)
        distinct(items)
        return Members(kind, items)

    def end(self) -> None:
        if self.at != len(self.data):
            raise MalformedError(f"{len(self.data) - self.at} bytes too many")


def decode(data: bytes, references: bool = False) -> Any:
    """The value that `encode` wrote, or MalformedError. Bytes from anyone are safe to read.

    >>> decode(encode([1, (2.5, None)]))
    [1, (2.5, None)]
    >>> decode(encode({"a": 1}))
    Pairs(items=[('a', 1)])
    """
    reader = Reader(data, references)
    value = reader.value()
    reader.end()
    return value


def distinct(items: list[Any]) -> None:
    """MalformedError if one of these keys or members cannot be hashed, or two are equal."""
    if len({fingerprint(item) for item in items}) != len(items) and not any(
        map(holds_nan, items)  # which is equal to no other, and may be there twice
    ):
        raise MalformedError("a key or member is there twice")


def fingerprint(x: Any, strict: bool = False) -> bytes:
    """Bytes that are alike where hashable values are equal in Python; strict: and of one type.

    Sets and frozensets may be Python's own or as `Reader` gives them.
    """
    if x is None or type(x) in (str, bytes, Handle, Builtin):
        return encode(x)
    if type(x) in (bool, int, float, complex):
        if strict:
            return encode(x + 0.0 if type(x) is float else x)  # -0.0 is the same key as 0.0
        return b"#" + encode(simplest(x))
    if type(x) is tuple:
        return b"t" + encode([fingerprint(item, strict) for item in x])
    if type(x) is frozenset or (type(x) is Members and x.kind is frozenset):
        items = x.items if type(x) is Members else x
        return b"Z" + encode(sorted(fingerprint(item, strict) for item in items))
    if type(x) is Known:
        return b"v" + encode([x.kind, *(fingerprint(arg, strict) for arg in x.args)])
    raise MalformedError("a key or member that cannot be hashed")


def simplest(x: complex) -> complex:
    """The integer that a number is equal to, else the float, else itself."""
    if type(x) is complex and x.imag == 0:
        x = x.real
    if type(x) is bool or (type(x) is float and x.is_integer()):
        return int(x)
    return complex(x.real + 0.0, x.imag + 0.0) if type(x) is complex else x  # -0.0 is 0.0


def holds_nan(x: Any) -> bool:
    """Whether a key or member is, or holds, what is equal to nothing."""
    if type(x) in (tuple, frozenset, Members):
        return any(map(holds_nan, x.items if type(x) is Members else x))
    return type(x) in (float, complex) and x != x


def refused(reference: Any) -> Any:
    raise MalformedError(f"{reference} where a plain value was due")


def rebuilt(value: Any, resolve: Callable[[Any], Any] = refused) -> Any:
    """The value with its sets and dicts made again; done inside the sandbox only.

    `resolve` says what a handle or a name stands for. It has to refuse what the other side has no
    business to send: `exit`, sent by a program in the place of its function, would end its test.
    """
    if isinstance(value, Handle | Builtin):
        return resolve(value)
    if isinstance(value, Known):
        return resolve(Known(value.kind, [rebuilt(arg, resolve) for arg in value.args]))
    if isinstance(value, Iterated):
        return iter([rebuilt(item, resolve) for item in value.items])
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
