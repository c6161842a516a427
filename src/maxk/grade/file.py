"""Grade completions that lie in a file, and write the verdicts beside them.

The file is JSONL (also .gz) or parquet, one completion a row (docs/reference/files.md):
`completion`, from which the program is taken, or `program`; and `tests`, or `problem`, an id.

Verdicts are lines of JSON, one a row, written as they come, after a first line that says how they
were made. What is there already is not judged again, so a command that was stopped goes on when it
is repeated. A row without a program has a verdict without tests and the status "no program".
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from maxk.grade.extract import program_for
from maxk.grade.grading import NO_PROGRAM, Graded, grade_programs
from maxk.records import Problem, Status, Verdict
from maxk.store.codec import dict_of_verdict, tests_from_json, tests_to_json, verdict_of_dict
from maxk.store.rows import BadRow, lines, parquet, parse
from maxk.verify import Verifier, VerifierSettings
from maxk.verify.requests import check_test

FORMAT = 1
_BATCH = 1024  # rows in memory at a time
_BEGINNING = b'{"maxk_verdicts"'  # of a file of verdicts


@dataclass(frozen=True)
class Row:
    """One stored completion, ready to be judged."""

    number: int  # from 0, as a file of verdicts has it
    where: str  # "line 3", from 1
    name: str | None  # of the problem, as the row has it
    problem: Problem
    program: str
    digest: str  # of program and tests: a verdict belongs to what was judged, not to a place


@dataclass(frozen=True)
class Asked:
    """What rows are graded by: a problem, read once for all its rows, and a digest of its tests."""

    problem: Problem
    digest: bytes

    @classmethod
    def of_tests(cls, text: str) -> "Asked":
        tests = tests_from_json(text)
        if not tests:
            raise ValueError("there are none; a row has at least one")
        for number, test in enumerate(tests, start=1):
            try:
                check_test(test)
            except ValueError as error:
                raise ValueError(f"test {number}: {error}") from None
        return cls(Problem("", "", tests), hashlib.sha256(encoded(text)).digest())

    @classmethod
    def of_problem(cls, problem: Problem) -> "Asked":
        return cls(problem, hashlib.sha256(encoded(tests_to_json(problem.tests))).digest())


@dataclass
class Summary:
    """What a file's verdicts say together."""

    rows: int = 0
    passed: int = 0
    without: int = 0  # rows without a program
    reward: float = 0.0  # sum of the fractions
    statuses: Counter[Status] = field(default_factory=Counter)  # of tests
    judged: int = 0  # rows of this call, the others were there already
    seconds: float = 0.0

    def add(self, verdict: Verdict | None) -> None:
        """Count a row; None is a completion without a program."""
        self.rows += 1
        if verdict is None:
            self.without += 1
            return
        self.passed += verdict.passed
        self.reward += verdict.fraction
        self.statuses.update(test.status for test in verdict.tests)


def verdicts_path(file: Path) -> Path:
    """Where the verdicts of a file go unless it is said: `a/b.jsonl` has `a/b.verdicts.jsonl`."""
    return file.with_name(f"{file.name.split('.')[0]}.verdicts.jsonl")


def grade_file(
    file: Path,
    verifier: Verifier,
    out: Path | None = None,
    problems: Mapping[str, Problem] | None = None,
    progress: Callable[[Summary], None] | None = None,
    on_bad: Callable[[str], None] | None = None,
) -> Summary:
    """Grade every row of `file` that has no verdict in `out` yet.

    problems: by id, for rows that have no tests of their own. progress: called with a Summary after
    every verdict, those of earlier runs first. on_bad: told of a row that cannot be graded, which
    is left out then; it is an error otherwise.
    """
    out = verdicts_path(file) if out is None else out
    settings = VerifierSettings.of(verifier).of_verdicts()
    summary, started = Summary(), time.monotonic()
    done = read_verdicts(out, settings)
    rows = read_rows(file, problems or {}, on_bad)
    batch = list(islice(rows, _BATCH))  # before anything is written
    with open(out, "ab") as stream:
        if stream.tell() == 0:
            write(stream, {"maxk_verdicts": FORMAT, "of": file.name, **settings})
        while batch:
            todo = []
            for row in batch:
                if row.number not in done:
                    todo.append(row)
                    continue
                digest, verdict = done.pop(row.number)
                if digest != row.digest:
                    raise ValueError(
                        f"{file}, {row.where}: program or tests are not those that {out} has "
                        "a verdict of; remove that file, or choose another with --out"
                    )
                summary.add(verdict)

            def keep(i: int, graded: Graded, todo: list[Row] = todo) -> None:
                row = todo[i]
                about = {"row": row.number, "problem": row.name, "digest": row.digest}
                verdict = graded.verdict or Verdict((), verifier.tier)
                write(stream, about | {"status": graded.status} | dict_of_verdict(verdict))
                summary.add(graded.verdict)
                summary.judged += 1
                summary.seconds = time.monotonic() - started
                if progress is not None:
                    progress(summary)

            if progress is not None:
                progress(summary)
            grade_programs([(row.problem, row.program) for row in todo], verifier, keep)
            os.fsync(stream.fileno())
            batch = list(islice(rows, _BATCH))
    if done:
        raise ValueError(
            f"{out} has verdicts of {len(done)} rows that {file} does not have, the first with "
            f"row {min(done)}; remove that file, or choose another with --out"
        )
    return summary


