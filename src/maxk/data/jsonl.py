"""Your own problems: one line of JSON each, checked field by field.

    id, statement    text
    tests            a list of tests, as `maxk.store.codec` writes them; at least one
    shown            how many of the tests, from the first on, the prompt shows; they are graded
                     like the others; default 0
    entry_point      the function to write; needed if a test calls one
    reference        a correct program
    difficulty       text
    tags             a list of text
    starter          code that the solution has to begin with
    preamble         imports that are put before every solution
    time_limit       seconds a test
    verbatim         true: the prompt is the statement and nothing else

All but the first two and `tests` may be left out or null. Any other field is an error.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maxk.data.base import Account, Row, plain_name, unix
from maxk.data.functions import parsed
from maxk.records import AssertTest, Problem, StdinTest, Test
from maxk.store.codec import read_test
from maxk.store.rows import lines, parse
from maxk.verify.names import declared

_REQUIRED = ("id", "statement", "tests")
_TEXT = ("id", "statement", "entry_point", "reference", "difficulty", "starter", "preamble")
_FIELDS = (*_REQUIRED, "shown", *_TEXT[2:], "tags", "time_limit", "verbatim")
_LISTED = 5  # faults that an error spells out


@dataclass(frozen=True)
class Fault:
    """One fault of a file: its line, counted from 1, its field, and what is wrong."""

    line: int
    field: str  # empty where the line as a whole is at fault
    message: str

    def __str__(self) -> str:
        return f"line {self.line}{f', {self.field}' if self.field else ''}: {self.message}"


def check(path: str | Path) -> list[Fault]:
    """All faults of a file of problems, in the order of its lines."""
    faults: list[Fault] = []
    first: dict[str, int] = {}
    read = 0
    for number, line in lines(Path(path)):
        read += 1
        try:
            fields = parse(line)
        except ValueError as error:
            faults.append(Fault(number, "", str(error)))
            continue
        if not isinstance(fields, dict):
            faults.append(Fault(number, "", f"{plain_name(fields)}; use an object"))
            continue
        faults += (Fault(number, field, message) for field, message in _faults(fields))
        own = fields.get("id")
        if isinstance(own, str) and first.setdefault(own, number) != number:
            faults.append(Fault(number, "id", f"{own!r} is the id of line {first[own]} too"))
    if not read and not faults:
        faults.append(Fault(1, "", "the file is empty; a line is a problem"))
    return faults


def refuse_faults(paths: Sequence[Path]) -> set[str]:
    """ValueError with the first faults of the files and their number, if there are any."""
    _refuse_other_files(paths)
    found = [f"{path.name}, {fault}" for path in paths for fault in check(path)]
    if found:
        more = len(found) - _LISTED
        rest = [f"and {more} more; `maxk data check` lists all"] if more > 0 else []
        head = f"{len(found)} fault{'s' if len(found) > 1 else ''}"
        listed = "\n  ".join([f"{head} in the problems:", *found[:_LISTED], *rest])
        raise ValueError(f"{listed}\nmend the lines, or leave them out with --skip (skip=True)")
    return set()


def places_of_faults(paths: Sequence[Path], on_bad: Callable[[ValueError], None]) -> set[str]:
    """The lines with faults, as `Row.where` has them; on_bad is told each fault that is not JSON's.

    What is no JSON, and an id that was there before, is found again where the rows are read.
    """
    _refuse_other_files(paths)
    places = set()
    for path in paths:
        for fault in check(path):
            if fault.field and not _repeated(fault):
                places.add(f"{path.name}, line {fault.line}")
                on_bad(ValueError(f"{path.name}, {fault}"))
    return places


def _repeated(fault: Fault) -> bool:
    return fault.field == "id" and fault.message.endswith(" too")


def _refuse_other_files(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.name.endswith((".jsonl", ".jsonl.gz")):
            raise ValueError(f"{path} is not a .jsonl or .jsonl.gz file; give one that is")


def problem(row: Row, account: Account) -> Problem:
    """The problem of a line in which `check` finds no fault."""
    tests = [_unix(read_test(test)) for test in row.fields["tests"]]
    time_limit = row.get("time_limit", (int, float), None)
    given = {name: row.get(name, str, None) for name in _TEXT[2:]}
    texts: dict[str, Any] = {name: value and unix(value) for name, value in given.items()}
    return Problem(
        id=row.fields["id"],
        statement=row.text("statement"),
        tests=tests,
        examples=tuple(tests[: row.get("shown", int, 0)]),
        time_limit=None if time_limit is None else float(time_limit),
        tags=tuple(row.get("tags", list, [])),
        verbatim=row.get("verbatim", bool, False),
        **texts,
    )


def _unix(test: Test) -> Test:
    if isinstance(test, StdinTest):
        return replace(test, input=unix(test.input), output=unix(test.output))
    return test


def _faults(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults of one problem, as field and message."""
    for name in fields:
        if name not in _FIELDS:
            yield name, f"is unknown; a problem has {', '.join(_FIELDS)}"
    for name in _REQUIRED:
        if fields.get(name) is None:
            yield name, "is missing"
    given = {name: value for name, value in fields.items() if value is not None}
    for name in _TEXT:
        if name in given and not isinstance(given[name], str):
            yield name, f"is {plain_name(given[name])}; use text"
        elif name in ("id", "statement") and not given.get(name, "x").strip():
            yield name, "is empty"
    tags = given.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        yield "tags", "is not a list of text"
    limit = given.get("time_limit", 1)
    if type(limit) not in (int, float) or not limit > 0:
        yield "time_limit", f"is {limit!r}; use a number of seconds above 0"
    if not isinstance(given.get("verbatim", False), bool):
        yield "verbatim", f"is {given['verbatim']!r}; use true or false"
    yield from _faults_of_tests(given)
    reference = given.get("reference", "")
    if isinstance(reference, str):
        try:
            parsed(reference)
        except SyntaxError as error:
            yield "reference", f"is not Python: {error.msg} at line {error.lineno}"


def _faults_of_tests(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    listed, shown = given.get("tests"), given.get("shown", 0)
    whole = type(shown) is int and shown >= 0
    if not whole:
        yield "shown", f"is {shown!r}; use a whole number, 0 or more"
    if listed is None:
        return
    if not isinstance(listed, list):
        yield "tests", f"is {plain_name(listed)}; use a list"
        return
    if not listed:
        yield "tests", "is empty; a problem has at least one test"
    elif whole and shown > len(listed):
        yield "shown", f"is {shown}, and there are {len(listed)} tests"
    calls = False
    for number, test in enumerate(listed, start=1):
        try:
            found = read_test(test, f"test {number}")
        except ValueError as error:
            yield "tests", str(error)
            continue
        calls |= not isinstance(found, StdinTest)
        try:
            if isinstance(found, AssertTest):
                declared(found)
        except ValueError as error:
            yield "tests", f"test {number}: {error}"
    if calls and "entry_point" not in given:
        yield "entry_point", "is missing; a test calls a function"
