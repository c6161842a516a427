"""Train and measure every cell of a plan, several at a time.

    python -m experiments.pocket.full experiments/pocket/plan.toml --out out/full
    python -m experiments.pocket.full experiments/pocket/plan.toml --out out/full --results DIR

A cell is `maxk train` and `maxk sample`, as one would give them; OUT/NAME.SEED/log has both. What
is finished is not done again, so the command can be stopped and repeated. All completions are
judged by one process, the same program for a problem once, into the run of each.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from maxk.grade.run import grade_parts, ungraded
from maxk.records import Verdict
from maxk.store.run import Run, RunError
from maxk.verify import Verifier, VerifierSettings

CONFIG = Path(__file__).parents[2] / "configs" / "pocket.toml"
_MODULE = "experiments.pocket.full"
_TOGETHER = 8  # runs judged at a time


class Plan:
    """A file of cells, and the folder they go to."""

    def __init__(self, file: Path, out: Path, only: str, graphs: bool) -> None:
        self.file, self.out, self.graphs = file, out, graphs
        self.asked = tomllib.loads(file.read_text(encoding="utf-8"))
        names = [name for name in self.asked["cells"] if re.fullmatch(only, name)]
        self.runs = [(name, seed) for seed in self.asked["seeds"] for name in names]

    def folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name}.{seed}"

    def sampled(self, name: str, seed: int) -> bool:
        return (self.folder(name, seed) / "sampled").exists()

    def train(self, name: str, seed: int) -> list[str]:
        """The command that trains."""
        keys = self.asked["all"] | self.asked["cells"][name]
        keys |= {"model.engine": "{graphs = true}"} if self.graphs else {}
        pairs = [text for key, value in keys.items() for text in (f"--{key}", f"{value}".lower())]
        out = self.folder(name, seed) / "train"
        return ["train", str(CONFIG), "--run.out", str(out), "--trl.seed", str(seed), *pairs]

    def sample(self, name: str, seed: int) -> list[str]:
        """The command that samples."""
        folder = self.folder(name, seed)
        model = str(folder / "train" / "model") if self.asked["cells"][name] else "pocket"
        what = ["--data", "pocket", "--split", self.asked["split"]]
        what += ["--limit", str(self.asked["problems"]), "-n", str(self.asked["samples"])]
        more = ["--max-tokens", "110", "--backend", "transformers", "--seed", str(seed)]
        more += ["--engine", "graphs=true"] if self.graphs else []
        out = str(folder / "sample")
        return ["sample", "--model", model, *what, *more, "--out", out, "--no-verify"]


def carry_out(plan: Plan, name: str, seed: int) -> None:
    """One cell with one seed, in this process."""
    import torch

    from experiments.pocket.tried import register

    torch.set_num_threads(1)
    register()
    if plan.asked["cells"][name]:
        maxk(plan.train(name, seed))
    maxk(plan.sample(name, seed))
    (plan.folder(name, seed) / "sampled").touch()


def maxk(given: Sequence[str]) -> None:
    from maxk.cli import main as command

    print("maxk", *given, flush=True)
    sys.argv = ["maxk", *given]
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise


def carry_out_all(plan: Plan, jobs: int, seconds: float) -> None:
    """Every cell, so many at a time; none is begun after so many seconds."""
    began = time.monotonic()
    waiting = [run for run in plan.runs if not plan.sampled(*run)]
    running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
    judging = start(plan, plan.out / "judging.log", ["--judge"])
    failed: list[str] = []
    try:
        while waiting or running:
            late = time.monotonic() - began > seconds
            if late:
                waiting.clear()
            while waiting and len(running) < jobs:
                name, seed = run = waiting.pop(0)
                log = plan.folder(name, seed) / "log"
                running[run] = start(plan, log, ["--one", name, str(seed)])
            time.sleep(1)
            for run in [run for run, process in running.items() if process.poll() is not None]:
                code = running.pop(run).returncode
                failed += [f"{run[0]}.{run[1]}"] if code else []
                how = f"failed ({code})" if code else "done"
                took = time.monotonic() - began
                print(f"{took:6.0f} s  {run[0]}.{run[1]} {how}; {len(waiting)} wait", flush=True)
        (plan.out / "all-sampled").touch()
        judging.wait()
    finally:
        for process in (*running.values(), judging):
            process.terminate()
        (plan.out / "all-sampled").unlink(missing_ok=True)
    if failed or judging.returncode:
        raise SystemExit(f"failed: {', '.join(failed) or 'judging'}; the log beside each says why")


def start(plan: Plan, log: Path, given: list[str]) -> "subprocess.Popen[bytes]":
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", _MODULE, str(plan.file), "--out", str(plan.out), *given]
    command += ["--graphs"] if plan.graphs else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with log.open("a") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


class Remembering:
    """A verifier that has judged a program for the same tests before."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        self.known: dict[tuple[Any, ...], Verdict] = {}
        self.tier, self.limits, self.isolate = verifier.tier, verifier.limits, verifier.isolate

    def judge(self, jobs: Sequence[tuple[str, Any]], done: Callable[[int, Verdict], None]) -> None:
        keys = [(program, tuple(tests)) for program, tests in jobs]
        new = [i for i, key in enumerate(keys) if key not in self.known]

        def note(number: int, verdict: Verdict) -> None:
            self.known[keys[new[number]]] = verdict
            done(new[number], verdict)

        for i, key in enumerate(keys):
            if key in self.known:
                done(i, self.known[key])
        self.verifier.judge([jobs[i] for i in new], note)


