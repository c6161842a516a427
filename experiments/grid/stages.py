"""The stages of a cell: train, sample and judge sets, entropy. Each goes on if it was cut off."""

import gc
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.grid.engines import TransformersEngine, VllmEngine
from experiments.grid.gpu import GpuWatch
from experiments.grid.kept import make
from experiments.grid.plan import BASE, EvalSet, Grid, base_share, config_of, made_of
from experiments.grid.results import all_sampled, whole
from experiments.grid.sets import Sets, number
from maxk.config import TrainConfig
from maxk.grade.run import ungraded
from maxk.grade.worker import Grader
from maxk.records import Problem
from maxk.sample import Progress, sample
from maxk.store.run import Run, write_whole
from maxk.store.tables import pairs_of, write_problems
from maxk.verify import Limits, VerifierSettings

JUDGES_BESIDE = 6  # programs at a time, of a set that is judged while another is sampled


class OutOfTime(Exception):  # noqa: N818
    """The budget is spent; what there is was kept."""


@dataclass(frozen=True)
class Site:
    """What all cells share: the machine's engine, folders, and clock."""

    grid: Grid
    sets: Sets
    engine: VllmEngine | TransformersEngine
    model: str
    data: Path
    work: Path
    deadline: float  # of time.monotonic
    gpu: GpuWatch
    overrides: tuple[str, ...] = ()
    say: Callable[[str], None] = print
    judges: int | None = None  # programs at a time; None: two per core
    limits: Limits = field(default_factory=Limits)  # of a program
    judge_later: bool = False  # by judge.py: here is nothing but sampling
    profile: int | None = None  # the update after so many is profiled

    def left(self) -> float:
        return self.deadline - time.monotonic()


