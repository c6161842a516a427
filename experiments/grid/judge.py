"""Judge what `run --judge-later` has sampled, here or on another machine, and write the results.

    python -m experiments.grid.judge --work DIR --results DIR

It needs no GPU, no model and no data: a run's folder has its problems. What is judged already is
not judged again, so that it can be stopped at any time. --follow waits for more.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.grid.results import all_sampled, collect, whole
from maxk.runs import Run, RunError
from maxk.sample import Judging, verify_run
from maxk.verify import Limits

_POLL = 2.0  # seconds


def judge_cell(
    folder: Path,
    results: Path,
    judges: int | None,
    done: set[Path],
    only: Sequence[str] | None = None,
) -> int:
    """Judge the sets of a cell that are sampled; gives how many completions that was.

    done: folders of sets that need not be looked at again. only: these sets.
    """
    kept = json.loads((folder / "about.json").read_text())
    limits, judged, before = Limits(**kept["about"]["limits"]), 0, len(done)
    for name in kept["sets"]:
        path = folder / "sets" / name
        wanted = only is None or name in only
        if not wanted or path in done or not (path / "config.toml").exists():
            continue
        run = Run.open(path)
        if not all_sampled(run):
            continue
        if whole(run):
            done.add(path)
            continue
        begun = time.monotonic()
        try:
            count = verify_run(run, Judging(judges, limits))
        except RunError as error:  # who samples has not let go of it yet
            print(f"{folder.name}: {name}: {error}", flush=True)
            continue
        judged += count
        seconds = time.monotonic() - begun
        with (folder / "stages.jsonl").open("a") as file:
            line = {"stage": f"judge {name}", "seconds": round(seconds, 2), "completions": count}
            file.write(json.dumps(line) + "\n")
        print(f"{folder.name}: {name}, {count} completions, {seconds:.0f} s", flush=True)
        done.add(path)
    if len(done) > before:
        collect(folder, results, kept["about"], kept["sets"])
    return judged


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
        folders = [path.parent for path in sorted(asked.work.glob("*/about.json"))]
        judged = sum(
            judge_cell(folder, asked.results, asked.judges, done, asked.sets) for folder in folders
        )
        if not asked.follow:
            return 0
        if not judged:
            time.sleep(_POLL)


if __name__ == "__main__":
    sys.exit(main())
