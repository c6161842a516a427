"""Other ways to sample from the models of the grid, and in which order to take them.

Temperatures, hints in the prompt and weights on the way back to the base model (arms.toml) are
sampled on validation problems; a plan for 128 samples is made of each model's ways
(`maxk.evaluate.plan`), and the test sets are sampled by that plan and in no other way.

    python -m experiments.grid.arms judge --follow --data-dir DIR --work DIR &
    python -m experiments.grid.arms sample leetcode-grpo-s1 --model M --data-dir DIR --work DIR
    python -m experiments.grid.arms sample leetcode-grpo-s1 --phase test --model M ...
    python -m experiments.grid.arms collect leetcode-grpo-s1 --work DIR --results DIR

The first writes the plan of a model once all of its ways are judged; the third needs it.
"""

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.grid.engines import TransformersEngine, weights_of
from experiments.grid.plan import BASE, HERE, read_grid
from experiments.grid.results import all_sampled, rows_of, whole
from experiments.grid.run import SHARED, number
from experiments.grid.sets import Sets, load_set
from experiments.grid.stages import copy_samples
from maxk.evaluate import plan, planned
from maxk.pocket import resolve
from maxk.records import Problem
from maxk.runs import Run, environment, write_whole
from maxk.sample import Judging, Progress, sample, verify_run

PLAIN = "plain"
_POLL = 2.0  # seconds
ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("phase", "way", "set", "problem")),
        ("reward", pa.list_(pa.float64())),
        ("tokens", pa.list_(pa.int16())),
        ("stopped", pa.list_(pa.bool_())),
    ]
)


@dataclass(frozen=True)
class Way:
    """One way to sample; `start`: the share of the weights that training began with."""

    name: str
    temperature: float
    start: float = 0.0
    hints: bool = False


@dataclass(frozen=True)
class Arms:
    """arms.toml."""

    n: int
    hints: list[str]
    ways: dict[str, Way]
    validation: dict[str, int]
    test: dict[str, Any]

    def of(self, cell: str) -> list[Way]:
        """The ways of a model; the base model has no way back."""
        base = cell.startswith(f"{BASE}-s")
        return [way for way in self.ways.values() if not (base and way.start)]


def read_arms(file: Path = HERE / "arms.toml") -> Arms:
    given = tomllib.loads(file.read_text())
    given["ways"] = {name: Way(name, **each) for name, each in given["ways"].items()}
    return Arms(**given)


