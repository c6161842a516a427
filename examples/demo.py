"""The paper on a laptop: a small language model trained with GRPO and for max@k, and measured.

    python examples/demo.py --out out/demo

Seven commands of `maxk`, as one would give them for a model of any size; this script only runs
them, two at a time, and shows how far they are. They are printed, and can be repeated one by one.
The report is written from the first minute on, with what there is.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from maxk.cli.console import terminated_as_interrupted
from maxk.report import Findings, gather, page
from maxk.report.watch import Watched, server
from maxk.store.run import Run, write_whole

PAGE_SECONDS = 15.0  # between two versions of the report
CONFIG = Path(__file__).parents[1] / "configs" / "pocket.toml"
METHODS = {"grpo": "grpo", "maxk": "bon-centered"}  # README.md says which method when
console = Console(highlight=False)


class Demo:
    """The commands and the folder they work in."""

    def __init__(self, out: Path, steps: int, problems: int, samples: int) -> None:
        self.out, self.steps, self.problems, self.samples = out, steps, problems, samples
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
        )
        self.bars = Progress(*columns, TimeElapsedColumn(), console=console)
        self.last = time.monotonic()
        self.ended = threading.Event()  # one command failed, or Ctrl-C

    def train(self, name: str) -> None:
        folder = self.out / f"train-{name}"
        given = ["train", str(CONFIG), "--run.out", str(folder), "--method.name", METHODS[name]]
        given += ["--trl.max_steps", str(self.steps)]
        self.maxk(f"training {name}", given, lambda: steps_of(folder), self.steps)

    def sample(self, name: str, model: str) -> None:
        folder = self.out / name
        given = ["sample", "--model", model, "--data", "pocket", "--split", "test"]
        given += ["--limit", str(self.problems), "-n", str(self.samples), "--max-tokens", "110"]
        total = self.problems * self.samples
        self.maxk(
            f"sampling {name}", [*given, "--out", str(folder)], lambda: rows_of(folder), total
        )

    def both(self, name: str) -> None:
        self.train(name)
        self.sample(name, str(self.out / f"train-{name}" / "model"))

    def maxk(self, what: str, given: list[str], done: Callable[[], int], total: int) -> None:
        """Run a command to its end; what it says goes into a file."""
        if self.ended.is_set():
            return
        self.shown(given)
        task = self.bars.add_task(what, total=total)
        log = self.out / f"{what.replace(' ', '-')}.log"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "maxk", *given],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            try:
                while process.poll() is None and not self.ended.wait(1):
                    self.show(task, done())
            finally:
                process.terminate()
                process.wait()
        if process.returncode and not self.ended.is_set():
            raise SystemExit(f"maxk {given[0]} failed; {log} says why")
        self.bars.update(task, completed=total)

    def show(self, task: TaskID, done: int) -> None:
        self.bars.update(task, completed=done)
        if not console.is_terminal and time.monotonic() - self.last > 15:
            self.last = time.monotonic()
            for each in self.bars.tasks:
                console.print(f"{each.description}: {each.completed:.0f} of {each.total:.0f}")

    def shown(self, given: list[str]) -> None:
        console.print(f"maxk {' '.join(given)}", style="dim", soft_wrap=True)

    def run(self) -> None:
        began = time.monotonic()
        self.out.mkdir(parents=True, exist_ok=True)
        runs = [str(self.out / name) for name in ("base", *METHODS)]
        trained = [str(self.out / f"train-{name}") for name in METHODS]
        report = self.out / "report.html"
        bars = self.bars if console.is_terminal else nullcontext()
        with following([*runs, *trained], report), bars, ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(self.both, name) for name in METHODS]
            jobs.append(pool.submit(self.sample, "base", "pocket"))
            try:
                for job in as_completed(jobs):
                    job.result()
            finally:
                self.ended.set()  # nothing goes on alone
        for given in (["compare", *runs], ["report", *runs, *trained, "--out", str(report)]):
            self.shown(given)
            subprocess.run([sys.executable, "-m", "maxk", *given], check=True)
        console.print(
            f"{time.monotonic() - began:.0f} s; the report: {report.resolve()}", soft_wrap=True
        )


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
        console.print(f"the report, from the first step on: {address} or {out.resolve()}")
        try:
            yield
        finally:
            watched.stop.set()
            serving.shutdown()


def steps_of(folder: Path) -> int:
    """How many steps a training run has made."""
    if not (folder / "config.toml").exists():
        return 0
    return max((line.get("step", 0) for line in Run.open(folder).metrics()), default=0)


def rows_of(folder: Path) -> int:
    """How many completions a sampling run has."""
    if not (folder / "completions").exists():
        return 0
    return Run.open(folder).read("completions", ["sample"]).num_rows


def main() -> None:
    parser = argparse.ArgumentParser(description="train a small model for Best-of-N, and look")
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=128)
    given = parser.parse_args()
    with terminated_as_interrupted():
        Demo(given.out, given.steps, given.problems, given.samples).run()


if __name__ == "__main__":
    main()
