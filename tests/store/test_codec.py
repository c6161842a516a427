"""Tests and verdicts as JSON: what is written is read again, and faults are named."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.records import AssertTest, CallTest, Status, StdinTest, TestResult, Verdict
from maxk.store.codec import dict_of_verdict, tests_from_json, tests_to_json, verdict_of_dict

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
keys = st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner),
    max_leaves=8,
)
tolerances = st.floats(0, 1)
all_tests = (
    st.builds(StdinTest, st.text(), st.text(), st.none() | tolerances, st.booleans())
    | st.builds(CallTest, st.text(), st.lists(values).map(tuple), values, tolerances)
    | st.builds(AssertTest, st.text(), st.none() | st.text(min_size=1))
)


def typed(value):
    """The value with its types, so that 1, 1.0 and True are told apart."""
    if isinstance(value, list | tuple):
        return type(value), [typed(x) for x in value]
    if isinstance(value, set):
        return set, {(type(x), x) for x in value}
    if isinstance(value, dict):
        return dict, [(typed(k), typed(v)) for k, v in value.items()]
    return type(value), value


@settings(max_examples=40)
@given(st.lists(all_tests))
def test_what_is_written_is_read_again_with_its_types(tests):
    again = tests_from_json(tests_to_json(tests))
    assert [typed(list(vars(a).values())) for a in again] == [
        typed(list(vars(b).values())) for b in tests
    ]


def test_infinity_survives_inside_json_and_is_refused_inside_a_tuple():
    (test,) = tests_from_json(tests_to_json([CallTest("f", (float("inf"),), [1.0])]))
    assert test == CallTest("f", (float("inf"),), [1.0])
    with pytest.raises(ValueError, match=r"expected=\(inf,\) .* cannot be written"):
        tests_to_json([CallTest("f", (), (float("inf"),))])


def test_nulls_that_a_table_fills_in_are_as_good_as_nothing():
    columns = dict.fromkeys(
        ["input", "output", "function", "args", "expected", "assert", "tolerance"]
    )
    rows = [
        {**columns, "input": "1", "output": "2"},
        {**columns, "function": "f", "args": [1]},
        {**columns, "assert": "assert f(1)"},
    ]
    assert tests_from_json(rows) == [
        StdinTest("1", "2"),
        CallTest("f", (1,), None),
        AssertTest("assert f(1)"),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "tests is not JSON: Expecting property name"),
        ('{"input": "1"}', "tests is a object; use a list of tests"),
        ("[3]", r"test 1 is a int; use an object"),
        ("[{}]", r"test 1 has the fields none; a test has input and output, or"),
        ('[{"stdin": "1"}]', r"test 1 has the fields stdin; a test has input and output, or"),
        ('[{"input": "1"}]', r"test 1 has input and no output"),
        ('[{"input": 1, "output": ""}]', r"test 1.input is a int; use a str"),
        ('[{"input": "1", "outptu": ""}]', r"test 1.outptu is unknown; a test with input has"),
        ('[{"input": "", "output": "", "tolerance": true}]', "tolerance is a bool; use a number"),
        ('[{"function": "f", "args": [1]}]', r"test 1 has function and no expected"),
        ('[{"function": "f", "args": 1, "expected": 1}]', "args is a int; use a list"),
        (
            '[{"input": "", "output": ""}, {"function": "f", "args_python": "g()", "expected": 1}]',
            r"test 2.args_python is not a Python literal",
        ),
        ('[{"function": "f", "args_python": "3", "expected": 1}]', "use a list or a tuple"),
    ],
)
def test_a_fault_is_named_with_its_place(given, message):
    with pytest.raises(ValueError, match=message):
        tests_from_json(given)


def test_a_verdict_is_written_and_read_again():
    results = (TestResult(Status.PASSED, "", 0.25), TestResult(Status.TIMEOUT, "CPU limit", 4.0))
    verdict = Verdict(results, "A")
    line = json.dumps(dict_of_verdict(verdict))
    assert verdict_of_dict(json.loads(line)) == verdict
    assert json.loads(line)["fraction"] == 0.5