class Site:
    """Folders, problems and settings that all of it shares."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.arms, grid = read_arms(given.arms), read_grid(given.grid)
        self.grid = grid if given.limit is None else grid.limited(given.limit)
        self.work, self.data = given.work, given.data_dir
        self.sets = Sets(self.grid, self.data, self.work)

    def folder(self, cell: str, phase: str, way: str) -> Path:
        return self.work / cell / "arms" / phase / way

    def plan_of(self, cell: str) -> Path:
        return self.work / cell / "arms" / "plan.json"

    def problems(self, phase: str) -> list[Problem]:
        """Those of all sets that are sampled, set by set."""
        if phase == "test":
            return [
                problem
                for name in self.arms.test["sets"]
                for problem in load_set(self.grid.sets[name], self.data)
            ]
        return [
            problem
            for name, every in self.arms.validation.items()
            for problem in load_set(self.grid.sets[name], self.data)[::every]
        ]


# --- sampling ------------------------------------------------------------------------------------


def sample_ways(site: Site, cell: str, given: argparse.Namespace) -> None:
    """Validation in all ways, or the test sets by the plan that was made of it."""
    import torch

    on_gpu = torch.cuda.is_available()
    if on_gpu and given.beside:
        torch.cuda.set_per_process_memory_fraction(SHARED / (1 + given.beside))
    options = (site.grid.own if on_gpu else {}) | {k: number(v) for k, v in given.engine_option}
    base = resolve(given.model)
    trained = base if cell.startswith(f"{BASE}-s") else site.work / cell / "train" / "model"
    engine = TransformersEngine(options)
    sampler = engine.sampler(trained)
    counts = {way.name: site.arms.n for way in site.arms.of(cell)}
    if given.phase == "test":
        counts = Counter(json.loads(site.plan_of(cell).read_text())["order"])
    share, problems = 0.0, site.problems(given.phase)
    for way in site.arms.of(cell):
        if not (n := counts.get(way.name, 0)):
            continue
        if way.start != share:
            sampler.load(between(trained, base, way.start))  # type: ignore[attr-defined]
            share = way.start
        sample_way(site, cell, given.phase, way, n, problems, sampler)


def between(trained: Path | str, base: Path | str, share: float) -> Iterator[tuple[str, Any]]:
    """The weights on the way back to the base model."""
    start = dict(weights_of(base))
    for name, weight in weights_of(trained):
        moved = weight.float()
        yield name, moved + share * (start[name].float() - moved)


def sample_way(
    site: Site,
    cell: str,
    phase: str,
    way: Way,
    n: int,
    problems: Sequence[Problem],
    sampler: Any,
) -> None:
    arms = site.arms
    # Every way has random streams of its own: samples of two are to be independent.
    seed = int(cell.rpartition("-s")[2]) * 100 + list(arms.ways).index(way.name) + 1
    settings = replace(site.grid.settings, temperature=way.temperature, seed=seed)
    config = {
        "model": cell,
        "way": asdict(way),
        "n": n,
        "data": {"phase": phase},
        "settings": asdict(settings),
        "hints": arms.hints if way.hints else [],
    }
    run = Run.start(site.folder(cell, phase, way.name), "sample", config)
    if run.parts("problems") and all_sampled(run):
        return
    begun, last = time.monotonic(), Progress(0)

    def progress(state: Progress) -> None:
        nonlocal last
        last = state

    hints = arms.hints if way.hints else ()
    sample(problems, sampler, run, n, settings, hints=hints, progress=progress)
    seconds = time.monotonic() - begun
    note = {"seconds": round(seconds, 2), "new": last.new, "tokens": last.tokens}
    write_whole(run.folder / "sampled.json", json.dumps(note).encode())
    rate = last.tokens / seconds
    print(f"{cell}: {phase} {way.name} x {n}, {seconds:.0f} s, {rate:,.0f} tokens/s", flush=True)


# --- judging, and plans --------------------------------------------------------------------------


def judge(site: Site, given: argparse.Namespace) -> None:
    """Judge what is sampled, validation first, and write the plan of each model that is ready."""
    judging = Judging(given.judges, site.grid.limits)
    done: set[Path] = set()
    while True:
        sampled = [
            path.parent
            for phase in ("validation", "test")
            for path in sorted(site.work.glob(f"*/arms/{phase}/*/sampled.json"))
        ]
        waiting = [folder for folder in sampled if folder not in done]
        other = [f for f in sampled if f.parent.name == "test" and f / "judged" not in done]
        begun = time.monotonic()
        if waiting:
            folder = waiting[0]
            count = verify_run(Run.open(folder), judging)
            done.add(folder)
            print(f"{folder}: {count} judged, {time.monotonic() - begun:.0f} s", flush=True)
            cell = folder.parents[2].name
            if not site.plan_of(cell).exists() and ready(site, cell):
                make_plan(site, [cell], site.plan_of(cell))
        elif other:  # these take longest
            folder = other[0]
            judge_too(site, Run.open(folder), judging)
            done.add(folder / "judged")
            print(f"{folder}: judged too, {time.monotonic() - begun:.0f} s", flush=True)
        elif not given.follow:
            return
        else:
            time.sleep(_POLL)


def judge_too(site: Site, run: Run, judging: Judging) -> None:
    """The samples of a set by the tests of another, beside the run."""
    site.sets.ask()
    for name, sampled in site.arms.test["judged_too"].items():
        other = Run.start(run.folder / name, "sample", run.config)
        copy_samples(run, other, site.sets[name], sampled)
        verify_run(other, judging)


def ready(site: Site, cell: str) -> bool:
    folders = [site.folder(cell, "validation", way.name) for way in site.arms.of(cell)]
    return all((f / "sampled.json").exists() and whole(Run.open(f)) for f in folders)


def make_plan(site: Site, cells: Sequence[str], out: Path) -> None:
    """From the rewards on validation."""
    names, ways = [], []
    for cell in cells:
        for way in site.arms.of(cell):
            names.append(way.name if len(cells) == 1 else f"{cell} {way.name}")
            run = Run.open(site.folder(cell, "validation", way.name))
            ways.append([row["reward"] for row in rows_of(run, "")])
    k = min(site.arms.test["k"], len(ways) * site.arms.n)
    order = plan(ways, k)
    curve = planned(ways, order).mean(axis=0)
    made = {"cells": list(cells), "order": [names[way] for way in order]}
    made["validation"] = [round(float(x), 4) for x in curve]
    write_whole(out, json.dumps(made).encode())
    print(f"{', '.join(cells)}: {dict(Counter(made['order']))}", flush=True)
    print(f"  {made['validation']}", flush=True)


# --- results -------------------------------------------------------------------------------------


def collect(site: Site, cell: str, results: Path) -> None:
    """NAME.parquet: a row per phase, way, set and problem, with lists over samples; NAME.json."""
    found: list[dict[str, Any]] = []
    stages: dict[str, Any] = {}
    for phase in ("validation", "test"):
        set_of = sets_of(site, phase)
        for way in site.arms.of(cell):
            folder = site.folder(cell, phase, way.name)
            for name in ("", *(site.arms.test["judged_too"] if phase == "test" else ())):
                if not (folder / name / "config.toml").exists() or not whole(
                    run := Run.open(folder / name)
                ):
                    continue
                rows = rows_of(run, name)
                keys = ("problem", "reward", "tokens", "stopped")
                found += [
                    {"phase": phase, "way": way.name, "set": name or set_of[row["problem"]]}
                    | {key: row[key] for key in keys}
                    for row in rows
                ]
            if (folder / "sampled.json").exists():
                stages[f"{phase} {way.name}"] = json.loads((folder / "sampled.json").read_text())
    results.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(found, ROWS)
    pq.write_table(table, results / f"{cell}.parquet", compression="zstd", compression_level=19)
    plan_file = site.plan_of(cell)
    about = {
        "cell": cell,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
        "settings": asdict(site.grid.settings),
        "limits": asdict(site.grid.limits),
        "hints": site.arms.hints,
        "ways": {way.name: asdict(way) for way in site.arms.of(cell)},
        "plan": json.loads(plan_file.read_text()) if plan_file.exists() else None,
        "stages": stages,
    }
    write_whole(results / f"{cell}.json", (json.dumps(about) + "\n").encode())
    print(f"{cell}: {len(found)} rows", flush=True)


def sets_of(site: Site, phase: str) -> dict[str, str]:
    """The set of each problem."""
    names = site.arms.test["sets"] if phase == "test" else list(site.arms.validation)
    return {p.id: name for name in names for p in load_set(site.grid.sets[name], site.data)}


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="other ways to sample, and plans of them")
    parser.add_argument("action", choices=("sample", "judge", "plan", "collect"))
    parser.add_argument("cells", nargs="*", help="with their seeds, as in leetcode-grpo-s1")
    parser.add_argument("--phase", choices=("validation", "test"), default="validation")
    parser.add_argument("--work", type=Path, default=Path("out/grid"))
    parser.add_argument("--results", type=Path, default=Path("out/grid-results/arms"))
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--model", default=read_grid().model)
    parser.add_argument("--judges", type=int)
    parser.add_argument("--follow", action="store_true", help="wait for more to be sampled")
    parser.add_argument("--limit", type=int, help="the first so many problems of each set")
    parser.add_argument("--out", type=Path, help="of plan")
    parser.add_argument("--engine-option", nargs=2, action="append", default=[], metavar="X")
    parser.add_argument("--beside", type=int, default=0, help="others on this GPU")
    parser.add_argument("--grid", type=Path, default=HERE / "grid.toml", help=argparse.SUPPRESS)
    parser.add_argument("--arms", type=Path, default=HERE / "arms.toml", help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    site = Site(asked)
    if asked.action == "judge":
        judge(site, asked)
    elif asked.action == "plan":
        make_plan(site, asked.cells, asked.out or site.work / "plan.json")
    else:
        for cell in asked.cells:
            if asked.action == "sample":
                sample_ways(site, cell, asked)
            else:
                collect(site, cell, asked.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
