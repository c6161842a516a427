"""Run cells of the grid within a budget of time; the same command goes on. README.md has the plan.

    python -m experiments.grid.run 'mbpp-*' --budget 1500 --model FOLDER --data-dir DIR

One engine serves all cells. A stage that is done is not repeated, one that was cut off goes on from
its files in --work, and a cell whose results are in --have or --results is passed over. Exit
status: 0 if all is done, 3 if the budget ended before, 1 if a cell went wrong.
"""

import argparse
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

for _name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):  # one process, whatever started it
    os.environ.pop(_name, None)
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights go into the engine directly

from experiments.grid.crew import carry_out_all  # noqa: E402
from experiments.grid.engines import TransformersEngine, VllmEngine  # noqa: E402
from experiments.grid.gpu import GpuWatch  # noqa: E402
from experiments.grid.plan import (  # noqa: E402
    BASE,
    HERE,
    Costs,
    EvalSet,
    asked,
    costs_of,
    read_grid,
    steps_of,
)
from experiments.grid.results import (  # noqa: E402
    Result,
    collect,
    keep_about,
    pack,
    read_results,
    training_of,
)
from experiments.grid.sets import Sets  # noqa: E402
from experiments.grid.stages import Cell, OutOfTime, Site, free_memory  # noqa: E402
from experiments.pocket.tried import register  # noqa: E402
from experiments.results.compact import RESULTS  # noqa: E402
from maxk.store.run import environment  # noqa: E402

