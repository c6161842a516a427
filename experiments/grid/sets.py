"""The problems of the evaluation sets.

The tests of MBPP+ are what its references answer, which takes most of a minute to ask. So they are
asked once, by a process beside the one that starts the engine, and kept:

    python -m experiments.grid.sets --data-dir DIR --work DIR
"""

import argparse
import fcntl
import subprocess
import sys
from pathlib import Path

from experiments.grid.plan import EvalSet, Grid, read_grid
from maxk.data import load
from maxk.data.plus import expected_values
from maxk.records import Problem
from maxk.store.run import Run
from maxk.store.tables import problems_of, write_problems
from maxk.verify import Verifier


def number(problem: str) -> str:
    """The part of an id that a set and the one it is judged on share.

    >>> number("mbpp-plus/11")
    '11'
    """
    return problem.partition("/")[2]


def load_set(each: EvalSet, data: Path) -> list[Problem]:
    """The problems that are sampled, in the order of the file."""
    found = load(each.data, each.split, data / each.source, **each.options)
    ids = each.chosen()
    if ids is not None:
        by_id = {problem.id: problem for problem in found}
        found = [by_id[chosen] for chosen in ids]
    return found[: each.limit]


def judged_set(each: EvalSet, sampled: list[Problem], data: Path) -> list[Problem]:
    """Of a set without samples of its own, what is the same problem as one that has: the same task
    with a function of the same name."""
    asked = {number(problem.id): problem.entry_point for problem in sampled}
    found = load(each.data, each.split, data / each.source)
    return [p for p in found if asked.get(number(p.id), "") == p.entry_point]


class Sets:
    """All sets of the grid, each loaded when it is first asked for."""

    def __init__(self, grid: Grid, data: Path, work: Path) -> None:
        self.grid, self.data, self.work = grid, data, work
        self.loaded: dict[str, list[Problem]] = {}
        self.asking: subprocess.Popen[bytes] | None = None

    def __getitem__(self, name: str) -> list[Problem]:
        if name not in self.loaded:
            each = self.grid.sets[name]
            if each.judged_on is None:
                self.loaded[name] = load_set(each, self.data)
            else:
                self.wait()
                self.loaded[name] = problems_of(self.kept(name))
        return self.loaded[name]

    def kept(self, name: str) -> Run:
        """Where the answers of references are."""
        each = self.grid.sets[name]
        folder = self.work / "sets" / f"{name}-{each.limit or 'all'}"
        return Run.start(folder, "sample", {"data": each.table()})

    def ask(self) -> None:
        """Have the references of all sets answer, once for all who work here."""
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / "sets.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name, each in self.grid.sets.items():
                if each.judged_on is None or self.kept(name).parts("problems"):
                    continue
                same = judged_set(each, self[each.judged_on], self.data)
                with Verifier() as verifier:
                    problems, _ = expected_values(same, verifier)
                write_problems(self.kept(name), problems)

    def ask_beside(self) -> None:
        """The same in a process of its own."""
        limits = {each.limit for each in self.grid.sets.values()}
        command = [sys.executable, "-m", __spec__.name, "--data-dir", str(self.data)]
        command += ["--work", str(self.work)]
        if (limit := limits.pop()) is not None:
            command += ["--limit", str(limit)]
        self.asking = subprocess.Popen(command)

    def stop(self) -> None:
        """Not needed any more."""
        if self.asking is not None:
            self.asking.kill()
            self.asking.wait()

    def wait(self) -> None:
        if self.asking is not None and self.asking.wait() != 0:
            raise RuntimeError("the references of the sets gave no answers; see above")
        self.asking = None


def main() -> None:
    parser = argparse.ArgumentParser(description="have the references of MBPP+ answer")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    grid = read_grid() if given.limit is None else read_grid().limited(given.limit)
    Sets(grid, given.data_dir, given.work).ask()


if __name__ == "__main__":
    main()
