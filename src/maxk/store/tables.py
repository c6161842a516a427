"""The tables of a sampling run: problems, completions and verdicts.

`maxk.store.schemas` has their columns. The verdicts of a part of the completions are the part of
the same name; verdicts under other limits go into a table of another name.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from maxk.prompts import messages
from maxk.records import Completion, Problem
from maxk.store.codec import tests_from_json, tests_to_json
from maxk.store.run import Run, RunError
from maxk.store.schemas import schema_of

PROBLEMS = schema_of("problems")
COMPLETIONS = schema_of("completions")
VERDICTS = schema_of("verdicts")
_STORED = attrgetter("problem", "sample", "text", "tokens", "finish", "logprob", "entropy")
_PART_BYTES = 2**28  # of tests in a part of the problems; some data sets have gigabytes


# --- problems ------------------------------------------------------------------------------------


def write_problems(run: Run, problems: Sequence[Problem]) -> None:
    """The problems into a run; if it has them already they have to be the same."""
    if len({problem.id for problem in problems}) < len(problems):
        raise ValueError("problems: two have the same id")
    there = {row["id"]: row for row in _problem_rows(run)} if run.parts("completions") else {}
    part: list[dict[str, Any]] = []
    parts = 0
    for number, problem in enumerate(problems):
        row = row_of_problem(problem)
        if there and there.get(problem.id) != row:
            raise RunError(f"{run.folder} has another problem {problem.id!r} than is asked for")
        part.append(row)
        full = sum(len(row["tests"]) for row in part) > _PART_BYTES
        if full or number == len(problems) - 1:
            if not there:
                run.write("problems", f"{parts:04d}", pa.Table.from_pylist(part, PROBLEMS))
            part, parts = [], parts + 1
    if not problems:  # a shard of more than there are problems
        run.write("problems", "0000", PROBLEMS.empty_table())
    if there and len(there) != len(problems):
        raise RunError(f"{run.folder} has {len(there)} problems; {len(problems)} are asked for")


def problems_of(run: Run) -> list[Problem]:
    """The problems of a run, as they were when it was begun."""
    return [problem_of_row(row) for row in _problem_rows(run)]


def row_of_problem(problem: Problem) -> dict[str, Any]:
    """A problem as a row of its table."""
    row = {name: getattr(problem, name) for name in PROBLEMS.names if name != "prompt"}
    return row | {
        "prompt": _json(json.dumps(messages(problem), ensure_ascii=False)),
        "tests": _json(tests_to_json(problem.tests)),
        "examples": _json(tests_to_json(problem.examples)),
        "tags": list(problem.tags),
    }


def problem_of_row(row: dict[str, Any]) -> Problem:
    """The problem that `row_of_problem` wrote."""
    fields = {name: value for name, value in row.items() if name != "prompt"}
    fields["tests"] = tests_from_json(row["tests"])
    fields["examples"] = tuple(tests_from_json(row["examples"]))
    fields["tags"] = tuple(row["tags"])
    return Problem(**fields)


def _problem_rows(run: Run) -> Iterator[dict[str, Any]]:
    for batch in run.read("problems").to_batches(max_chunksize=64):
        yield from batch.to_pylist()


def _json(text: str) -> str:
    """JSON in which half a surrogate pair, that UTF-8 does not have, is written as its number."""
    return text.encode("utf-8", "backslashreplace").decode()


# --- completions and verdicts --------------------------------------------------------------------


def completions_table(completions: Iterable[Completion]) -> pa.Table:
    """Completions as rows of their table."""
    columns = list(zip(*map(_STORED, completions), strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, COMPLETIONS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COMPLETIONS)


def pairs_of(run: Run, table: str = "completions") -> set[tuple[str, int]]:
    """Which samples of which problems a table has; twice the same is an error."""
    if not run.parts(table):
        return set()
    rows = run.read(table, ["problem", "sample"])
    found = set(zip(rows["problem"].to_pylist(), rows["sample"].to_pylist(), strict=True))
    if len(found) < len(rows):
        raise RunError(f"{run.folder} has {len(rows) - len(found)} {table} twice")
    return found
