"""Judge the completions of a run, at once or while they are being sampled.

Completions are judged part by part, once the part is on disk: a verdict never outlives what it is
about, and which parts have no verdicts yet is seen by their names.
"""

import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxk.records import Problem, Verdict
from maxk.runs import Run, RunError, differences
from maxk.sample.tables import VERDICTS, problems_of, verdict_row
from maxk.verify import Verifier, program_for

Seen = Callable[[int, float], None]  # so many completions judged, the sum of their rewards


class _StopError(Exception):
    """Judging is to end now."""


def verify_run(
    run: Run, verifier: Verifier, name: str = "verdicts", seen: Seen | None = None
) -> int:
    """Judge what has no verdict yet; gives how many completions that was.

    name: the table for the verdicts; those made under other limits need another.
    """
    problems = {problem.id: problem for problem in problems_of(run)}
    judged = 0

    def count(completions: int, reward: float) -> None:
        nonlocal judged
        judged += completions
        if seen is not None:
            seen(completions, reward)

    with run.locked():
        check_limits(run, verifier, name)
        for part in unjudged(run, name):
            judge_part(run, part, problems, verifier, name, count)
    return judged


def unjudged(run: Run, name: str) -> list[str]:
    """The parts of the completions that have no verdicts."""
    there = set(run.parts(name))
    return [part for part in run.parts("completions") if part not in there]


def judge_part(
    run: Run,
    part: str,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    name: str,
    seen: Seen | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Judge a part of the completions and write its verdicts."""
    path = run.folder / "completions" / f"{part}.parquet"
    rows = pq.read_table(path, columns=["problem", "sample", "completion"]).to_pylist()
    jobs, places = [], []
    for i, row in enumerate(rows):
        problem = problems[row["problem"]]
        program = program_for(problem, row["completion"])
        if program.strip():
            jobs.append((program, problem.tests))
            places.append(i)
    if seen is not None:
        seen(len(rows) - len(jobs), 0.0)

    def done(_: int, verdict: Verdict) -> None:
        if stop is not None and stop.is_set():
            raise _StopError
        if seen is not None:
            seen(1, verdict.fraction)

    verdicts = dict(zip(places, verifier.judge(jobs, done), strict=True))
    out = [
        verdict_row(row["problem"], row["sample"], verdicts.get(i), verifier.tier)
        for i, row in enumerate(rows)
    ]
    about = {"maxk": json.dumps(limits_of(verifier))}
    run.write(name, part, pa.Table.from_pylist(out, VERDICTS.with_metadata(about)))


def limits_of(verifier: Verifier) -> dict[str, Any]:
    """What verdicts depend on beside program and tests."""
    return {"limits": asdict(verifier.limits), "isolate": verifier.isolate}


def check_limits(run: Run, verifier: Verifier, name: str) -> None:
    """RunError if the table has verdicts that were made under other limits."""
    for part in run.parts(name)[:1]:
        schema = pq.read_schema(run.folder / name / f"{part}.parquet")
        found = json.loads((schema.metadata or {}).get(b"maxk", b"{}"))
        if found != limits_of(verifier):
            rows = "\n  ".join(differences(found, limits_of(verifier)))
            raise RunError(
                f"{run.folder} has {name} made under other limits; use the same, or give the new "
                f"ones another name:\n  {rows}"
            )


class Judge:
    """A thread that judges parts as they are written. Use as a context manager."""

    def __init__(
        self, run: Run, problems: Mapping[str, Problem], verifier: Verifier, name: str, seen: Seen
    ) -> None:
        check_limits(run, verifier, name)
        self.parts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.stop = threading.Event()
        self.fault: BaseException | None = None

        def work() -> None:
            try:
                while (part := self.parts.get()) is not None:
                    judge_part(run, part, problems, verifier, name, seen, self.stop)
            except _StopError:
                pass
            except BaseException as error:
                self.fault = error

        self.thread = threading.Thread(target=work, name="maxk judge")
        self.thread.start()

    def put(self, part: str) -> None:
        """Have a part judged; raises what went wrong with an earlier one."""
        if self.fault is not None:
            raise self.fault
        self.parts.put(part)

    def finish(self, waiting: Callable[[], None]) -> None:
        """Judge what is left, calling `waiting` now and then."""
        self.parts.put(None)
        while self.thread.is_alive():
            self.thread.join(0.2)
            waiting()
        if self.fault is not None:
            raise self.fault

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.parts.put(None)
        self.thread.join()