def judge_all(plan: Plan) -> None:
    """Judge what has been sampled, until nothing more will be.

    Several runs at a time: some programs never end, and the others need not wait for them.
    """
    os.nice(5)  # those who train go first
    begun: set[Path] = set()
    with VerifierSettings().verifier() as verifier, ThreadPoolExecutor(_TOGETHER) as pool:
        remembering = cast(Verifier, Remembering(verifier))

        def judge(run: Run, parts: list[str]) -> None:
            began = time.monotonic()
            grade_parts(run, parts, remembering, "verdicts", lambda *_: None)
            print(f"{run.folder}: {time.monotonic() - began:.1f} s", flush=True)

        jobs: list[Future[None]] = []
        while True:
            last = (plan.out / "all-sampled").exists()
            for name, seed in plan.runs:
                folder = plan.folder(name, seed) / "sample"
                if plan.sampled(name, seed) and folder not in begun:
                    begun.add(folder)
                    run = Run.open(folder)
                    jobs.append(pool.submit(judge, run, ungraded(run, "verdicts")))
            for job in jobs:
                if last or job.done():
                    job.result()
            if last:
                return
            time.sleep(1)


def judged(plan: Plan) -> Iterator[tuple[str, int, Run]]:
    """The runs that are done with."""
    for name, seed in plan.runs:
        try:
            run = Run.open(plan.folder(name, seed) / "sample")
        except RunError:
            continue
        if plan.sampled(name, seed) and not ungraded(run, "verdicts"):
            yield name, seed, run


def write_results(plan: Plan, folder: Path) -> None:
    """rewards.parquet and steps.parquet: small enough to keep, enough for every table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rewards, steps = [], []
    for name, seed, run in judged(plan):
        table = run.read("verdicts", ["problem", "sample", "reward"]).sort_by("sample")
        of: dict[str, list[int]] = {}
        for row in table.to_pylist():
            of.setdefault(row["problem"], []).append(round(8 * row["reward"]))  # of eight tests
        for problem in sorted(of):
            rewards.append({"cell": name, "seed": seed, "problem": problem, "passed": of[problem]})
        for line in Run.open(run.folder.with_name("train")).metrics() if name != "base" else []:
            kept = {key: value for key, value in line.items() if isinstance(value, int | float)}
            steps.append({"cell": name, "seed": seed, **kept})
    folder.mkdir(parents=True, exist_ok=True)
    passed = pa.list_(pa.uint8())
    strings = pa.dictionary(pa.int32(), pa.string())
    types = [("cell", strings), ("seed", pa.int8()), ("problem", strings), ("passed", passed)]
    table = pa.Table.from_pylist(rewards, pa.schema(types))
    pq.write_table(table, folder / "rewards.parquet", compression="zstd", compression_level=19)
    if steps:
        names = sorted({key for step in steps for key in step} - {"cell", "seed"})
        whole = [{name: step.get(name) for name in ("cell", "seed", *names)} for step in steps]
        table = pa.Table.from_pylist(whole)
        floats = [f.with_type(pa.float32()) if f.type == pa.float64() else f for f in table.schema]
        table = table.cast(pa.schema(floats))
        pq.write_table(table, folder / "steps.parquet", compression="zstd", compression_level=19)
    print(f"{len({(row['cell'], row['seed']) for row in rewards})} runs in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description="train and measure every cell of a plan")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=".*", help="regular expression of the cells")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after this")
    parser.add_argument("--graphs", action="store_true", help="on a GPU: recorded steps, faster")
    parser.add_argument("--results", type=Path, help="write the small files into this folder")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    plan = Plan(given.plan, given.out, given.only, given.graphs)
    if given.one:
        carry_out(plan, given.one[0], int(given.one[1]))
    elif given.judge:
        judge_all(plan)
    elif given.results:
        write_results(plan, given.results)
    else:
        carry_out_all(plan, given.jobs, given.seconds)


if __name__ == "__main__":
    main()
