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
   (`maxk.evaluate.allocate`): WORK/CELL/arms/plan.json. Once all models that it was given have one,
   a plan is made of all ways of all these models: WORK/together.json. Trainings that differ in
   nothing but the seed take turns there.
3. Samples the test sets by these two plans, or by the second alone, and in no other way:
   WORK/CELL/arms/test/WAY. A way has as many samples as the plan asks for that asks for more, or
   several times as many, for better estimates.
4. Samples the test sets in the way that the grid has, 128 times, in WORK/CELL/arms/alone/WAY: what
   the same training is worth without a plan. That is only if arms.toml names such a way.
5. Judges these, and last the samples of MBPP by the tests of MBPP+, in a folder of that name there.
6. Writes what is judged so far (arms_results.py).

Sample i of a way with hints has hint i modulo their number.
"""

import argparse
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.grid.arms_results import collect
from experiments.grid.arms_site import PHASES, Site, Way, is_base, sampled
from experiments.grid.plan import HERE, read_grid
from experiments.grid.planned import alike, pooled
from experiments.grid.results import rows_of, whole
from experiments.grid.sets import Sets
from maxk.evaluate import allocate, allocated
from maxk.grade.parallel import grade_run
from maxk.pocket import resolve
from maxk.records import Problem
from maxk.sample import Sampler, sample
from maxk.store.run import Run, write_whole
from maxk.verify import VerifierSettings

# torch is imported where it is needed: who judges or collects does without.
if TYPE_CHECKING:
    import torch

_POLL = 2.0  # seconds


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
    from maxk.merge import folder_of
    from maxk.sample.native.engine import TransformersSampler

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


def between(trained: Path, base: Path, share: float) -> "Iterator[tuple[str, torch.Tensor]]":
    """The weights on the way back to the base model, as `maxk.merge.interpolate` writes them."""
    import torch
    from safetensors.torch import load_file

    own, starts = {}, {}
    for model, weights in ((trained, own), (base, starts)):
        for file in model.glob("*.safetensors"):
            weights |= load_file(file)
    for name, weight in own.items():
        if weight.is_floating_point():
            start = starts[name].float()
            yield name, torch.lerp(weight.float(), start, share).to(weight.dtype)
        else:
            yield name, weight


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
        "prompt_variants": hints,
    }
    run = Run.start(site.folder(cell, phase, way.name), "sample", config)
    begun = time.monotonic()
    every = [problem for each in problems.values() for problem in each]
    state = sample(every, sampler, run, n, settings, prompt_variants=hints)
    seconds = time.monotonic() - begun
    note = {"n": n, "seconds": round(seconds, 2), "new": state.new, "tokens": state.tokens}
    write_whole(run.folder / "sampled.json", json.dumps(note).encode())
    rate = state.tokens / seconds
    print(f"{cell}: {phase} {way.name} x {n}, {seconds:.0f} s, {rate:,.0f} tokens/s", flush=True)


# --- judging, and plans --------------------------------------------------------------------------


def judge(site: Site, given: argparse.Namespace) -> None:
    """Judge what is sampled, and write the plan of each model that is ready."""
    judging = VerifierSettings(given.judges, site.grid.limits)
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


def judge_way(site: Site, folder: Path, other: str, judging: VerifierSettings) -> None:
    """Judge what has no verdict yet; make the plan if this was the last way of a model."""
    begun, run = time.monotonic(), Run.open(folder)
    count = grade_run(judged_too(site, run, other) if other else run, judging)
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
    groups = alike(ways)
    pools = [pooled([rewards[i] for i in group]) for group in groups]
    turns = [cycle(group) for group in groups]
    order = allocate(pools, min(site.arms.test["k"], len(ways) * site.arms.n))
    order = [next(turns[i]) for i in order]
    curve = [round(float(x), 4) for x in allocated(rewards, order).mean(axis=0)]
    return {"order": [ways[i] for i in order], "validation": curve}


# --- the command ---------------------------------------------------------------------------------


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
