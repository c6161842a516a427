"""The paper on a laptop: a small language model trained with GRPO and for max@k, and measured.

    python examples/demo.py --out out/demo

Six commands of `maxk`, as one would give them for a model of any size; this script only runs them,
two at a time, and shows how far they are. They are printed, and can be repeated one by one.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from maxk.store.run import Run

CONFIG = Path(__file__).parents[1] / "configs" / "pocket.toml"
METHODS = {"grpo": "grpo", "maxk": "bon-loo"}
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
        console.print(f"maxk {' '.join(given)}", style="dim", soft_wrap=True)
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
                while process.poll() is None:
                    time.sleep(1)
                    self.show(task, done())
            finally:
                process.terminate()
                process.wait()
        if process.returncode:
            raise SystemExit(f"maxk {given[0]} failed; {log} says why")
        self.bars.update(task, completed=total)

    def show(self, task: TaskID, done: int) -> None:
        self.bars.update(task, completed=done)
        if not console.is_terminal and time.monotonic() - self.last > 15:
            self.last = time.monotonic()
            for each in self.bars.tasks:
                console.print(f"{each.description}: {each.completed:.0f} of {each.total:.0f}")

    def run(self) -> None:
        began = time.monotonic()
        self.out.mkdir(parents=True, exist_ok=True)
        with self.bars if console.is_terminal else open(os.devnull), ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(self.both, name) for name in METHODS]
            jobs.append(pool.submit(self.sample, "base", "pocket"))
            for job in jobs:
                job.result()
        runs = [str(self.out / name) for name in ("base", *METHODS)]
        trained = [str(self.out / f"train-{name}") for name in METHODS]
        page = self.out / "report.html"
        for given in (["compare", *runs], ["report", *runs, *trained, "--out", str(page)]):
            console.print(f"maxk {' '.join(given)}", style="dim", soft_wrap=True)
            subprocess.run([sys.executable, "-m", "maxk", *given], check=True)
        console.print(
            f"{time.monotonic() - began:.0f} s; the report: {page.resolve()}", soft_wrap=True
        )


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
    Demo(given.out, given.steps, given.problems, given.samples).run()


if __name__ == "__main__":
    main()