def write(stream: BinaryIO, line: dict[str, Any]) -> None:
    stream.write(json.dumps(line).encode() + b"\n")
    stream.flush()


def read_verdicts(out: Path, settings: dict[str, Any]) -> dict[int, tuple[str, Verdict | None]]:
    """Verdicts of earlier calls by row, None for a row without a program.

    A last line that was cut off is removed from the file.
    """
    if not out.exists() or out.stat().st_size == 0:
        return {}
    data = out.read_bytes()
    if data[: len(_BEGINNING)] != _BEGINNING[: len(data)]:  # nothing of it is touched
        raise ValueError(f"{out} is no file of verdicts; choose another with --out")
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(out, whole)
    lines = data[:whole].splitlines()
    if not lines:
        return {}
    first = json.loads(lines[0])
    if first["maxk_verdicts"] != FORMAT:
        raise ValueError(f"{out} has another format of verdicts; choose another with --out")
    for name in {**settings, **first}:
        there, asked = first.get(name), settings.get(name)
        if name not in ("maxk_verdicts", "of") and there != asked:
            raise ValueError(
                f"{out} was made with {name}={there}, not {asked}; "
                "remove that file, or choose another with --out"
            )
    found = map(json.loads, lines[1:])
    return {line["row"]: (line["digest"], _verdict_of(line)) for line in found}


def _verdict_of(line: dict[str, Any]) -> Verdict | None:
    return None if line.get("status") == NO_PROGRAM else verdict_of_dict(line)


def read_rows(
    file: Path, problems: Mapping[str, Problem], on_bad: Callable[[str], None] | None = None
) -> Iterator[Row]:
    """The rows of a JSONL or parquet file; ValueError names file, row and field.

    on_bad: told of a row that cannot be graded, which is left out then.
    """
    by_text: dict[str, Asked] = {}
    by_name: dict[str, Asked] = {}

    def row(number: int, place: str, given: Any) -> Row:
        where = f"{file}, {place}"
        if not isinstance(given, dict):
            raise BadRow(f"{where} is a {type(given).__name__}; use an object")
        name = given.get("problem")
        if not isinstance(name, str | None):
            raise BadRow(f"{where}, field problem is a {type(name).__name__}; use text, an id")
        if given.get("tests") is not None:
            try:
                text = _text_of(given["tests"])
                asked = by_text[text] = by_text.get(text) or Asked.of_tests(text)
            except ValueError as error:
                raise BadRow(f"{where}, field tests: {error}") from None
        elif name is not None and name in problems:
            asked = by_name[name] = by_name.get(name) or Asked.of_problem(problems[name])
        else:
            why = "no problem" if name is None else f"problem {name!r} is not among the problems"
            raise BadRow(f"{where} has no tests, and {why}; name the problems with --data")
        program = _program(given, asked.problem, where)
        digest = hashlib.sha256(asked.digest + encoded(program)).hexdigest()[:16]
        return Row(number, place, name, asked.problem, program, digest)

    number = -1
    for number, (place, given) in enumerate(_given(file)):
        try:
            if isinstance(given, BadRow):
                raise given
            yield row(number, place, given)
        except BadRow as error:
            if on_bad is None:
                raise
            on_bad(str(error))
    if number < 0:
        raise ValueError(f"{file} is empty; give a file with completions")


def _given(file: Path) -> Iterator[tuple[str, Any]]:
    """The places of the rows, and what they hold: a BadRow where it cannot be read."""
    if file.suffix == ".parquet":
        yield from parquet(file)
        return
    for number, line in lines(file):
        place = f"line {number}"
        try:
            yield place, parse(line)
        except ValueError as error:
            yield place, BadRow(f"{file}, {place}: {error}")


def _text_of(tests: Any) -> str:
    """Tests of a row as JSON."""
    if isinstance(tests, str):
        return tests
    try:
        return json.dumps(tests)
    except ValueError:  # an integer of more digits than Python writes
        return tests_to_json(tests_from_json(tests))


def _program(given: dict[str, Any], problem: Problem, where: str) -> str:
    """The whole program of a row: given as such, or in its completion."""
    program, completion = given.get("program"), given.get("completion")
    if isinstance(program, str):
        return problem.complete(program)
    if program is None and isinstance(completion, str):
        return program_for(problem, completion)
    raise BadRow(f"{where} has no text in the field completion or program")


def count_rows(file: Path) -> int:
    """How many rows `read_rows` will give."""
    if file.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(file).metadata.num_rows
        except pa.ArrowInvalid as error:
            raise ValueError(f"{file}: not a readable parquet file: {error}") from None
    return sum(1 for _ in lines(file))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
