"""The paper on a laptop: a small language model trained with GRPO and for max@k, and measured.

    python examples/demo.py --out out/demo

Seven commands of `maxk`, as one would give them for a model of any size; this script only runs
them, shows how far they are, and says in six lines what came out. They are printed, and can be
repeated one by one. The report is written from the first minute on, with what there is.
"""

import argparse
import multiprocessing
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from maxk.cli import main as maxk
from maxk.cli.console import terminated_as_interrupted
from maxk.evaluate import Interval, scores
from maxk.evaluate.bootstrap import mean_interval
from maxk.evaluate.read import read_run
from maxk.report import Findings, gather, page
from maxk.report.watch import Watched, server
from maxk.store.run import Run, write_whole

PAGE_SECONDS = 60.0  # between two versions of the report
CONFIG = Path(__file__).parents[1] / "configs" / "demo.toml"
METHODS = {
    "grpo": ["--method.name", "grpo"],
    "maxk": ["--method.name", "off-policy-normalized", "--method.masking", "token"],
}
WHY = (
    "trained for max@4 by off-policy-normalized with masking by token, which README.md's table "
    '"which method when" names for several updates on a batch: here there are 3'
)
console = Console(highlight=False)


class Demo:
    """The commands and the folder they work in."""

    def __init__(self, out: Path, steps: int | None, problems: int, samples: int) -> None:
        self.out, self.problems, self.samples = out, problems, samples
        self.steps = [] if steps is None else ["--trl.max_steps", str(steps)]
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
        )
        self.bars = Progress(*columns, TimeElapsedColumn(), console=console)
        self.began = self.last = time.monotonic()
        self.ended = threading.Event()  # one command failed, or Ctrl-C
        # Every command is a process of its own, forked from one that has imported torch and TRL:
        # seven imports would take a minute.
        os.environ["OMP_NUM_THREADS"] = "1"  # the commands share the cores
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["__main__", "maxk.train.job"])

    def train(self, name: str) -> None:
        folder = self.out / f"train-{name}"
        config = os.path.relpath(CONFIG)
        given = ["train", config, "--run.out", str(folder), *METHODS[name], *self.steps]
        self.maxk(f"training {name}", given, lambda: steps_of(folder))

    def sample(self, name: str, model: str) -> None:
        folder = self.out / name
        given = ["sample", "--model", model, "--data", "pocket", "--split", "test"]
        given += ["--limit", str(self.problems), "-n", str(self.samples)]
        given += ["--max-tokens", "110", "--batch", "512"]  # larger: faster on a CPU
        total = self.problems * self.samples
        self.maxk(
            f"sampling {name}", [*given, "--out", str(folder)], lambda: rows_of(folder, total)
        )

    def both(self, name: str) -> None:
        self.train(name)
        self.sample(name, str(self.out / f"train-{name}" / "model"))

    def maxk(self, what: str, given: list[str], share: Callable[[], float] = float) -> None:
        """Run a command to its end; what it says goes into a file."""
        if self.ended.is_set():
            return
        console.print(f"maxk {shlex.join(given)}", style="dim", markup=False, soft_wrap=True)
        task = self.bars.add_task(what, total=1.0)
        log = self.out / f"{what.replace(' ', '-')}.log"
        process = self.processes.Process(target=command, args=(given, log))
        process.start()
        try:
            while process.is_alive() and not self.ended.wait(1):
                self.show(task, share())
        finally:
            process.terminate()
            process.join()
        if process.exitcode and not self.ended.is_set():
            raise SystemExit(f"maxk {given[0]} failed; {log} says why")
        self.bars.update(task, completed=1.0)

    def show(self, task: TaskID, share: float) -> None:
        self.bars.update(task, completed=share)
        if not console.is_terminal and time.monotonic() - self.last > 15:
            self.last = time.monotonic()
            states = [f"{each.description} {each.percentage:.0f} %" for each in self.bars.tasks]
            console.print(f"{self.last - self.began:.0f} s: {', '.join(states)}", soft_wrap=True)

    def at_once(self, jobs: list[Callable[[], None]]) -> None:
        """Three at a time on any number of cores: so all cores have work to the end."""
        with ThreadPoolExecutor(3) as pool:
            try:
                for job in as_completed([pool.submit(each) for each in jobs]):
                    job.result()
            except BaseException:
                self.ended.set()  # nothing goes on alone
                raise

    def run(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        runs = [str(self.out / name) for name in ("base", *METHODS)]
        trained = [str(self.out / f"train-{name}") for name in METHODS]
        report = self.out / "report.html"
        console.print(f"two models are trained: grpo, and maxk, which is {WHY}", soft_wrap=True)
        jobs: list[Callable[[], None]] = [lambda: self.sample("base", "pocket")]
        jobs += [lambda name=name: self.both(name) for name in METHODS]
        last = {"comparing": ["compare", *runs]}
        last["reporting"] = ["report", *runs, *trained, "--out", str(report)]
        with self.bars if console.is_terminal else nullcontext():
            with following([*runs, *trained], report):
                self.at_once(jobs)
            self.at_once([lambda each=each: self.maxk(*each) for each in last.items()])
        for line in findings(runs):
            console.print(line, soft_wrap=True, markup=False)
        seconds = time.monotonic() - self.began
        console.print(f"{seconds:.0f} s; the report: {report.resolve()}", soft_wrap=True)


def command(given: list[str], log: Path) -> None:
    """`maxk` in a process of its own."""
    with log.open("w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.argv = ["maxk", *given]  # written down in the run's folder
    maxk(given)


def findings(folders: list[str]) -> list[str]:
    """What came out, in five lines."""
    runs = [read_run(folder) for folder in folders]
    rows = [[run.rewards[problem] for problem in runs[0].rewards] for run in runs]
    n = min(len(row) for each in rows for row in each)
    most = max(1, n // 2)  # at k = n the draw of the samples hides the methods
    base, grpo, maxk = (scores(each, [1, most]) for each in rows)

    def change(first_PK: np.ndarray, second_PK: np.ndarray, column: int) -> str:
        gap_PK = np.round(first_PK - second_PK, 12)
        low_K, high_K = mean_interval(gap_PK, Interval())
        value = gap_PK.mean(0)[column]
        return f"{value:+.3f} ({low_K[column]:+.3f} to {high_K[column]:+.3f})"

    def row(name: str, scores_PK: np.ndarray) -> str:
        cells = [
            f"max@{k} {scores_PK.mean(0)[i]:.3f}"
            + ("" if scores_PK is base else f" {change(scores_PK, base, i)}")
            for i, k in enumerate((1, most))
        ]
        return f"{name:<6} {cells[0]:<38} {cells[1]}".rstrip()

    return [
        f"{len(base)} test problems, {n} samples each; after a figure its change from the base "
        "model, with the 95 % interval over problems:",
        row("base", base),
        row("grpo", grpo),
        row("maxk", maxk),
        f"maxk - grpo: max@1 {change(maxk, grpo, 0)}, max@{most} {change(maxk, grpo, 1)}; one run "
        "of each: other seeds differ by more than the interval says",
    ]


@contextmanager
def following(runs: list[str], out: Path) -> Iterator[None]:
    """Write and serve the report of what there is, again and again."""

    def build(version: int) -> str:
        found = Findings(gather(runs, live=True))
        write_whole(out, page(found).encode("utf-8", "replace"))
        return page(found, version=version)

    watched = Watched([Path(run) for run in runs], build, PAGE_SECONDS)
    with server(watched) as serving:
        for each in (serving.serve_forever, watched.follow):
            threading.Thread(target=each, daemon=True).start()
        address = f"http://127.0.0.1:{serving.server_port}/"
        console.print(
            f"the report, from the first step on: {address} or {out.resolve()}", soft_wrap=True
        )
        try:
            yield
        finally:
            watched.stop.set()
            serving.shutdown()


def steps_of(folder: Path) -> float:
    """Which share of its steps a training run has made."""
    try:
        run = Run.open(folder)
    except ValueError:
        return 0.0
    step = max((line.get("step", 0) for line in run.metrics()), default=0)
    return step / run.config["trl"]["max_steps"]


def rows_of(folder: Path, total: int) -> float:
    """Which share of its completions a sampling run has."""
    if not (folder / "completions").exists():
        return 0.0
    return Run.open(folder).read("completions", ["sample"]).num_rows / total


def main() -> None:
    parser = argparse.ArgumentParser(description="train a small model for Best-of-N, and look")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    parser.add_argument("--steps", type=int, help="optimiser steps; default: as configs/demo.toml")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=32)
    given = parser.parse_args()
    with terminated_as_interrupted():
        Demo(given.out, given.steps, given.problems, given.samples).run()


if __name__ == "__main__":
    main()
