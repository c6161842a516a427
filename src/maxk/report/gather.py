"""What the report is made of, read from the folders of runs.

A folder is read as it lies there: nothing is sampled or judged again, and a run that is still being
written, or was copied from another machine, is read the same way.
"""

import contextlib
import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxk.evaluate.read import Stored, read_run, refuse_other_settings
from maxk.records import Problem, Status, Test
from maxk.report.places import places
from maxk.store.codec import read_test, verdict_of_dict
from maxk.store.run import Run, RunError

MOST_TESTS = 200  # of a problem that are looked at; some have thousands
LETTERS = {
    Status.PASSED.value: "P",
    Status.WRONG_ANSWER.value: "W",
    Status.TIMEOUT.value: "T",
    Status.MEMORY.value: "M",
    Status.OUTPUT_LIMIT.value: "O",
    Status.RUNTIME_ERROR.value: "R",
    Status.DID_NOT_COMPILE.value: "C",
}


@dataclass(frozen=True)
class Task:
    """A problem as the report shows it. Training runs know neither its tests nor its difficulty."""

    id: str
    statement: str
    tests: tuple[Test, ...] = ()
    test_count: int = 0
    difficulty: str = ""
    entry_point: str | None = None
    preamble: str | None = None


@dataclass(frozen=True)
class Sample:
    """One completion with its verdict, and what it was trained with where it was.

    `text` is the program that was judged, without the problem's preamble; or the whole completion
    where it has no program.
    """

    text: str
    reward: float
    status: str
    outcomes: str  # of the tests, a letter each
    reasons: dict[int, str]  # by test, where there is one: the error, or what was got
    tokens: int | None = None
    cut: bool = False  # at the limit of tokens
    step: int | None = None
    weights: tuple[float, ...] = ()
    log_ratios: tuple[float, ...] = ()

    @property
    def passed(self) -> bool:
        return self.status == Status.PASSED


@dataclass(frozen=True)
class RunData:
    """One run. `stored` is of sampling runs, `metrics` of training runs."""

    name: str
    kind: str  # "sample" or "train"
    config: dict[str, Any]
    environment: dict[str, Any]
    samples: dict[str, list[Sample]]  # by problem
    judge_seconds: float  # CPU time of all tests
    stored: Stored | None = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = True
    method: str = ""  # its name, which several runs may share; empty: the run's own


@dataclass(frozen=True)
class Gathered:
    """Everything the report is written from. `missing`: what could not be read, and why."""

    runs: list[RunData]
    tasks: dict[str, Task]
    missing: list[str] = field(default_factory=list)

    @property
    def sampled(self) -> list[RunData]:
        return [run for run in self.runs if run.stored is not None]

    @property
    def methods(self) -> dict[str, list[RunData]]:
        """The sampling runs by method, the base model first."""
        found: dict[str, list[RunData]] = {}
        for run in self.sampled:
            found.setdefault(run.method or run.name, []).append(run)
        return found

    def pooled(self, method: str) -> RunData:
        """All runs of a method as one, with the samples of all."""
        runs = self.methods[method]
        if len(runs) == 1:
            return runs[0]
        samples = {
            problem: [sample for run in runs for sample in run.samples[problem]]
            for problem in runs[0].samples
        }
        return replace(runs[0], name=method, samples=samples)

    @property
    def trained(self) -> list[RunData]:
        return [run for run in self.runs if run.kind == "train"]


