"""Right or wrong: what counts as the same output and the same value."""

import gc
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.records import StdinTest
from maxk.verify.answers import Answer
from maxk.verify.compare import right_output, same_lines, same_output
from maxk.verify.wire import encode
from tests.clock import cpu_seconds, doubled

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("1 2 3\n", "1 2 3", True),
        ("1\n2\n3", "1 2 3\n", True),
        ("  1\t2 ", "1 2", True),
        ("1 2\r\n", "1 2\n", True),
        ("", "", True),
        ("1 2", "1 2 3", False),
        ("1 2 3 4", "1 2 3", False),
        ("1\nwrong", "1\nright", False),
        ("YES", "yes", False),
        ("1.0", "1", False),
        ("12", "1 2", False),
        ("", "1", False),
        ("1", "", False),
    ],
)
def test_tokens_must_all_be_equal(got, expected, same):
    assert same_output(got, expected) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("0.33333", "0.3333333333", True),
        ("1", "1.0", True),
        ("1e3", "1000.0", True),
        ("1000", "1e3", True),
        ("1000000", "1000000.5", True),
        ("1.0", "1", False),  # where an integer is expected nothing else will do
        ("1000000", "1000001", False),
        ("0.334", "0.3333", False),
        ("a 1.0", "b 1.0", False),
        ("nan", "1.0", False),
        ("inf", "1.0", False),
        ("nan", "nan", True),
        ("1_000", "1000.0", False),
        ("\u0661", "1.0", False),
        ("9" * 400, "8.0" * 100, False),
        ("0x10", "16.0", False),
        ("1e999", "1e998", False),
        ("1.", "1.0", True),
        (".5", "0.5", True),
        ("+.5e-1", "0.05", True),
        (".", "0.0", False),
        ("1e", "1.0", False),
        ("1 2", "1", False),
    ],
)
def test_with_a_tolerance_decimal_numbers_need_only_be_close(got, expected, same):
    assert same_output(got, expected, tolerance=1e-4) is same


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("a b\n", "a b", True),
        ("a b\r\n", "a b\n", True),
        ("a  b", "a b", False),
        (" a b", "a b", False),
        ("a b \n", "a b\n", False),
        ("a\n\n", "a\n", False),
    ],
)
def test_exact_output_differs_by_line_ends_only(got, expected, same):
    assert same_output(got, expected, exact=True) is same


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\r\n", "\v", "\f"])
def test_ascii_blanks_separate_tokens(blank):
    assert same_output(f"1{blank}2", "1 2")


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u3000", "\x85", "\x1c", "\u2028"])
def test_other_blanks_are_part_of_a_token(blank):
    assert not same_output(f"1{blank}2", "1 2")


def test_output_that_is_no_utf8_is_wrong():
    assert same_output(b"a\xc3\xa4", "a\u00e4")
    for bad in (b"a\xff", b"a\xed\xa0\x80", b"\xc3"):
        assert not same_output(bad, bad.decode("utf-8", "replace"))
        assert not same_output(bad, bad.decode("utf-8", "surrogateescape"))


def same_value(got: bytes, expected, tolerance: float = 1e-6) -> bool:
    return Answer(expected, "strict", tolerance).wrong(got) is None


def sent(value) -> bytes:
    return encode(value)


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (1, 1, True),
        (True, 1, False),
        (1, True, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (0.1 + 0.2, 0.3, True),
        (0.31, 0.3, False),
        (NAN, NAN, True),
        (NAN, 0.0, False),
        (0.0, NAN, False),
        (INF, INF, True),
        (INF, 1e308, False),
        (1e12 + 1, 1e12, True),
        ("a", "a", True),
        ("a", b"a", False),
        (None, None, True),
        (None, False, False),
        ([1, 2], [1, 2], True),
        ([1, 2], (1, 2), False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([[0.1 + 0.2]], [[0.3]], True),
        ([True], [1], False),
        ({1, 2}, {2, 1}, True),
        ({1}, frozenset({1}), False),
        ({True}, {1}, False),
        ({0.0}, {-0.0}, True),
        ({1}, [1], False),
        ({1}, {1, 2}, False),
        ({(1, "a")}, {(1, "a")}, True),
        ({frozenset({1, 2})}, {frozenset({2, 1})}, True),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({1: "x"}, {True: "x"}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({}, set(), False),
        ({}, [], False),
        (1 + 2j, 1 + 2j, True),
        (1 + 2j, 1 - 2j, False),
    ],
)
def test_values_are_compared_with_their_types(got, expected, same):
    assert same_value(sent(got), expected) is same


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner)
    ),
    max_leaves=12,
)


