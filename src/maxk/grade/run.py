"""Judge the completions of a run.

Completions are judged part by part, once the part is on disk: a verdict never outlives what it is
about, and which parts have no verdicts yet is seen by their names. A few parts are judged at a
time, so that a program that takes its whole time limit does not keep the others waiting.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from maxk.grade import program_for
from maxk.grade.dedup import key_of
from maxk.records import Problem, Verdict
from maxk.store.run import Run, RunError, differences
from maxk.store.tables import VERDICTS, problems_of, verdict_row
from maxk.verify import Limits, Verifier

Seen = Callable[[int, float], None]  # so many completions judged, the sum of their rewards
_TOGETHER = 4  # parts


@dataclass(frozen=True)
class Judging:
    """How to judge: the arguments of a `Verifier`."""

    workers: int | None = None
    limits: Limits = field(default_factory=Limits)
    allow_unsafe: bool = False
    isolate: Literal["program", "test"] = "program"

    def verifier(self) -> Verifier:
        return Verifier(self.workers, self.limits, self.allow_unsafe, isolate=self.isolate)

    def telling(self) -> dict[str, Any]:
        """What verdicts depend on beside program and tests."""
        return {"limits": asdict(self.limits), "isolate": self.isolate}


def unjudged(run: Run, name: str) -> list[str]:
    """The parts of the completions that have no verdicts."""
    there = set(run.parts(name))
    return [part for part in run.parts("completions") if part not in there]


def judge_parts(
    run: Run,
    parts: Iterable[str | None],
    verifier: Verifier,
    name: str,
    seen: Seen,
    done: Callable[[str], None] = lambda part: None,
) -> None:
    """Judge parts of the completions as they come; None, where there is none yet, is passed over.

    done: called with a part whose verdicts are written, by one thread at a time as `seen` is. A
    fault of one part is raised when the next comes, and ends the others.
    """
    problems = {problem.id: problem for problem in problems_of(run)}
    counting, stop = threading.Lock(), threading.Event()

    def count(completions: int, reward: float) -> None:
        if stop.is_set():
            raise InterruptedError("judging was stopped")
        with counting:
            seen(completions, reward)

    def judge(part: str) -> None:
        judge_part(run, part, problems, verifier, name, count)
        with counting:
            done(part)

    running: set[Future[None]] = set()
    with ThreadPoolExecutor(_TOGETHER, "maxk judge") as pool:
        try:
            for part in parts:
                if part is not None:
                    running.add(pool.submit(judge, part))
                for ended in [each for each in running if each.done()]:
                    running.remove(ended)
                    ended.result()
            for ended in as_completed(running):
                ended.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def judge_part(
    run: Run,
    part: str,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    name: str,
    seen: Seen,
) -> None:
    """Judge a part of the completions and write its verdicts.

    Of programs for a problem that differ in comments and empty lines alone one is run.
    """
    path = run.folder / "completions" / f"{part}.parquet"
    rows = pq.read_table(path, columns=["problem", "sample", "completion"]).to_pylist()
    alike: dict[tuple[str, tuple[bool, str]], list[int]] = {}  # rows by problem and program
    programs: list[tuple[str, str]] = []  # of each of these the first, with its problem
    for i, row in enumerate(rows):
        program = program_for(problems[row["problem"]], row["completion"])
        if program.strip():
            same = alike.setdefault((row["problem"], key_of(program)), [])
            if not same:
                programs.append((row["problem"], program))
            same.append(i)
    groups = list(alike.values())
    seen(len(rows) - sum(map(len, groups)), 0.0)
    verdicts: dict[int, Verdict] = {}

    def done(job: int, verdict: Verdict) -> None:
        verdicts.update(dict.fromkeys(groups[job], verdict))
        seen(len(groups[job]), len(groups[job]) * verdict.fraction)

    verifier.judge([(program, problems[problem].tests) for problem, program in programs], done)
    out = [
        verdict_row(row["problem"], row["sample"], verdicts.get(i), verifier.tier)
        for i, row in enumerate(rows)
    ]
    telling = {"limits": asdict(verifier.limits), "isolate": verifier.isolate}
    about = {"maxk": json.dumps(telling)}
    run.write(name, part, pa.Table.from_pylist(out, VERDICTS.with_metadata(about)))


def check_limits(run: Run, judging: Judging, name: str) -> None:
    """RunError if the table has verdicts that were made under other limits."""
    for part in run.parts(name)[:1]:
        schema = pq.read_schema(run.folder / name / f"{part}.parquet")
        found = json.loads((schema.metadata or {}).get(b"maxk", b"{}"))
        if found != judging.telling():
            rows = "\n  ".join(differences(found, judging.telling()))
            raise RunError(
                f"{run.folder} has {name} made under other limits; use the same, or give the new "
                f"ones another name:\n  {rows}"
            )
