"""Grade the completions of a run.

Completions are graded part by part, once the part is on disk: a verdict never outlives what it is
about, and which parts have no verdicts yet is seen by their names. A few parts are graded at a
time, so that a program that takes its whole time limit does not keep the others waiting.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxk.grade.grading import Graded, grade
from maxk.records import Problem, Verdict
from maxk.store.codec import dict_of_verdict
from maxk.store.run import Run, RunError, differences
from maxk.store.tables import VERDICTS, problems_of
from maxk.verify import Verifier, VerifierSettings

OnGraded = Callable[[int, float], None]  # so many completions graded, the sum of their rewards
_TOGETHER = 4  # parts


def ungraded(run: Run, table: str) -> list[str]:
    """The parts of the completions that have no verdicts."""
    there = set(run.parts(table))
    return [part for part in run.parts("completions") if part not in there]


def grade_parts(
    run: Run,
    parts: Iterable[str | None],
    verifier: Verifier,
    table: str,
    on_graded: OnGraded,
    done: Callable[[str], None] = lambda part: None,
) -> None:
    """Grade parts of the completions as they come; None, where there is none yet, is passed over.

    done: called with a part whose verdicts are written, by one thread at a time as `on_graded` is.
    A fault of one part is raised when the next comes, and ends the others.
    """
    problems = {problem.id: problem for problem in problems_of(run)}
    counting, stop = threading.Lock(), threading.Event()

    def count(completions: int, reward: float) -> None:
        if stop.is_set():
            raise InterruptedError("grading was stopped")
        with counting:
            on_graded(completions, reward)

    def one(part: str) -> None:
        grade_part(run, part, problems, verifier, table, count)
        with counting:
            done(part)

    running: set[Future[None]] = set()
    with ThreadPoolExecutor(_TOGETHER, "maxk grade") as pool:
        try:
            for part in parts:
                if part is not None:
                    running.add(pool.submit(one, part))
                for ended in [each for each in running if each.done()]:
                    running.remove(ended)
                    ended.result()
            for ended in as_completed(running):
                ended.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def grade_part(
    run: Run,
    part: str,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    table: str,
    on_graded: OnGraded,
) -> None:
    """Grade a part of the completions and write its verdicts."""
    path = run.folder / "completions" / f"{part}.parquet"
    rows = pq.read_table(path, columns=["problem", "sample", "completion"]).to_pylist()
    graded = grade(
        [(problems[row["problem"]], row["completion"]) for row in rows],
        verifier,
        lambda _, each: on_graded(1, each.reward()),
    )
    under = VerifierSettings.of(verifier).of_verdicts()
    run.write(table, part, verdicts_table(rows, graded, verifier.tier, under))


def verdicts_table(
    rows: Sequence[Mapping[str, Any]], graded: Sequence[Graded], tier: str, under: dict[str, Any]
) -> pa.Table:
    """Rows of the table of verdicts. rows: problem and sample; under: what verdicts depend on."""
    out = []
    for row, each in zip(rows, graded, strict=True):
        verdict = each.verdict or Verdict((), tier)
        out.append(
            {
                "problem": row["problem"],
                "sample": row["sample"],
                "reward": verdict.fraction,
                "passed": verdict.passed,
                "status": each.status,
                "program": each.program,
                "same_as": None if each.same_as is None else rows[each.same_as]["sample"],
                "tests": json.dumps(dict_of_verdict(verdict)),
            }
        )
    about = {"maxk": json.dumps(under)}
    return pa.Table.from_pylist(out, VERDICTS.with_metadata(about))


def check_limits(run: Run, settings: VerifierSettings, table: str) -> None:
    """RunError if the table has verdicts that were made under other limits."""
    for part in run.parts(table)[:1]:
        schema = pq.read_schema(run.folder / table / f"{part}.parquet")
        found = json.loads((schema.metadata or {}).get(b"maxk", b"{}"))
        if found != settings.of_verdicts():
            rows = "\n  ".join(differences(found, settings.of_verdicts()))
            raise RunError(
                f"{run.folder} has {table} made under other limits; use the same, or give the new "
                f"ones another name:\n  {rows}"
            )