def gather(given: Sequence[str | Path], live: bool = False) -> Gathered:
    """Read runs, given as FOLDER or NAME=FOLDER; the first sampling run is of the base model.

    Sampling runs that share a NAME are runs of one method.

    live: what is not whole yet is left out and noted, where it is an error otherwise.
    """
    if not given:
        raise ValueError("no runs are given; name folders of `maxk sample` or `maxk train`")
    runs: list[RunData] = []
    tasks: dict[str, Task] = {}
    missing: list[str] = []
    for name, folder, is_named in places(given):
        same = [run for run in runs if name in (run.name, run.method)]
        if same and not (is_named and all(run.kind == "sample" and run.method for run in same)):
            raise ValueError(f"two runs are called {name!r}; name them: NAME=FOLDER")
        try:
            kind = Run.open(folder).kind
            with collector_paused():
                run, found = (_sampled if kind == "sample" else _trained)(folder, name)
            if kind == "sample" and is_named:
                run = replace(run, method=name)
            if same:
                run = replace(run, name=f"{name} {len(same) + 1}")
        except (ValueError, OSError) as error:
            if not live:
                raise
            missing.append(str(error))
            continue
        runs.append(run)
        for task in found:  # tests are known from a sampling run, whichever comes first
            known = tasks.get(task.id)
            tasks[task.id] = known if known is not None and known.tests else task
    sampled = [run.stored for run in runs if run.stored is not None]
    if sampled:
        refuse_other_settings(sampled)
    return Gathered(runs, tasks, missing)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """To look for cycles among a million objects that have none takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# --- sampling runs -------------------------------------------------------------------------------


def _sampled(folder: Path, name: str) -> tuple[RunData, list[Task]]:
    run = Run.open(folder)
    if set(run.parts("verdicts")) - set(run.parts("completions")):
        raise RunError(f"{folder} has verdicts without their completions; copy all of the folder")
    stored = read_run(folder, name=name)
    texts = run.read("completions", ["problem", "sample", "completion", "tokens", "finish"])
    rows = zip(*texts.to_pydict().values(), strict=True)
    written = {(problem, sample): rest for problem, sample, *rest in rows}
    samples: dict[str, list[tuple[int, Sample]]] = {problem: [] for problem in stored.rewards}
    seconds = 0.0
    tasks = _tasks(run)
    preambles = {task.id: task.preamble for task in tasks}
    verdicts = run.read("verdicts", ["problem", "sample", "reward", "status", "program", "tests"])
    judged = zip(*verdicts.to_pydict().values(), strict=True)
    for problem, number, reward, status, program, tests in judged:
        completion, tokens, finish = written[problem, number]
        outcomes, reasons, used = _outcomes(tests)
        seconds += used
        cut = finish == "length"
        text = _text(program, completion, preambles[problem])
        sample = Sample(text, reward, status, outcomes, reasons, tokens, cut)
        samples[problem].append((number, sample))
    ordered = {
        problem: [sample for _, sample in sorted(each, key=lambda pair: pair[0])]
        for problem, each in samples.items()
    }
    data = RunData(name, "sample", run.config, _environment(run), ordered, seconds, stored)
    return data, tasks


def _text(program: str | None, completion: str, preamble: str | None) -> str:
    """What is shown of a completion: its program as the model wrote it, if it has one."""
    if program is None:
        return completion
    return program.removeprefix(Problem("", "", (), preamble=preamble).complete("x")[:-1])


def _tasks(run: Run) -> list[Task]:
    columns = ["id", "statement", "tests", "difficulty", "entry_point", "preamble"]
    found = []
    for batch in run.read("problems", columns).to_batches(max_chunksize=64):
        for row in batch.to_pylist():
            tests = json.loads(row["tests"])
            found.append(
                Task(
                    id=row["id"],
                    statement=row["statement"],
                    tests=tuple(read_test(test) for test in tests[:MOST_TESTS]),
                    test_count=len(tests),
                    difficulty=row["difficulty"] or "",
                    entry_point=row["entry_point"],
                    preamble=row["preamble"],
                )
            )
    return found


# --- training runs -------------------------------------------------------------------------------


def _trained(folder: Path, name: str) -> tuple[RunData, list[Task]]:
    run = Run.open(folder)
    samples: dict[str, list[Sample]] = {}
    tasks = {task.id: task for task in _tasks(run)} if run.parts("problems") else {}
    seconds = 0.0
    rows = run.read("rollouts").to_pylist() if run.parts("rollouts") else []
    for row in sorted(rows, key=lambda row: (row["step"], row["group"], row["sample"])):
        problem = row["problem"] or row["prompt"][:80]
        verdict = row["verdict"]
        outcomes, reasons, used = _outcomes(verdict) if verdict else ("", {}, 0.0)
        seconds += used
        if problem not in tasks:
            tasks[problem] = Task(problem, _prompt(row["prompt"]), test_count=len(outcomes))
        samples.setdefault(problem, []).append(
            Sample(
                text=_text(row["program"], row["completion"], tasks[problem].preamble),
                reward=row["reward"],
                status=verdict_of_dict(json.loads(verdict)).status if verdict else "no program",
                outcomes=outcomes,
                reasons=reasons,
                step=row["step"],
                weights=tuple(row["weights"] or ()),
                log_ratios=tuple(row["log_ratios"] or ()),
            )
        )
    metrics = [line for line in run.metrics() if "step" in line]
    data = RunData(
        name=name,
        kind="train",
        config=run.config,
        environment=_environment(run),
        samples=samples,
        judge_seconds=seconds,
        metrics=metrics,
        finished=(folder / "model").exists(),
    )
    return data, [task for task in tasks.values() if task.id in samples]


def groups_by_step(run: RunData) -> dict[int, list[np.ndarray]]:
    """The rewards of every group of a training run, by the step at which it was sampled."""
    groups: dict[int, list[np.ndarray]] = {}
    for samples in run.samples.values():
        by_step: dict[int, list[float]] = {}
        for sample in samples:
            by_step.setdefault(sample.step or 0, []).append(sample.reward)
        for step, rewards in by_step.items():
            groups.setdefault(step, []).append(np.array(rewards))
    return dict(sorted(groups.items()))


def _prompt(text: str) -> str:
    """What the user says in a prompt, which is text or chat messages as JSON."""
    try:
        messages = json.loads(text)
        return "\n\n".join(str(each["content"]) for each in messages if each["role"] != "system")
    except (ValueError, TypeError, KeyError):
        return text


# --- both ----------------------------------------------------------------------------------------


def _outcomes(text: str) -> tuple[str, dict[int, str], float]:
    """Letters and reasons of the tests of a verdict, and the CPU seconds of all."""
    tests = json.loads(text)["tests"]
    outcomes = "".join([LETTERS[status] for status, _, _ in tests])
    reasons = {i: reason for i, (_, reason, _) in enumerate(tests) if reason}
    return outcomes, reasons, sum([seconds for _, _, seconds in tests])


def _environment(run: Run) -> dict[str, Any]:
    """Of the last start."""
    try:
        lines = (run.folder / "environment.jsonl").read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}