@dataclass
class Cell:
    """A cell with a seed, at a site."""

    site: Site
    name: str
    seed: int
    tag: str = ""
    beside: list[tuple[EvalSet, Grader, float]] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return f"{self.name}{self.tag}-s{self.seed}"

    @property
    def folder(self) -> Path:
        return self.site.work / self.full_name

    @property
    def model(self) -> Path | str:
        """Where the weights to measure are."""
        return self.site.model if self.name == BASE else self.folder / "train" / "model"

    @property
    def smaller(self) -> Path:
        """TRL's settings in the place of the cell's, once these have run out of memory."""
        return self.folder / "smaller.json"

    def config(self) -> TrainConfig:
        """What is trained: the cell, with this machine's places and this seed."""
        source = config_of(self.name).data.source
        assert source is not None
        places = ["--run.out", str(self.folder / "train"), "--model.name", self.site.model]
        places += ["--data.source", str(self.site.data / source), "--trl.seed", str(self.seed)]
        if self.site.judges is not None:
            places += ["--reward.workers", str(self.site.judges)]
        if isinstance(self.site.engine, VllmEngine):
            places += ["--model.sampler", "vllm", "--model.engine", "{}"]  # it is there already
        else:
            options = json.dumps(self.site.engine.options)  # which TOML reads too, but for ":"
            places += ["--model.engine", options.replace(":", " =")]
        config = config_of(self.name, [*places, *self.site.overrides])
        if not self.smaller.exists():
            return config
        trl = {**config.trl, **json.loads(self.smaller.read_text())}
        return config.model_copy(update={"trl": trl})

    # --- what is done ------------------------------------------------------------------------

    def trained(self) -> bool:
        return self.name == BASE or (self.folder / "train" / "model").exists()

    def parts(self) -> "list[Cell]":
        """Those whose weights this one is made of; none if it is trained."""
        name, seeds = made_of(self.name)
        if name == self.name:
            return []
        return [replace(self, name=name, seed=self.seed + i, beside=[]) for i in range(seeds)]

    def to_be_trained(self) -> bool:
        """Whether it is to be trained itself: it is not made of others, and not trained yet."""
        return not self.trained() and not self.parts()

    def missing(self, each: EvalSet, n: int) -> int:
        """Completions of a set that are still to be sampled; 0 if it is only to be judged."""
        run = self.run_of(each)
        wanted = n * each.size
        return wanted - len(pairs_of(run)) if run is not None else wanted

    def measured(self, each: EvalSet, n: int) -> bool:
        run = self.run_of(each)
        return run is not None and run.config["n"] >= n and whole(run)

    def sampled(self, each: EvalSet, n: int) -> bool:
        run = self.run_of(each)
        return run is not None and run.config["n"] >= n and all_sampled(run)

    def run_of(self, each: EvalSet) -> Run | None:
        folder = self.folder / "sets" / each.name
        return Run.open(folder) if (folder / "config.toml").exists() else None

    # --- the stages --------------------------------------------------------------------------

    def train(self) -> None:
        """From the start, or from the checkpoint that the end of a budget left.

        What runs out of memory is begun again with half the rows at a time.
        """
        import torch

        while True:
            try:
                return self.train_once()
            except torch.OutOfMemoryError as error:
                if not self.halve():
                    raise
                self.site.say(f"{self.full_name}: {error}")
            free_memory()

    def halve(self) -> bool:
        """Have half the rows in a micro-batch from now on, if that can be."""
        from maxk.train.job import trl_config
        from maxk.train.memory import halved

        config = self.config()
        if not (less := halved(trl_config(config), config.trl)):
            return False
        shutil.rmtree(self.folder / "train")
        write_whole(self.smaller, json.dumps(less).encode())
        return True

    def train_once(self) -> None:
        """With the memory there is."""
        from maxk.train.job import train

        if not self.to_be_trained():
            if missing := [part.full_name for part in self.parts() if not part.trained()]:
                raise ValueError(f"{self.full_name} is made of {', '.join(missing)}: not trained")
            with self.stage("make") as note:
                share = base_share(self.name)
                note |= {"of": [part.full_name for part in self.parts()], "base_share": share}
                make(self.config(), [part.config() for part in self.parts()], share)
            return
        self.site.engine.forget()
        free_memory()
        with self.stage("train") as note:
            outcome = train(self.config(), self.site.say, self.site.engine.vllm, self.brief)
            note |= {"step": outcome.step, "finished": outcome.finished}
        free_memory()
        if not outcome.finished:
            raise OutOfTime

    def brief(self, trainer: Any) -> None:
        """A line a step in the place of all its figures, which are in the metrics."""
        from transformers import PrinterCallback, TrainerCallback

        from experiments.grid.lag import lag_of, lagging

        say, name = self.site.say, self.full_name
        shown = ("reward", "max_at/8", "entropy", "grad_norm", "step_time")

        class Brief(TrainerCallback):
            def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
                found = {key: given["logs"][key] for key in shown if key in given["logs"]}
                if not found:  # the account of the whole training
                    return
                text = ", ".join(f"{key} {float(value):.3g}" for key, value in found.items())
                say(f"{name}: step {state.global_step} of {state.max_steps}, {text}")

        if lag := lag_of(self.name):
            lagging(trainer, lag)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Brief())
        if self.site.profile is not None:
            from experiments.grid.profiled import Profiled

            trainer.add_callback(Profiled(self.site.profile, self.folder / "profile.json"))

    def sample(self, each: EvalSet, n: int) -> None:
        """Sample a set, judging it meanwhile."""
        from transformers.trainer_utils import set_seed

        problems = self.site.sets[each.name]
        run = Run.start(self.folder / "sets" / each.name, "sample", self.config_of(each, n))
        settings = replace(self.site.grid.settings, seed=self.seed)
        with self.stage(f"load {each.name}"):
            sampler = self.site.engine.sampler(self.model)
        # Training has set the seed that vLLM draws by; a set that is gone on with must not be
        # drawn as its first part was.
        set_seed(time.time_ns() % 2**31)
        with self.stage(f"sample {each.name}") as note:
            note |= {"new": 0, "tokens": 0}

            def progress(state: Progress) -> None:
                note["new"], note["tokens"] = state.new, state.tokens
                if state.done == state.total:
                    note.setdefault("sampled", time.monotonic())
                if self.site.left() < 0:
                    raise OutOfTime

            judging = None
            if not self.site.judge_later:
                judging = VerifierSettings(self.site.judges, self.site.limits)
            sample(problems, sampler, run, n, settings, grading=judging, progress=progress)
            if "sampled" in note:
                note["waited_for_judges"] = round(time.monotonic() - note.pop("sampled"), 2)
        del sampler

    def judge_beside(self, each: EvalSet, n: int) -> None:
        """Begin to judge the samples of another set by the tests of this one."""
        assert each.judged_on is not None
        problems = self.site.sets[each.name]
        run = Run.start(self.folder / "sets" / each.name, "sample", self.config_of(each, n))
        sampled = self.run_of(self.site.grid.sets[each.judged_on])
        assert sampled is not None
        copy_samples(sampled, run, problems)
        if self.site.judge_later:
            return
        workers = min(JUDGES_BESIDE, self.site.judges or JUDGES_BESIDE)
        judge = Grader(
            run, VerifierSettings(workers, self.site.limits), "verdicts", lambda *_: None
        ).__enter__()
        self.beside.append((each, judge, time.monotonic()))
        for part in ungraded(run, "verdicts"):
            judge.put(part)

    def wait_for_judges(self) -> None:
        def waiting() -> None:
            if self.site.left() < 0:
                raise OutOfTime

        while self.beside:
            each, judge, begun = self.beside[-1]
            with self.stage(f"judge {each.name}") as note:
                judge.finish(waiting)
                note["beside"] = round(time.monotonic() - begun, 2)
            judge.__exit__()
            self.beside.pop()

    def stop_judges(self) -> None:
        for _, judge, _ in self.beside:
            judge.__exit__()
        self.beside.clear()

    def entropies(self, each: EvalSet) -> None:
        """Of the first samples of each problem, by the model itself: vLLM does not say."""
        from experiments.grid.entropy import write_entropies

        run = self.run_of(each)
        if self.site.engine.kind != "vllm" or run is None or run.parts("entropies"):
            return
        with self.stage(f"entropy {each.name}") as note:
            problems = self.site.sets[each.name]
            count = self.site.grid.entropy_samples
            note["completions"] = write_entropies(run, problems, str(self.model), count)
        free_memory()

    def config_of(self, each: EvalSet, n: int) -> dict[str, Any]:
        """Of a sampling run: what its completions depend on."""
        return {
            "model": self.full_name,
            "backend": self.site.engine.kind,
            "n": n,
            "data": each.table(),
            "settings": asdict(self.site.grid.settings),
        }

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage, and note it in the folder of the cell however it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        note: dict[str, Any] = {}
        begun, mark = time.monotonic(), self.site.gpu.mark()
        self.site.say(f"{self.full_name}: {name}")
        try:
            yield note
        finally:
            seconds = round(time.monotonic() - begun, 2)
            line = {"stage": name, "seconds": seconds, **note, "gpu": self.site.gpu.since(mark)}
            with (self.folder / "stages.jsonl").open("a") as file:
                file.write(json.dumps({k: v for k, v in line.items() if k != "sampled"}) + "\n")
            self.site.say(f"{self.full_name}: {name}, {seconds:.0f} s {note or ''}")


def copy_samples(sampled: Run, run: Run, problems: list[Problem], data: str | None = None) -> None:
    """The samples of the same problems in a run of another set, under its ids.

    data: of a run with several data sets, the one they are of.
    """
    import pyarrow as pa

    if run.parts("completions"):
        return
    write_problems(run, problems)
    ids = {number(problem.id): problem.id for problem in problems}
    table = sampled.read("completions")
    rows = [
        {**row, "problem": ids[number(row["problem"])]}
        for row in table.to_pylist()
        if number(row["problem"]) in ids
        and row["sample"] < run.config["n"]
        and (data is None or row["problem"].startswith(f"{data}/"))
    ]
    for part, first in enumerate(range(0, len(rows), 1024)):
        made = pa.Table.from_pylist(rows[first : first + 1024], table.schema)
        # Under a name that is not a part's until all are there.
        run.write("copied", f"{part:06d}", made)
    (run.folder / "copied").rename(run.folder / "completions")


def free_memory() -> None:
    """What a trainer or a model held, given back before the next needs it."""
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
