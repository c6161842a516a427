"""Tests and verdicts as JSON: how they lie in files and in the columns of a data set.

A test is an object with one of these sets of fields (docs/reference/files.md):

    {"input": "3\\n", "output": "6"}                          and optionally "tolerance", "exact",
                                                              "equality"
    {"function": "double", "args": [3], "expected": 6}        and optionally "tolerance",
                                                              "equality"
    {"assert": "assert double(3) == 6"}                       and optionally "function",
                                                              "classes", "nodes"

Values that JSON does not have (tuples, sets, dicts with other keys than strings) are written as
Python literals in "args_python" and "expected_python", and so are integers of thousands of digits,
in hexadecimal.
"""

import ast
import json
from collections.abc import Callable, Sequence
from typing import Any

from maxk.records import (
    AssertTest,
    CallTest,
    Status,
    StdinTest,
    Test,
    TestResult,
    Verdict,
    is_long,
    literal,
)
from maxk.store.rows import read_json

_NUMBER = (int, float)
FIELDS: dict[str, dict[str, Any]] = {  # the field that tells the kind: all its fields and types
    "assert": {"assert": str, "function": str, "classes": list, "nodes": str},
    "function": {
        "function": str,
        "args": list,
        "args_python": str,
        "expected": object,
        "expected_python": str,
        "tolerance": _NUMBER,
        "equality": str,
    },
    "input": {"input": str, "output": str, "tolerance": _NUMBER, "exact": bool, "equality": str},
}


def tests_to_json(tests: Sequence[Test]) -> str:
    """The tests as one line of JSON, for a column of a data set.

    >>> tests_to_json([StdinTest("3", "6")])
    '[{"input": "3", "output": "6"}]'
    """
    return json.dumps([dict_of_test(test) for test in tests], ensure_ascii=False)


def tests_from_json(given: str | Sequence[Any]) -> list[Test]:
    """Tests from JSON text, or from what JSON text was read as.

    >>> tests_from_json('[{"function": "f", "args": [1], "expected": 2}]')
    [CallTest(function='f', args=(1,), expected=2, tolerance=1e-06, equality='strict')]
    """
    if isinstance(given, str):
        try:
            given = read_json(given)
        except ValueError as error:
            raise ValueError(f"tests is not JSON: {error}") from None
    if not isinstance(given, list | tuple):
        raise ValueError(f"tests is a {_name(given)}; use a list of tests")
    return [read_test(test, f"test {i}") for i, test in enumerate(given, start=1)]


def dict_of_test(test: Test) -> dict[str, Any]:
    """One test as an object of plain JSON."""
    if isinstance(test, StdinTest):
        out: dict[str, Any] = {"input": test.input, "output": test.output}
        if test.tolerance is not None:
            out["tolerance"] = test.tolerance
        if test.equality != "tokens":
            out["equality"] = test.equality
        return {**out, "exact": True} if test.exact else out
    if isinstance(test, AssertTest):
        more = {"function": test.function, "classes": list(test.classes), "nodes": test.nodes}
        return {"assert": test.code} | {name: value for name, value in more.items() if value}
    out = {"function": test.function}
    for field, value in (("args", list(test.args)), ("expected", test.expected)):
        if _is_json(value):
            out[field] = value
        else:
            out[f"{field}_python"] = _literal(value, field)
    if test.tolerance != 1e-6:
        out["tolerance"] = test.tolerance
    return out if test.equality == "strict" else {**out, "equality": test.equality}


def read_test(given: Any, where: str = "test") -> Test:
    """One test from its object; ValueError says where and what is wrong."""
    if isinstance(given, StdinTest | CallTest | AssertTest):
        return given
    if not isinstance(given, dict):
        raise ValueError(f"{where} is a {_name(given)}; use an object")
    # Tables fill fields that a row does not have with nulls.
    kind = next((kind for kind in FIELDS if given.get(kind) is not None), None)
    keep = "expected" if kind == "function" else None
    given = {key: value for key, value in given.items() if value is not None or key == keep}
    if kind is None:
        raise ValueError(
            f"{where} has the fields {', '.join(given) or 'none'}; a test has input and output, "
            "or function, args and expected, or assert"
        )
    for field, value in given.items():
        if field not in FIELDS[kind]:
            known = ", ".join(FIELDS[kind])
            raise ValueError(f"{where}.{field} is unknown; a test with {kind} has {known}")
        wanted = FIELDS[kind][field]
        if not isinstance(value, wanted) or (wanted is _NUMBER and isinstance(value, bool)):
            what = "a number" if wanted is _NUMBER else f"a {wanted.__name__}"
            raise ValueError(f"{where}.{field} is a {_name(value)}; use {what}")
    try:
        return _BUILD[kind](given)
    except KeyError as error:
        raise ValueError(f"{where} has {kind} and no {error.args[0]}") from None
    except _LiteralError as error:
        raise ValueError(f"{where}.{error}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def dict_of_verdict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as an object of plain JSON."""
    tests = [[t.status.value, t.reason, round(t.seconds, 6)] for t in verdict.tests]
    figures = {"fraction": verdict.fraction, "passed": verdict.passed}
    return figures | {"tier": verdict.tier, "tests": tests}


def verdict_of_dict(given: dict[str, Any]) -> Verdict:
    """The verdict that `dict_of_verdict` wrote."""
    tests = (TestResult(Status(status), reason, s) for status, reason, s in given["tests"])
    return Verdict(tuple(tests), given["tier"])


# --- the three kinds -----------------------------------------------------------------------------


class _LiteralError(ValueError):
    pass


def _stdin(given: dict[str, Any]) -> StdinTest:
    extra = {key: given[key] for key in ("tolerance", "exact", "equality") if key in given}
    return StdinTest(given["input"], given["output"], **extra)


def _call(given: dict[str, Any]) -> CallTest:
    args, expected = (_value(given, field) for field in ("args", "expected"))
    extra = {name: given[name] for name in ("tolerance", "equality") if name in given}
    if not isinstance(args, list | tuple):
        raise _LiteralError(f"args_python is a {_name(args)}; use a list or a tuple")
    return CallTest(given["function"], tuple(args), expected, **extra)


def _assert(given: dict[str, Any]) -> AssertTest:
    classes = tuple(given.get("classes", ()))
    return AssertTest(given["assert"], given.get("function"), classes, given.get("nodes", ""))


_BUILD: dict[str, Callable[[dict[str, Any]], Test]]
_BUILD = {"input": _stdin, "function": _call, "assert": _assert}


def _value(given: dict[str, Any], field: str) -> Any:
    literal = given.get(f"{field}_python")
    if literal is None:
        return given[field]
    try:
        return ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise _LiteralError(f"{field}_python is not a Python literal: {error}") from None


def _literal(value: Any, field: str) -> str:
    text = literal(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise ValueError(f"{field}={text:.200} is no plain value and cannot be written")
    return text


def _is_json(value: Any) -> bool:
    """Whether JSON gives the very same value back."""
    if type(value) is list:
        return all(map(_is_json, value))
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if type(value) is int:
        return not is_long(value)
    return value is None or type(value) in (str, float, bool)


def _name(value: Any) -> str:
    return {list: "list", dict: "object"}.get(type(value), type(value).__name__)
