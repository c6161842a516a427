"""The tables of a sampling run.

    config.toml   model, backend, base_url, n, shard; [data]; [settings] of `maxk.sample.Sampling`

    problems      so that a run can be verified and reported without its data set
      id, statement, prompt (JSON), tests (JSON, docs/reference/files.md), examples (JSON), entry_point,
      reference, difficulty, origin, starter, preamble, time_limit, tags, verbatim

    completions   one sample a row, in the order in which they were done
      problem     string   id
      sample      int32    from 0 to n - 1
      completion  string   what the model wrote, without the end token
      tokens      int32    the end token counted; null where a server does not say
      finish      string   "stop", or "length" at the limit of tokens
      logprob     double   natural log, summed over the tokens, at temperature 1 without top-p;
                           null where the back end does not say
      entropy     float    nats, mean over the tokens, of the same distribution; or null

    verdicts      one judged completion a row; other limits go into a table of another name
      problem, sample
      reward      double   the fraction of tests passed
      passed      bool     all of them
      status      string   "passed", "no program", or the first of: did not compile, timeout,
                           memory, output limit, runtime error, wrong answer
      program     string   what was judged, behind the problem's preamble; null without a program
      same_as     int32    the earlier sample whose verdict this is: the two programs differ in
                           comments alone; null where the program was judged itself
      tests       string   JSON, as `maxk.store.codec.dict_of_verdict` gives it

The verdicts of a part of the completions are the part of the same name. The version of all this is
`maxk.store.run.FORMAT`, in config.toml.
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

PROBLEMS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "statement", "prompt", "tests", "examples")),
        *((name, pa.string()) for name in ("entry_point", "reference", "difficulty", "origin")),
        *((name, pa.string()) for name in ("starter", "preamble")),
        ("time_limit", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("verbatim", pa.bool_()),
    ]
)
COMPLETIONS = pa.schema(
    [
        pa.field("problem", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("completion", pa.string(), nullable=False),
        pa.field("tokens", pa.int32()),
        pa.field("finish", pa.string(), nullable=False),
        pa.field("logprob", pa.float64()),
        pa.field("entropy", pa.float32()),
    ]
)
VERDICTS = pa.schema(
    [
        pa.field("problem", pa.string(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("reward", pa.float64(), nullable=False),
        pa.field("passed", pa.bool_(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("program", pa.string()),
        pa.field("same_as", pa.int32()),
        pa.field("tests", pa.string(), nullable=False),
    ]
)
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
