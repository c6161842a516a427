"""Judge what `run --judge-later` has sampled, here or on another machine, and write the results.

    python -m experiments.grid.judge --work DIR --results DIR

It needs no GPU, no model and no data: a run's folder has its problems. Cells are finished in the
order in which they were begun, so that of those asked for first there is most when time is up. What
is judged already is not judged again, so it can be stopped whenever. --follow waits for more.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.grid.results import all_sampled, collect, whole
from maxk.grade.parallel import grade_run
from maxk.store.run import Run, RunError
from maxk.verify import Limits, VerifierSettings

_POLL = 2.0  # seconds


def judge_next(
    work: Path, results: Path, judges: int | None, done: set[Path], only: Sequence[str] | None
) -> int:
    """Judge one set that is sampled, of the cell that was begun first, and write its results.

    Gives how many completions that was. done: folders of sets that need not be looked at again.
    only: these sets.
    """
    for folder in sorted((path.parent for path in work.glob("*/about.json")), key=begun):
        kept, before, judged = json.loads((folder / "about.json").read_text()), len(done), 0
        limits = Limits(**kept["about"]["limits"])
        for name in kept["sets"]:
            path = folder / "sets" / name
            wanted = (only is None or name in only) and path not in done and not judged
            if wanted and (path / "config.toml").exists():
                judged = judge_set(path, VerifierSettings(judges, limits), done)
        if len(done) > before:
            collect(folder, results, kept["about"], kept["sets"])
        if judged:
            return judged
    return 0


def begun(folder: Path) -> tuple[float, str]:
    """To sort cells by."""
    return (folder / "id").stat().st_mtime, folder.name


def judge_set(path: Path, judging: VerifierSettings, done: set[Path]) -> int:
    """Judge a set if all of it is sampled; gives how many completions that was."""
    run, cell = Run.open(path), path.parent.parent
    if not all_sampled(run):
        return 0
    count, start = 0, time.monotonic()
    if not whole(run):
        try:
            count = grade_run(run, judging)
        except RunError as error:  # who samples has not let go of it yet
            print(f"{cell.name}: {path.name}: {error}", flush=True)
            return 0
        seconds = time.monotonic() - start
        with (cell / "stages.jsonl").open("a") as file:
            line = {"stage": f"judge {path.name}", "seconds": round(seconds, 2)}
            file.write(json.dumps({**line, "completions": count}) + "\n")
        print(f"{cell.name}: {path.name}, {count} completions, {seconds:.0f} s", flush=True)
    done.add(path)
    return count


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="judge what was sampled")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--judges", type=int, help="programs at once; default: 2 per core")
    parser.add_argument("--sets", nargs="+", help="these only; default: all")
    parser.add_argument("--follow", action="store_true", help="wait for more to be sampled")
    asked = parser.parse_args(given)
    done: set[Path] = set()
    while True:
        judged = judge_next(asked.work, asked.results, asked.judges, done, asked.sets)
        if not judged and not asked.follow:
            return 0
        if not judged:
            time.sleep(_POLL)


if __name__ == "__main__":
    sys.exit(main())