MORE, FAILED = 3, 1  # exit status: the budget ended; a cell went wrong
SHARED = 0.97  # of a GPU's memory, for all cells that are on it
TO_SAVE = 20.0  # seconds to write a checkpoint of a training that is cut off
SMOKE = {"cells": ("base", "mbpp-grpo", "mbpp-off-policy-exact"), "problems": 16, "n": 8}
SMOKE_OVERRIDES = ("--trl.max_steps", "4", "--data.limit", "64")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="run cells of the grid; the same command goes on",
        epilog="after --: keys of all cells, as in --trl.beta 0.02",
    )
    parser.add_argument(
        "cells", nargs="*", default=["*"], help="names or patterns, with -s1 for one seed"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all of it")
    parser.add_argument(
        "--later", type=float, default=0.0, help="seconds that this machine will be there after it"
    )
    parser.add_argument("--work", type=Path, default=Path("out/grid"), help="weights and samples")
    parser.add_argument("--results", type=Path, default=Path("out/grid-results"))
    parser.add_argument("--have", type=Path, default=RESULTS, help="earlier results")
    parser.add_argument("--pack", type=Path, help="all of --results in one file, after each stage")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--model", default=None, help="folder of the base model")
    parser.add_argument(
        "--engine",
        choices=("transformers", "vllm"),
        default="transformers",
        help="what samples: maxk's own, or one vLLM for all cells",
    )
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, a process each")
    parser.add_argument("--engine-option", nargs=2, action="append", default=[], metavar="X")
    parser.add_argument("--n", type=int, help="samples of a problem; default: as grid.toml says")
    parser.add_argument("--max-tokens", type=int, help="of a completion that is measured")
    parser.add_argument("--sets", nargs="+", help="evaluation sets; default: those of the cell")
    parser.add_argument("--limit", type=int, help="the first so many problems of each set")
    parser.add_argument("--judges", type=int, help="programs judged at once; default: 2 per core")
    parser.add_argument(
        "--judge-later", action="store_true", help="sample and no more: judge.py does the rest"
    )
    parser.add_argument("--tag", default="", help="for the names of cells with other keys")
    parser.add_argument("--note", default="", help="for the results, such as a commit")
    parser.add_argument("--list", action="store_true", help="say what there is to do, and no more")
    parser.add_argument("--smoke", action="store_true", help="all stages of a few cells, tiny")
    parser.add_argument(
        "--profile", type=int, metavar="STEP", help="profile the update after so many, to a file"
    )
    parser.add_argument("--beside", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--grid", type=Path, default=HERE / "grid.toml", help=argparse.SUPPRESS)
    words = list(sys.argv[1:] if given is None else given)
    cut = words.index("--") if "--" in words else len(words)
    parsed = parser.parse_args(words[:cut])
    parsed.overrides = tuple(words[cut + 1 :])
    other = bool(parsed.overrides) or parsed.max_tokens is not None
    if other and not (parsed.tag or parsed.smoke or parsed.beside):
        parser.error("cells with other keys need a --tag, or their results would be mixed up")
    if parsed.jobs > 1 and parsed.engine == "vllm":
        parser.error("--jobs is for --engine transformers: one vLLM serves all cells")
    if parsed.smoke:
        parsed.cells = SMOKE["cells"] if parsed.cells == ["*"] else parsed.cells
        parsed.n, parsed.limit = parsed.n or SMOKE["n"], parsed.limit or SMOKE["problems"]
        parsed.overrides = (*SMOKE_OVERRIDES, *parsed.overrides)
        parsed.work, parsed.have = parsed.work / "smoke", parsed.work / "smoke"
        parsed.results = parsed.results / "smoke"
    return parsed


class Runner:
    """The cells that were asked for, one after the other."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.begun = given, time.monotonic()
        grid = read_grid(given.grid)
        grid = grid if given.limit is None else grid.limited(given.limit)
        self.grid = grid if given.max_tokens is None else grid.up_to(given.max_tokens)
        self.n: int = given.n or self.grid.n
        self.asked = asked(given.cells, given.seeds)
        self.gpus: list[str] | None = None  # of this machine, once it is known
        self.sets: Sets | None = None
        self.started = 0.0  # seconds until the engine was there
        self.failed: list[str] = []

    def deadline(self) -> float:
        return self.begun + self.given.budget

    def sets_of(self, name: str) -> list[EvalSet]:
        if self.given.sets is None:
            return self.grid.sets_of(name)
        return [self.grid.sets[each] for each in self.given.sets]

    def done(self, cell: Cell, results: Sequence[Result]) -> bool:
        wanted = [each.name for each in self.sets_of(cell.name)]
        return any(r.name == cell.full_name and r.has(wanted, self.n) for r in results)

    def ended(self, cell: Cell, results: Sequence[Result]) -> bool:
        """Whether all was done that was asked for; judging may not be."""
        sets = self.sets_of(cell.name)
        later = self.given.judge_later and all(cell.sampled(each, self.n) for each in sets)
        return later or self.done(cell, results)

    def to_train(self, cell: Cell, costs: Costs) -> float:
        """Seconds of training that are left of a cell, as far as one can say."""
        if not cell.to_be_trained():
            return 0.0
        config = cell.config()
        data = config.data.name
        steps, updates = steps_of(config, self.grid.prompts[data])
        begun = training_of(cell.folder / "train")
        there = max((begun or {"metrics": {}})["metrics"].get("step", [0]), default=0)
        return costs.training(max(steps - there, 0), updates, data)

    def to_measure(self, cell: Cell, costs: Costs) -> float:
        """And of sampling and judging."""
        return sum(
            costs.sampling(each, max(cell.missing(each, self.n), 0))
            for each in self.sets_of(cell.name)
            if not cell.measured(each, self.n)
        )

    def results(self) -> list[Result]:
        return read_results(self.given.have, self.given.results)

    # --- the work ----------------------------------------------------------------------------

    def list(self) -> int:
        """What there is to do."""
        site = self.site(TransformersEngine(), GpuWatch(("no-gpu",)))
        results = self.results()
        costs, total = costs_of(self.grid, results, None, self.given.judge_later), 0.0
        for name, seed in self.asked:
            cell = Cell(site, name, seed, self.given.tag)
            if self.done(cell, results):
                print(f"{cell.full_name:<40} done")
                continue
            total += (need := self.to_train(cell, costs) + self.to_measure(cell, costs))
            print(f"{cell.full_name:<40} {need / 60:6.1f} min")
        print(f"{'all':<40} {total / 60:6.1f} min, and {self.grid.cost['start']:.0f} s a start")
        return 0

    def run(self) -> int:
        results = self.results()
        nothing = self.site(TransformersEngine(), GpuWatch(("no-gpu",)))
        open_ = [
            (name, seed)
            for name, seed in self.asked
            if not self.ended(Cell(nothing, name, seed, self.given.tag), results)
        ]
        print(f"{len(open_)} of {len(self.asked)} cells to do", flush=True)
        if not open_:
            return 0
        if self.given.jobs > 1:
            self.failed += carry_out_all(self.given, open_, self.deadline())
        else:
            self.one_by_one(open_)
        results = self.results()
        cells = [Cell(nothing, name, seed, self.given.tag) for name, seed in open_]
        left = [cell.full_name for cell in cells if not self.ended(cell, results)]
        if left:
            print(f"not done: {', '.join(left)}", flush=True)
        if self.failed:
            print(f"failed: {', '.join(self.failed)}", flush=True)
        return FAILED if self.failed else MORE if left else 0

    def one_by_one(self, cells: Sequence[tuple[str, int]]) -> None:
        """In this process."""
        gpu = GpuWatch()
        try:
            site = self.start(gpu)
            for name, seed in cells:
                self.guarded(Cell(site, name, seed, self.given.tag), self.attempt)
        except OutOfTime:
            pass
        finally:
            gpu.stop()
            if self.sets is not None:
                self.sets.stop()

    def guarded(self, cell: Cell, action: Callable[[Cell], None]) -> None:
        """Do something with a cell; if it goes wrong, the others still have their turn."""
        try:
            action(cell)
        except OutOfTime:
            raise
        except Exception:
            traceback.print_exc()
            self.failed.append(cell.full_name)
        free_memory()

    def site(self, engine: TransformersEngine, gpu: GpuWatch) -> Site:
        given = self.given
        sets = Sets(self.grid, given.data_dir, given.work)
        model = given.model or self.grid.model
        deadline = self.deadline()
        return Site(
            *(self.grid, sets, engine, model, given.data_dir, given.work, deadline, gpu),
            given.overrides,
            lambda text: print(f"[{time.monotonic() - self.begun:6.0f} s] {text}", flush=True),
            given.judges,
            self.grid.limits,
            given.judge_later,
            given.profile,
        )

    def start(self, gpu: GpuWatch) -> Site:
        """The engine, with the answers of MBPP+ being prepared meanwhile."""
        site = self.site(TransformersEngine(), gpu)
        self.sets = site.sets
        if any(each.judged_on for name, _ in self.asked for each in self.sets_of(name)):
            site.sets.ask_beside()
        main: VllmEngine | TransformersEngine = TransformersEngine(self.own_options())
        if self.given.engine == "vllm":
            main = VllmEngine(site.model, self.engine_options())
        site = replace(site, engine=main)
        gpus = self.gpus = environment()["gpus"]
        if gpus and self.given.beside:
            import torch

            # Otherwise one keeps what it has freed for itself, and others have none left.
            torch.cuda.set_per_process_memory_fraction(SHARED / (1 + self.given.beside))
        site.say(f"engine {site.engine.kind} is there; {', '.join(gpus) or 'no GPU'}")
        self.started = time.monotonic() - self.begun
        return site

    def own_options(self) -> dict[str, Any]:
        """Of maxk's own sampling: those of grid.toml are for a GPU."""
        import torch

        options = self.grid.own if torch.cuda.is_available() else {}
        return options | {name: number(value) for name, value in self.given.engine_option}

    def engine_options(self) -> dict[str, Any]:
        """Of what samples."""
        if self.given.engine == "transformers":
            return self.own_options()
        return self.grid.engine | {name: number(value) for name, value in self.given.engine_option}

    def attempt(self, cell: Cell) -> None:
        """Do a cell if there is time for it."""
        costs = costs_of(self.grid, self.results(), self.gpus, self.given.judge_later)
        need = self.to_train(cell, costs) + self.to_measure(cell, costs)
        left = cell.site.left()
        if need > left + self.given.later:
            cell.site.say(f"{cell.full_name} needs {need:.0f} s of {left:.0f} s: not begun")
            return
        cell.site.say(f"{cell.full_name} will need about {need:.0f} s")
        if not cell.trained():
            try:
                with self.stopped_in_time(cell):
                    cell.train()
            finally:
                self.save(cell)
        self.measure(cell)

    def measure(self, cell: Cell) -> None:
        """Sample and judge a cell that is trained."""
        try:
            for each in self.sets_of(cell.name):
                enough = cell.sampled if self.given.judge_later else cell.measured
                if enough(each, self.n):
                    continue
                if cell.site.left() < 0:
                    raise OutOfTime
                if each.judged_on is not None:
                    cell.judge_beside(each, self.n)
                else:
                    cell.sample(each, self.n)
                    if self.given.smoke:
                        self.check_weights(cell)
                    self.save(cell)
            for each in self.sets_of(cell.name)[:1]:
                cell.entropies(each)
            cell.wait_for_judges()
        finally:
            cell.stop_judges()
            self.save(cell)

    @contextmanager
    def stopped_in_time(self, cell: Cell) -> Iterator[None]:
        """A training that would outlast the budget is stopped, with a checkpoint."""
        if cell.site.left() == float("inf"):
            yield
            return
        timer = threading.Timer(
            max(cell.site.left() - TO_SAVE, 0.0), os.kill, (os.getpid(), signal.SIGTERM)
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def save(self, cell: Cell) -> None:
        """Results as far as they are."""
        if not cell.folder.exists():
            return
        identity = cell.folder / "id"
        if not identity.exists():
            identity.write_text(secrets.token_hex(8))
        about: dict[str, Any] = {
            "cell": cell.name,
            "seed": cell.seed,
            "tag": self.given.tag,
            "id": identity.read_text(),  # of this training: its weights are no other's
            "engine": cell.site.engine.kind,
            "engine_options": self.engine_options(),
            "beside": self.given.beside,  # other cells on the machine at the time
            "note": self.given.note,
            "limits": asdict(cell.site.limits),
            "engine_start_seconds": round(self.started, 1),
            "environment": environment(),
        }
        names = [each.name for each in self.sets_of(cell.name)]
        keep_about(cell.folder, about, names)
        collect(cell.folder, self.given.results, about, names)
        if self.given.pack is not None:
            pack(self.given.results, self.given.pack)

    def check_weights(self, cell: Cell) -> None:
        """The engine holds what was trained, and that is not what it was trained from."""
        if isinstance(cell.site.engine, TransformersEngine):
            return
        gap = cell.site.engine.difference(cell.model)
        if gap != 0:
            raise AssertionError(f"the engine's weights are up to {gap} from those of {cell.model}")
        moved = cell.site.engine.difference(cell.site.model)
        if cell.name != BASE and moved == 0:
            raise AssertionError(f"{cell.full_name} has the weights that it was trained from")
        cell.site.say(f"{cell.full_name}: engine and model agree; moved by up to {moved:.2g}")


def number(text: str) -> Any:
    """
    >>> number("0.25"), number("4096"), number("auto")
    (0.25, 4096, 'auto')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def out_of_time(*_: object) -> None:
    raise OutOfTime


def main(given: Sequence[str] | None = None) -> int:
    register()
    runner = Runner(arguments(given))
    if runner.given.list:
        return runner.list()
    before = signal.signal(signal.SIGTERM, out_of_time)
    try:
        return runner.run()
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
