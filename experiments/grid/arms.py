"""Other ways to sample from the models of the grid, and in which order to take them.

A way is a temperature, with or without hints in the prompt, and weights on the way back to the base
model (arms.toml, or --arms). arms.sh takes all these steps; each goes on from its files.

    python -m experiments.grid.arms sample leetcode-grpo-s1 --model M --data-dir DIR --work DIR
    python -m experiments.grid.arms judge leetcode-grpo-s1 base-s0 --data-dir DIR --work DIR
    python -m experiments.grid.arms sample leetcode-grpo-s1 --phase test --model M ...
    python -m experiments.grid.arms sample leetcode-grpo-s1 --phase alone --model M ...
    python -m experiments.grid.arms judge --data-dir DIR --work DIR
    python -m experiments.grid.arms collect leetcode-grpo-s1 --work DIR --results DIR

1. Samples validation problems in all ways: WORK/CELL/arms/validation/WAY. The model is that of
   WORK/CELL/train, or of `base` the one it began as.
2. Judges them. Once all ways of a model are judged, a plan for 128 samples is made of them
   (`maxk.evaluate.plan`): WORK/CELL/arms/plan.json. Once all models that it was given have one,
   a plan is made of all ways of all these models: WORK/together.json. Trainings that differ in
   nothing but the seed take turns there.
3. Samples the test sets by these two plans, or by the second alone, and in no other way:
   WORK/CELL/arms/test/WAY. A way has as many samples as the plan asks for that asks for more, or
   several times as many, for better estimates.
4. Samples the test sets in the way that the grid has, 128 times, in WORK/CELL/arms/alone/WAY: what
   the same training is worth without a plan. That is only if arms.toml names such a way.
5. Judges these, and last the samples of MBPP by the tests of MBPP+, in a folder of that name there.
6. Writes what is judged so far:

    CELL.json      the training's id, machines, settings, hints, ways; the plan, with what it is
                   worth on the problems it was chosen by, for 1, 2, 4 ... samples, and the plan of
                   several models; seconds and tokens of each way's last start
    CELL.parquet   a row per phase, way, set and problem, with lists over the samples

      phase        string         "validation", "test" or "alone"
      way          string         name in arms.toml
      set          string
      problem      string         id
      reward       list<double>   the fraction of tests passed
      tokens       list<int16>    of the completion, the end token counted
      stopped      list<bool>     it ended by itself

Sample i of a way with hints has hint i modulo their number.
"""

import argparse
import json
import sys
import time
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.grid.plan import BASE, HERE, read_grid
from experiments.grid.planned import in_turn
from experiments.grid.results import lines, rows_of, whole, without_places
from experiments.grid.sets import Sets, load_set
from maxk.evaluate import plan, planned
from maxk.pocket import resolve
from maxk.records import Problem
from maxk.runs import Run, write_whole
from maxk.sample import Judging, Sampler, sample, verify_run

# torch is imported where it is needed: who judges or collects does without.
if TYPE_CHECKING:
    import torch

PHASES = ("validation", "test", "alone")
ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("phase", "way", "set", "problem")),
        ("reward", pa.list_(pa.float64())),
        ("tokens", pa.list_(pa.int16())),
        ("stopped", pa.list_(pa.bool_())),
    ]
)
_POLL = 2.0  # seconds


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
    max_tokens: int
    hints: list[str]
    ways: dict[str, Way]
    validation: dict[str, int]
    test: dict[str, Any]

    def of(self, cell: str) -> list[Way]:
        """The ways of a model; the base model has no way back."""
        base = is_base(cell)
        return [way for way in self.ways.values() if not (base and way.start)]


def read_arms(file: Path = HERE / "arms.toml") -> Arms:
    """What a file does not say is as arms.toml has it."""
    given, own = (tomllib.loads(path.read_text()) for path in (HERE / "arms.toml", file))
    given |= own | {"test": given["test"] | own.get("test", {})}
    given["ways"] = {name: Way(name, **each) for name, each in given["ways"].items()}
    return Arms(**given)


def is_base(cell: str) -> bool:
    return cell.rpartition("-s")[0] == BASE


