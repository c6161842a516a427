"""Test code that is one call: recognised, compared as Python compares, judged as when it is run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.records import AssertTest
from maxk.verify import Limits, Verifier, requests, wire
from maxk.verify.answers import Answer
from maxk.verify.asserts import as_call

CHECK = (
    "METADATA = {'by': 'x'}\n\ndef check(candidate):\n    assert candidate(%s) == %s\n\ncheck(%s)"
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert f(1, -2.5, 'a') == [None, (1,)]", ("f", (1, -2.5, "a"), {}, [None, (1,)])),
        ("assert f() == set(), 'a message'", ("f", (), {}, set())),
        (CHECK % ("x=[1]", "True", "f"), ("f", (), {"x": [1]}, True)),
        (CHECK % ("{1: 2}", "b'a'", "Solution().g"), ("Solution().g", ({1: 2},), {}, b"a")),
    ],
)
def test_a_call_with_literals_is_recognised(code, expected):
    assert as_call(AssertTest(code)) == expected


@pytest.mark.parametrize(
    "code",
    [
        *("assert f(1)", "assert f(1) != 2", "assert f(1) == 2 == 2", "assert not f(1) == 2"),
        *("assert f(x) == 1", "assert f(1) == g(1)", "assert f(*[1]) == 1", "assert f(**{}) == 1"),
        *("assert f(1.0/3) == 1", "assert set(f(1)) == {1}", "assert 1 == f(1)", "f(1) == 2"),
        *("import math\nassert f(1) == 1", "assert f(1) == 1\nassert f(2) == 2", "assert", ""),
        *(
            "assert abs(1) == 1",
            "f = 3\nassert f(1) == 1",
            "assert a.f(1) == 1",
            "assert f(1)(2) == 1",
        ),
        *("assert A(1).f(1) == 1", "for i in [1]:\n    assert f(1) == 1", "assert [1][0] == 1"),
        CHECK % ("1", "2", "f") + "\ncheck(f)",
        (CHECK % ("1", "2", "f")).replace("assert", "return"),
        (CHECK % ("1", "2", "f")).replace("assert candidate", "assert other"),
        (CHECK % ("1", "2", "f")).replace("check(f)", "chuck(f)"),
        (CHECK % ("1", "2", "f")).replace("(candidate)", "(candidate=max)"),
    ],
)
def test_all_other_code_is_left_to_a_process_that_runs_it(code):
    assert as_call(AssertTest(code)) is None


def test_a_name_of_python_is_the_programs_only_if_the_test_says_so():
    assert as_call(AssertTest("assert sum(2, 3) == 6")) is None
    assert as_call(AssertTest("assert sum(2, 3) == 6", function="sum")) is not None


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0, 0.5, 1j]),
    st.sampled_from(["", "a", "1"]), st.binary(max_size=1), st.integers(),
)  # fmt: skip
keys = st.one_of(scalars, st.tuples(scalars), st.frozensets(scalars, max_size=2))
values = st.recursive(
    st.one_of(scalars, st.sets(keys, max_size=3), st.frozensets(scalars, max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
    ),
    max_leaves=6,
)
literal_keys = st.one_of(scalars, st.tuples(scalars))
literals = st.recursive(
    st.one_of(scalars, st.sets(literal_keys, max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(literal_keys, inner, max_size=3),
    ),
    max_leaves=6,
)


def equal(got: bytes, expected: Any) -> bool:
    return Answer(expected, "python").wrong(got) is None


@given(values, literals)
def test_equal_is_pythons_equality(got, expected):
    assert equal(wire.encode(got), expected) == (got == expected)


@given(literals)
def test_equal_knows_a_value_again(value):
    assert equal(wire.encode(value), value)


def test_a_forged_reply_with_members_twice_is_not_equal():
    one, two, none = b"\0\0\0\1", b"\0\0\0\2", wire.encode(0)
    member = wire.encode(1)
    assert not equal(b"S" + two + member + member, {1, 2})
    assert not equal(b"d" + two + member + none + member + none, {1: 0, 2: 0})
    assert not equal(b"S" + two + b"l" + one + member + wire.encode(2), {1, 2})
    assert not equal(b"d\0\0\0\0", ())


PROGRAM = """
import collections
def f(x): return {0: 5, 1: 5.0, 2: True, 3: [5], 4: None}.get(x)
def counted(): return collections.Counter("aab")
def raising(x): raise ValueError
def asserting(x): assert x == 2
def listed(*args, **named): return [args, named]
def made(): return (i for i in [1])
class Solution:
    def g(self, x): return x + 1
class Odd(int):
    def __eq__(self, other): return True
def odd(): return Odd()
"""
CODES = [
    *(f"assert f({i}) == 5" for i in range(5)),
    *("assert counted() == {'a': 2, 'b': 1}", "assert counted() == {'a': 1}", "assert odd() == 7"),
    *("assert raising(1) == 1", "assert asserting(1) == 1", "assert asserting(2) == None"),
    *("assert listed(1, a={2}) == [(1,), {'a': {2}}]", "assert made() == [1]"),
    *("assert missing(1) == 1", "assert f(1, 2) == 1", "assert f([]) == None"),
    *(CHECK % ("1", "2", "Solution().g"), CHECK % ("x=1", "3", "Solution().g")),
    *(CHECK % ("1", "2", "Solution().h"), CHECK % ("y=1", "3", "Solution().g")),
]


def test_the_verdict_is_the_same_as_when_the_test_code_is_run(monkeypatch):
    tests: Any = [AssertTest(code) for code in CODES]
    assert all(as_call(test) for test in tests)
    with Verifier(workers=1, limits=Limits(cpu_seconds=1.0)) as verifier:
        (found,) = verifier.judge([(PROGRAM, tests)])
        assert verifier.workers[0].job < 6  # few of them need test code to be run
        monkeypatch.setattr(requests, "as_call", lambda test: None)
        (expected,) = verifier.judge([(PROGRAM, tests)])
    assert [t.status for t in found.tests] == [t.status for t in expected.tests]
    assert {t.status.value for t in found.tests} == {"passed", "wrong answer", "runtime error"}
    assert found.tests[3].reason == "got [5]"