@given(plain)
def test_every_value_is_the_same_as_itself(value):
    assert same_value(sent(value), value)


@given(plain, plain)
def test_with_no_tolerance_only_equal_values_are_the_same(a, b):
    if same_value(sent(a), b, tolerance=0.0):
        assert a == b
        assert type(a) is type(b)


def test_a_dict_sent_with_a_key_twice_is_wrong():
    forged = b"d" + (2).to_bytes(4, "big") + encode(1) + encode("x") + encode(1) + encode("y")
    assert not same_value(forged, {1: "y"})
    assert not same_value(forged, {1: "y", 2: "x"})


@pytest.fixture
def no_collections():
    """What other tests left in memory would be looked through, which takes longer than these."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_members_that_all_hash_alike_are_compared_in_linear_time():
    same_hash = [i * (2**61 - 1) for i in range(100_000)]
    data = b"S" + encode(same_hash)[1:]
    assert cpu_seconds(lambda: same_value(data, set(range(100_000)))) < 5
    assert not same_value(data, set(range(100_000)))


@pytest.mark.parametrize(
    ("got", "expected", "reason"),
    [
        (14.0, 14, "14.0 is a float, 14 was expected"),
        (14, 14.0, "14 is an int, 14.0 was expected"),
        (True, 1, "True is a bool, 1 was expected"),
        ((1, 2), [1, 2], "(1, 2) is a tuple, [1, 2] was expected"),
        ([1, [2.0]], [1, [2]], "2.0 is a float, 2 was expected"),
        (15, 14, "got 15"),
        ("14", 14, "got '14'"),
    ],
)
def test_a_value_of_another_type_is_told(got, expected, reason):
    assert Answer(expected).wrong(encode(got)) == reason


@given(plain, plain)
def test_python_equality_is_what_python_says(got, expected):
    assert (Answer(expected, "python").wrong(encode(got)) is None) == (got == expected)


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "same"),
    [
        (2, 2.0, 0, True),
        (0, False, 0, True),
        ([1, 3, 2, 8], [1, 3, 2.0, 8], 0, True),
        (2.0000005, 2.0, 0, True),
        (2.0000005, 2, 0, False),
        ([2.0000005], [2.0], 0, True),
        ((2.0,), [2.0], 0, False),
        ([2.0000005], [2.0, 1.0], 0, False),
        ([2, 1.1], [2, 1.0], 0.2, True),
        ([[1.05]], [[1.0]], 0.1, True),
        ([1.0, "a"], [1.0, "a"], 0.1, True),
        ([1.01, "a"], [1.0, "a"], 0.1, False),
        (NAN, NAN, 0.1, False),
        (INF, INF, 0.1, True),
        (INF, 1.0, 0.1, False),
        ({1: 1.01}, {1: 1.0}, 0.1, False),
        ([1.01, []], [1.0, []], 0.1, False),  # numpy makes no array of it
        ([[1.01], [2.0, 3.0]], [[1.0], [2.0, 3.0]], 0.1, False),
        ([[1.01], (2.0,)], [(1.0,), [2.0]], 0.1, True),
        ([2**63 + 1, 0.5], [2**63, 0.5], 0.1, True),
        ([2**64 + 1, 0.5], [2**64, 0.5], 0.1, False),
    ],
)
def test_evalplus_equality(got, expected, tolerance, same):
    """Each as EvalPlus 0.3.1 has it."""
    assert (Answer(expected, "evalplus", tolerance).wrong(encode(got)) is None) is same


def test_livecodebench_takes_a_tuple_for_the_whole_result():
    for got, same in (((1, 2), True), ([1, 2], True), ([1.0, 2], True), ([1, 3], False)):
        assert (Answer([1, 2], "livecodebench").wrong(encode(got)) is None) is same
    assert Answer([[1]], "livecodebench").wrong(encode([(1,)])) is not None


def test_what_is_too_long_is_not_read(no_collections):
    """A reply of a megabyte where a number is expected costs the judge next to nothing."""
    replies = [
        encode(list(range(150_000))),
        encode("x" * 1_000_000),
        encode(1 << 8_000_000),
        b"l\0\0\0\1" * 99 + b"l\0\x0c\0\0" + b"N" * 786_432,
        encode({i: i for i in range(60_000)}),
        b"S" + encode([i * (2**61 - 1) for i in range(60_000)])[1:],
    ]
    for expected in (1, [1, 2], {1, 2}, {1: 2}, "x"):
        for equality in ("strict", "python", "evalplus", "livecodebench"):
            answer = Answer(expected, equality)
            for reply in replies:
                assert answer.wrong(reply) is not None
                assert cpu_seconds(partial(answer.wrong, reply)) < 0.02


def test_comparison_stops_at_the_first_difference(no_collections):
    expected = list(range(150_000))
    answer = Answer(expected)
    wrong = encode([-1, *expected[1:]])
    assert answer.wrong(wrong) is not None
    assert cpu_seconds(lambda: answer.wrong(wrong)) < 0.02


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("\n  1 2  \n3 \r\n\n", "1 2\n3", True),
        ("1 2 3", "1 2\n3", False),
        ("1\n\n2", "1\n2", False),
        ("1.50 +2 3e0", "1.5  2 3", True),
        ("1.0", "1", True),
        ("50000000000000001", "50000000000000000", False),
        ("0.1", "0.10000000000000001", False),
        ("a  b", "a b", False),  # only numbers may be apart by more than one blank
        ("a 1.0", "a 1", False),
        ("NaN", "nan", False),
        ("nan", "nan", True),
        ("snan", "1", False),
        ("Infinity", "inf", True),
        ("1_0 \u0661", "10 1", True),
        ("1e99999999999999999999", "1", False),
        ("1", "1 1", False),
        ("", "\n", True),
        (b"\xff", "1", False),
    ],
)
def test_lines_are_those_of_livecodebench(got, expected, same):
    """Each pair was given to LiveCodeBench's own grade_stdio, apart from that of bytes."""
    assert same_lines(got, expected) is same


