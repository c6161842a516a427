"""Values on the wire: what is written comes back, and what is not plain never arrives."""

import contextlib
import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.verify.wire import (
    Builtin,
    Handle,
    Iterated,
    Known,
    MalformedError,
    Members,
    NotPlainError,
    Pairs,
    decode,
    encode,
)
from tests.clock import cpu_seconds

NAN = float("nan")

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.lists(inner).map(tuple), max_leaves=20
)


def same(a, b) -> bool:
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(values)
def test_what_is_encoded_is_decoded_with_its_types(value):
    assert same(decode(encode(value)), value)


def test_sets_and_dicts_arrive_as_lists_of_what_was_sent():
    assert decode(encode({3})) == Members(set, [3])
    assert decode(encode(frozenset())) == Members(frozenset, [])
    assert decode(encode({"a": [1], 2: None})) == Pairs([("a", [1]), (2, None)])


def test_special_values_survive():
    assert math.isnan(decode(encode(float("nan"))))
    assert math.copysign(1, decode(encode(-0.0))) == -1
    for value in ("\ud800", 2**5000, -(2**63), "\0", float("-inf")):
        assert decode(encode(value)) == value


class Int(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "value",
    [
        Int(1),
        type("S", (str,), {})("a"),
        type("L", (list,), {})(),
        object(),
        range(3),
        len,
        Int,
        iter([]),
    ],
)
def test_only_exact_plain_types_are_written_at_any_depth(value):
    for wrapped in (value, [value], {"k": value}, (1, [value])):
        with pytest.raises(NotPlainError, match="not a plain value"):
            encode(wrapped)


def test_cycles_and_deep_nesting_are_refused_on_both_sides():
    cycle: list = []
    cycle.append(cycle)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(NotPlainError, match="nested more than"):
            encode(value)
    with pytest.raises(MalformedError, match="nested more than"):
        decode(b"l\0\0\0\1" * 102 + b"N" * 9)


def test_lists_may_be_a_hundred_deep():
    deep: list = []
    for _ in range(99):
        deep = [deep]
    assert decode(encode(deep)) == deep
    with pytest.raises(NotPlainError, match="nested more than 100 deep"):
        encode([[deep]])


def test_too_much_is_refused_by_the_writer():
    with pytest.raises(NotPlainError, match="more than 1000 bytes"):
        encode(["x" * 100] * 100, max_bytes=1000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"NN",
        b"i\xff\xff\xff\xff",
        b"l\xff\xff\xff\xffN",
        b"l\0\0\0\2N",
        b"f\0",
        b"s\0\0\0\1\xff",
        b"d\0\0\0\1N",
        b"\x80\x04N.",
        struct.pack(">cI", b"S", 2**31),
    ],
)
def test_forged_bytes_are_malformed(data):
    with pytest.raises(MalformedError):
        decode(data)


def test_random_bytes_never_do_anything_but_decode_or_fail():
    """And what is decoded is what `encode` writes: the same bytes come out again."""
    generator = random.Random(0)
    decoded = 0
    for _ in range(20_000):
        data = bytes(generator.choices(b"NTFifcsbltSZd\0\0\0\1\2\xff", k=generator.randrange(40)))
        with contextlib.suppress(MalformedError):
            value = decode(data)
            decoded += 1
            assert written(value) == data
    assert decoded > 100


def written(value) -> bytes:
    """The bytes of a decoded value, its sets and dicts in the order in which they were sent."""
    if type(value) is Pairs:
        body = b"".join(written(k) + written(v) for k, v in value.items)
        return b"d" + len(value.items).to_bytes(4, "big") + body
    if type(value) is Members:
        body = b"".join(map(written, value.items))
        tag = b"S" if value.kind is set else b"Z"
        return tag + len(value.items).to_bytes(4, "big") + body
    if type(value) in (list, tuple):
        body = b"".join(map(written, value))
        return (b"l" if type(value) is list else b"t") + len(value).to_bytes(4, "big") + body
    return encode(value)


def counted(tag: bytes, *items: bytes) -> bytes:
    return tag + len(items).to_bytes(4, "big") + b"".join(items)


ONE, PADDED = encode(1), b"i\0\0\0\2\0\1"


@pytest.mark.parametrize(
    "data",
    [
        PADDED,
        b"i\0\0\0\0",
        counted(b"S", counted(b"l")),
        counted(b"S", counted(b"d")),
        counted(b"S", counted(b"S")),
        counted(b"S", counted(b"t", counted(b"l"))),
        counted(b"S", ONE, ONE),
        counted(b"S", ONE, b"T"),
        counted(b"S", ONE, encode(1.0)),
        counted(b"S", encode(0.0), encode(-0.0)),
        counted(b"S", counted(b"Z", ONE, encode(2)), counted(b"Z", encode(2), ONE)),
        counted(b"d", counted(b"l"), ONE),
        counted(b"h", ONE)[:9],
        b"h" + bytes(8),
        b"n" + encode("exit")[1:],
        counted(b"I", ONE),
        b"v" + encode("range") + encode([1]),
        b"l\0\0\0\1" * 101,
    ],
)
def test_what_the_encoder_cannot_write_is_malformed(data):
    for wrapped in (data, counted(b"l", data), counted(b"d", ONE, data)):
        with pytest.raises(MalformedError):
            decode(wrapped)


def test_references_are_read_only_where_they_are_due():
    for value in (Handle(3), Builtin("exit"), Iterated([1]), Known("range", [0, 1, 1])):
        assert decode(encode([value]), references=True) == [value]
        with pytest.raises(MalformedError):
            decode(encode([value]))


def test_nan_may_be_there_twice():
    assert len(decode(encode({NAN, -NAN})).items) == 2


def test_numbers_that_all_hash_alike_are_read_in_linear_time():
    """Multiples of 2**61 - 1 hash to 0; a set of them would be built in quadratic time."""
    same_hash = [i * (2**61 - 1) for i in range(200_000)]
    data = b"S" + encode(same_hash)[1:]
    assert len(decode(data).items) == 200_000
    assert cpu_seconds(lambda: decode(data)) < 5