class Site:
    """Folders and settings that all steps share."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.arms, grid = read_arms(given.arms), read_grid(given.grid)
        self.grid = grid if given.limit is None else grid.limited(given.limit)
        self.work, self.data = given.work, given.data_dir

    def folder(self, cell: str, phase: str, way: str) -> Path:
        return self.work / cell / "arms" / phase / way

    def plan_of(self, cell: str) -> Path:
        return self.work / cell / "arms" / "plan.json"

    @property
    def together(self) -> Path:
        """The plan of several models."""
        return self.work / "together.json"

    def problems(self, phase: str) -> dict[str, list[Problem]]:
        """Those that are sampled, by set."""
        every = self.arms.validation
        if phase != "validation":
            every = dict.fromkeys(self.arms.test["sets"], 1)
        return {
            name: load_set(self.grid.sets[name], self.data)[::step] for name, step in every.items()
        }

    def counts(self, cell: str, phase: str) -> dict[str, int]:
        """Samples of a problem in each way: of two plans, by the one that asks for more.

        Hints are taken in turn, and the plan's estimates are of any choice among all of them. So a
        way with hints has each equally often, and a few samples more than were planned.
        """
        ways = self.arms.of(cell)
        if phase == "validation":
            return {way.name: self.arms.n for way in ways}
        if phase == "alone":
            alone = self.arms.test.get("alone")
            return {alone: self.arms.test["k"]} if alone else {}
        asked: Counter[str] = Counter()
        if "each" in self.arms.test["plans"] or not self.together.exists():
            asked |= Counter(json.loads(self.plan_of(cell).read_text())["order"])
        if "together" in self.arms.test["plans"] and self.together.exists():
            order = json.loads(self.together.read_text())["order"]
            asked |= Counter(way for other, way in order if other == cell)
        turns = {way.name: len(self.arms.hints) if way.hints else 1 for way in ways}
        times = self.arms.test["times"]
        return {
            name: -(-asked[name] * times // turn) * turn
            for name, turn in turns.items()
            if asked[name]
        }


# --- sampling ------------------------------------------------------------------------------------


def sample_ways(site: Site, cell: str, given: argparse.Namespace) -> None:
    """Validation in all ways, or the test sets by the plans that were made of it, or in one."""
    counts = site.counts(cell, given.phase)
    ways = [
        way
        for way in site.arms.of(cell)
        if way.name in counts and not sampled(site.folder(cell, given.phase, way.name))
    ]
    if not ways:
        return
    import torch

    from experiments.grid.run import SHARED, number
    from maxk.keeping import folder_of
    from maxk.sample.transformers_ import TransformersSampler

    on_gpu = torch.cuda.is_available()
    if on_gpu and given.beside:
        torch.cuda.set_per_process_memory_fraction(SHARED / (1 + given.beside))
    options = (site.grid.own if on_gpu else {}) | {k: number(v) for k, v in given.engine_option}
    base = folder_of(resolve(given.model))
    trained = base if is_base(cell) else site.work / cell / "train" / "model"
    sampler = TransformersSampler(str(trained), **options)
    share, problems = 0.0, site.problems(given.phase)
    for way in ways:
        if way.start != share:
            sampler.load(between(trained, base, way.start))
            share = way.start
        sample_way(site, cell, given.phase, way, counts[way.name], problems, sampler)


def sampled(folder: Path) -> bool:
    """Whether a way is sampled to its end, and nobody holds its run."""
    return (folder / "sampled.json").exists()


def between(trained: Path, base: Path, share: float) -> "Iterator[tuple[str, torch.Tensor]]":
    """The weights on the way back to the base model, as `maxk.keeping.mix` writes them."""
    from maxk.keeping import moved, weights_of

    others = [(base, weights_of(base), share)]
    for name, source in weights_of(trained).items():
        yield name, moved(name, source.get_tensor(name), others)


def sample_way(
    site: Site,
    cell: str,
    phase: str,
    way: Way,
    n: int,
    problems: dict[str, list[Problem]],
    sampler: Sampler,
) -> None:
    """One way, of all sets."""
    # Every way of every model has random streams of its own: samples of two are to be independent.
    # Of the test sets one way may be sampled twice.
    stream = f"{cell} {way.name}{' alone' * (phase == 'alone')}"
    settings = replace(
        site.grid.settings,
        temperature=way.temperature,
        max_tokens=site.arms.max_tokens,
        seed=zlib.crc32(stream.encode()),
    )
    hints = site.arms.hints if way.hints else []
    config = {
        "model": cell,
        "way": asdict(way),
        "n": n,
        "data": {"phase": phase, "sets": {name: len(each) for name, each in problems.items()}},
        "settings": asdict(settings),
        "hints": hints,
    }
    run = Run.start(site.folder(cell, phase, way.name), "sample", config)
    begun = time.monotonic()
    every = [problem for each in problems.values() for problem in each]
    state = sample(every, sampler, run, n, settings, hints=hints)
    seconds = time.monotonic() - begun
    note = {"n": n, "seconds": round(seconds, 2), "new": state.new, "tokens": state.tokens}
    write_whole(run.folder / "sampled.json", json.dumps(note).encode())
    rate = state.tokens / seconds
    print(f"{cell}: {phase} {way.name} x {n}, {seconds:.0f} s, {rate:,.0f} tokens/s", flush=True)


# --- judging, and plans --------------------------------------------------------------------------


def judge(site: Site, given: argparse.Namespace) -> None:
    """Judge what is sampled, and write the plan of each model that is ready."""
    judging = Judging(given.judges, site.grid.limits)
    done: set[tuple[Path, str]] = set()
    while True:
        last = not given.follow or (given.until is not None and given.until.exists())
        waiting = [each for each in to_judge(site) if each not in done]
        if waiting:
            folder, other = waiting[0]
            judge_way(site, folder, other, judging)
            done.add(waiting[0])
            plan_together(site, given.cells)
        elif last:
            return
        else:
            time.sleep(_POLL)


def to_judge(site: Site) -> list[tuple[Path, str]]:
    """What is sampled, with the set whose tests judge it if that is another.

    First what a plan waits for; last the other sets, which take longest.
    """
    first, *then = (
        [path.parent for path in sorted(site.work.glob(f"*/arms/{phase}/*/sampled.json"))]
        for phase in PHASES
    )
    tests = [folder for phase in then for folder in phase]
    others = [(folder, name) for name in site.arms.test["judged_too"] for folder in tests]
    return [*((folder, "") for folder in (*first, *tests)), *others]


def judge_way(site: Site, folder: Path, other: str, judging: Judging) -> None:
    """Judge what has no verdict yet; make the plan if this was the last way of a model."""
    begun, run = time.monotonic(), Run.open(folder)
    count = verify_run(judged_too(site, run, other) if other else run, judging)
    cell, name = folder.parents[2].name, f"{folder.parent.name} {folder.name} {other}".strip()
    print(f"{cell}: {name}, {count} judged, {time.monotonic() - begun:.0f} s", flush=True)
    if not site.plan_of(cell).exists() and ready(site, cell):
        make_plan(site, cell)


def judged_too(site: Site, run: Run, name: str) -> Run:
    """The samples of a set, to be judged by the tests of another: a run within the run."""
    from experiments.grid.stages import copy_samples

    sets = Sets(site.grid, site.data, site.work)
    sets.ask()
    data = {"phase": run.config["data"]["phase"], "sets": {name: len(sets[name])}}
    made = Run.start(run.folder / name, "sample", run.config | {"data": data})
    copy_samples(run, made, sets[name], site.arms.test["judged_too"][name])
    return made


def ready(site: Site, cell: str) -> bool:
    """Whether all ways are judged on validation."""
    folders = [site.folder(cell, "validation", way.name) for way in site.arms.of(cell)]
    return all(sampled(folder) and whole(Run.open(folder)) for folder in folders)


def make_plan(site: Site, cell: str) -> None:
    """Of the ways of a model."""
    made = plan_of_ways(site, [(cell, way.name) for way in site.arms.of(cell)])
    made["order"] = [way for _, way in made["order"]]
    write_whole(site.plan_of(cell), json.dumps(made).encode())
    print(f"{cell}: {dict(Counter(made['order']))}\n  {made['validation']}", flush=True)


def plan_together(site: Site, cells: Sequence[str]) -> None:
    """Of the ways of several models, once each has a plan of its own; not made again."""
    if len(cells) < 2 or site.together.exists():
        return
    if all(site.plan_of(cell).exists() for cell in cells):
        ways = [(cell, way.name) for cell in cells for way in site.arms.of(cell)]
        made = plan_of_ways(site, ways)
        write_whole(site.together, json.dumps(made).encode())
        counts = Counter(f"{cell} {way}" for cell, way in made["order"])
        print(f"together: {dict(counts)}\n  {made['validation']}", flush=True)


def plan_of_ways(site: Site, ways: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """From the rewards on validation: which cell and way first, and what that is worth there."""
    runs = [Run.open(site.folder(cell, "validation", way)) for cell, way in ways]
    rewards = [[row["reward"] for row in rows_of(run, "")] for run in runs]
    # Of trainings that differ in their seeds a plan is to learn how many samples they get, and not
    # which of them was lucky here: they are one way, and take turns.
    alike: dict[tuple[str, str], list[int]] = {}
    for i, (cell, way) in enumerate(ways):
        alike.setdefault((cell.rpartition("-s")[0], way), []).append(i)
    pools = [in_turn([rewards[i] for i in group]) for group in alike.values()]
    turns = [cycle(group) for group in alike.values()]
    order = plan(pools, min(site.arms.test["k"], len(ways) * site.arms.n))
    order = [next(turns[i]) for i in order]
    curve = [round(float(x), 4) for x in planned(rewards, order).mean(axis=0)]
    return {"order": [ways[i] for i in order], "validation": curve}


# --- results -------------------------------------------------------------------------------------


def collect(site: Site, cell: str, results: Path) -> None:
    """Write both files of a cell, as far as it is; not over one with more rows."""
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {}
    machines: dict[str, Any] = {}  # each once
    ways = [(phase, way.name) for phase in PHASES for way in site.arms.of(cell)]
    for phase, way in ways:
        folder = site.folder(cell, phase, way)
        if not sampled(folder):
            continue
        notes[f"{phase} {way}"] = json.loads((folder / "sampled.json").read_text())
        for line in lines(folder / "environment.jsonl"):
            machines.setdefault(json.dumps(line | {"time": None}), line)
        for path in (folder, *(folder / name for name in site.arms.test["judged_too"])):
            if (path / "config.toml").exists() and whole(run := Run.open(path)):
                rows += [{"phase": phase, "way": way} | row for row in rows_by_set(run)]
    identity, order = site.work / cell / "id", site.plan_of(cell)
    about = {
        "cell": cell,
        "id": identity.read_text() if identity.exists() else None,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": without_places(list(machines.values())),
        "settings": asdict(replace(site.grid.settings, max_tokens=site.arms.max_tokens)),
        "limits": asdict(site.grid.limits),
        "hints": site.arms.hints,
        "ways": {way.name: asdict(way) for way in site.arms.of(cell)},
        "plan": json.loads(order.read_text()) if order.exists() else None,
        "together": json.loads(site.together.read_text()) if site.together.exists() else None,
        "sampled": notes,
    }
    results.mkdir(parents=True, exist_ok=True)
    file, unfinished = results / f"{cell}.parquet", results / f".{cell}.parquet"
    if file.exists() and pq.read_metadata(file).num_rows > len(rows):
        print(f"{cell}: {file} has more than the {len(rows)} rows there are", flush=True)
        return
    table = pa.Table.from_pylist(rows, ROWS)
    pq.write_table(table, unfinished, compression="zstd", compression_level=19)
    unfinished.replace(file)
    write_whole(results / f"{cell}.json", (json.dumps(about) + "\n").encode())
    print(f"{cell}: {len(rows)} rows", flush=True)


def rows_by_set(run: Run) -> list[dict[str, Any]]:
    """The rows of a run that has several sets, one after the other."""
    sets = [name for name, size in run.config["data"]["sets"].items() for _ in range(size)]
    keys = ("problem", "reward", "tokens", "stopped")
    return [
        {"set": name, **{key: row[key] for key in keys}}
        for name, row in zip(sets, rows_of(run, ""), strict=True)
    ]


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="other ways to sample, and plans of them")
    parser.add_argument("action", choices=("sample", "judge", "collect"))
    parser.add_argument(
        "cells", nargs="*", help="with their seeds; judge: those to make one plan of together"
    )
    parser.add_argument("--phase", choices=PHASES, default="validation", help="what to sample")
    parser.add_argument("--work", type=Path, default=Path("out/grid"))
    parser.add_argument("--results", type=Path, default=Path("out/grid-results/arms"))
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--model", default=read_grid().model, help="folder of the base model")
    parser.add_argument("--judges", type=int, help="programs at once; default: 2 per core")
    parser.add_argument("--follow", action="store_true", help="judge what is sampled meanwhile")
    parser.add_argument("--until", type=Path, help="follow until this file is there")
    parser.add_argument("--limit", type=int, help="the first so many problems of each set")
    parser.add_argument("--engine-option", nargs=2, action="append", default=[], metavar="X")
    parser.add_argument("--beside", type=int, default=0, help="others on this GPU")
    parser.add_argument("--grid", type=Path, default=HERE / "grid.toml", help=argparse.SUPPRESS)
    parser.add_argument("--arms", type=Path, default=HERE / "arms.toml", help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    site = Site(asked)
    if asked.action == "judge":
        judge(site, asked)
    for cell in asked.cells:
        if asked.action == "sample":
            sample_ways(site, cell, asked)
        elif asked.action == "collect":
            collect(site, cell, asked.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
