"""LiveCodeBench and LiveBench coding, whose hidden tests are compressed.

`private_test_cases` is JSON, or that JSON as a pickled string, compressed, in base64. A pickle can
run any code when it is read, so here it may hold one string and nothing else. Nothing is unpacked
before the tests of a problem are used.
"""

import base64
import binascii
import json
import pickletools
import zlib
from functools import partial
from typing import Any

from maxk.data.base import Account, LazyTests, Row, plain_name, unix
from maxk.records import CallTest, Problem, StdinTest, Test
from maxk.store.rows import read_json

MAX_BYTES = 512 * 2**20  # of one problem's tests, unpacked

# LeetCode has these loaded, so its starters use names such as List without an import.
IMPORTS = """\
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""


def live_code_bench(row: Row, account: Account) -> Problem | None:
    """A row of livecodebench/code_generation_lite.

    Public tests are shown and graded, private ones graded only. Problems from LeetCode ask for a
    method; the others read stdin.
    """
    return _problem(row, row, account, starter=row.text("starter_code", "") or None)


def live_bench(row: Row, account: Account) -> Problem | None:
    """A row of livebench/coding.

    The statement is the question without LiveBench's instructions. In a completion task the
    program has to begin with the partial solution, which is therefore the starter.
    """
    original = Row(row.dataset, f"{row.where}, original_json", row.json("original_json", dict))
    partial_solution = row.text("partial_solution", "")
    return _problem(
        row,
        original,
        account,
        starter=partial_solution or original.text("starter_code", "") or None,
        reference=row.text("solution", "") or None,
        tags=(row.text("task"),) if row.has("task") else (),
    )


def unpacked(blob: str) -> Any:
    """What a field of tests holds: JSON, or a compressed and pickled string of JSON.

    ValueError says what is wrong with it. No code in the pickle is run, nor any name looked up.
    """
    try:
        return read_json(blob)
    except ValueError:
        pass
    try:
        packed = base64.b64decode(blob, validate=True)
    except binascii.Error as error:
        raise ValueError(f"neither JSON nor base64: {error}") from None
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, MAX_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"not compressed by zlib: {error}") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes when decompressed")
    if not stream.eof:
        raise ValueError("the compressed data ends too early")
    try:
        return read_json(plain_text(data))
    except json.JSONDecodeError as error:
        raise ValueError(f"the packed text is not JSON: {error}") from None


def plain_text(data: bytes) -> str:
    """The string that was pickled; ValueError if it was anything else.

    The pickle is read, not run: its instructions may say one string, and that it ends.
    """
    texts = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name in _TEXT:
                texts.append(argument)
            elif operation.name not in _HARMLESS:
                raise ValueError(f"it has the instruction {operation.name}")
    except Exception as error:  # damaged pickles raise nearly everything
        raise ValueError(f"not the pickle of a plain string: {error}") from None
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise ValueError(f"not the pickle of a plain string: it holds {len(texts)}")
    return texts[0]


_TEXT = {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
_HARMLESS = {"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"}


def _problem(
    row: Row, question: Row, account: Account, starter: str | None, **more: Any
) -> Problem | None:
    own = row.id(row.text("question_id"))
    public = row.json("public_test_cases", list, [])
    private = row.text("private_test_cases", "")
    if not public and private in ("", "[]"):
        return account.drop("no tests")
    function = _function(question)
    examples = tuple(_tests(own, "public_test_cases", public, function))
    return Problem(
        id=own,
        statement=question.text("question_content"),
        tests=LazyTests(partial(_all_tests, own, examples, private, function)),
        entry_point=function,
        preamble=None if function is None else IMPORTS,
        difficulty=question.text("difficulty", "") or None,
        examples=examples,
        starter=starter,
        **more,
    )


def _function(question: Row) -> str | None:
    """What to call: the method of the class that the starter code opens, or a function."""
    metadata = question.json("metadata", dict, {})
    name = metadata.get("func_name")
    in_class = "class Solution" in question.text("starter_code", "")
    return f"Solution().{name}" if name and in_class else name


def _all_tests(
    own: str, examples: tuple[Test, ...], private: str, function: str | None
) -> list[Test]:
    field = "private_test_cases"
    try:
        found = unpacked(private) if private else []
    except ValueError as error:
        raise ValueError(f"{own}, field {field}: {error}") from None
    tests = [*examples, *_tests(own, field, found, function)]
    if not tests:
        raise ValueError(f"{own}, field {field}: holds no tests, and none are public")
    return tests


def _tests(own: str, field: str, given: Any, function: str | None) -> list[Test]:
    if not isinstance(given, list):
        raise ValueError(f"{own}, field {field}: holds {plain_name(given)}; use a list")
    tests: list[Test] = []
    for number, test in enumerate(given, start=1):
        try:
            tests.append(_test(test, function))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{own}, field {field}, test {number}: {reason}") from None
    return tests


def _test(given: dict[str, str], function: str | None) -> Test:
    """One test; a functional one has an argument in JSON on each line and the result in JSON."""
    inputs, output = unix(given["input"]), unix(given["output"])
    if given["testtype"] == "stdin":
        return StdinTest(inputs, output, equality="livecodebench")
    if function is None:
        raise ValueError("calls a function that the metadata does not name")
    lines = inputs.removesuffix("\n").split("\n") if inputs else []
    args = tuple(map(read_json, lines))
    return CallTest(function, args, read_json(output), equality="livecodebench")