UNITS = [
    "7",
    "1 ",
    "+",
    "-",
    ".",
    "1.",
    "e",
    "1e5 ",
    "0.5 ",
    " ",
    "\t",
    "\n",
    "\r\n",
    "ab ",
    "nan ",
    "_",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["tokens", "tolerance", "exact", "livecodebench"])
def test_output_is_compared_in_linear_time(unit, kind):
    """A quarter of a megabyte: as expected, other at its end, and where little is expected."""
    options: Any = {
        "tokens": {},
        "tolerance": {"tolerance": 1e-6},
        "exact": {"exact": True},
        "livecodebench": {"equality": "livecodebench"},
    }[kind]

    def work(size: int) -> None:
        text = unit * (size // len(unit))
        for got, expected in ((text, text), (text + "1", text + "2"), (text, "1.5"), ("1.5", text)):
            right_output(got.encode(), StdinTest("", expected, **options))

    assert doubled(work, 2**17, little=0.15) < 1.0  # four times a quarter of a megabyte


@pytest.mark.parametrize("equality", ["strict", "python", "evalplus", "livecodebench"])
@pytest.mark.parametrize(
    "made",
    [
        lambda n: list(range(n)),
        lambda n: [float(i) for i in range(n)],
        lambda n: set(range(n)),
        lambda n: {i: str(i) for i in range(n)},
        lambda n: "x" * (8 * n),
        lambda n: 1 << (64 * n),
        lambda n: [frozenset([i]) for i in range(n)],
        lambda n: {(i, i) for i in range(n)},
    ],
)
def test_values_are_compared_in_linear_time(made, equality):
    def work(n: int) -> None:
        expected, other = made(n), made(n + 1)
        answer = Answer(expected, equality)
        got = encode(expected)
        answer.bytes = b""  # so that it is read
        answer.wrong(got)
        answer.wrong(encode(other))

    doubled(work, 2_500, little=0.1)
