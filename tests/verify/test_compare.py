"""Right or wrong: what counts as the same output and the same value."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.verify.compare import same_output, same_value
from maxk.verify.wire import decode, encode

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
        ("1.0", "1", True),
        ("1e3", "1000", True),
        ("1000000", "1000000.5", True),
        ("0.334", "0.3333", False),
        ("a 1.0", "b 1.0", False),
        ("nan", "1", False),
        ("inf", "1", False),
        ("nan", "nan", True),
        ("1_000", "1000", False),
        ("\u0661", "1", False),
        ("9" * 400, "8" * 400, False),
        ("0x10", "16", False),
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


def sent(value):
    return decode(encode(value))


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
    assert not same_value(decode(forged), {1: "y"})
    assert not same_value(decode(forged), {1: "y", 2: "x"})


def test_members_that_all_hash_alike_are_compared_in_linear_time():
    same_hash = [i * (2**61 - 1) for i in range(100_000)]
    data = b"S" + encode(same_hash)[1:]
    started = time.process_time()
    assert not same_value(decode(data), set(range(100_000)))
    assert time.process_time() - started < 5
