"""`maxk sample` and `maxk runs`."""

import contextlib
import dataclasses
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxk.cli.console import Shown, console
from maxk.cli.data import Which, named_values
from maxk.grade import Judging
from maxk.records import Problem
from maxk.sample import Backend, Progress, Sampler, Sampling, choose, make, merge, sample, share
from maxk.store.run import Run
from maxk.verify import Limits


@dataclass(frozen=True)
class Sample:
    """Draw n completions of every problem into a folder, and judge them meanwhile.

    Stopping and repeating the command goes on where it stopped. The key of a server comes from
    MAXK_API_KEY or OPENAI_API_KEY.
    """

    model: str
    """pocket, folder, name on the hub, LoRA adapter, GGUF file, or what a server calls it"""
    data: str
    """data set, as `maxk data list` has it"""
    out: Path
    """folder of the run"""
    split: str | None = None
    """default: test, or the only one there is"""
    source: Path | None = None
    """file or folder with the published files; default: the Hugging Face hub"""
    data_options: tuple[str, ...] = ()
    """more for the loader, such as shown=1 for mbpp (docs/data.md)"""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 256
    """completions of a problem"""
    limit: int | None = None
    """the first so many problems; default: all"""
    shard: str | None = None
    """1/2: the first of two shares of the problems; `maxk runs merge` joins them"""
    backend: Backend = "auto"
    """auto: the server of --base-url, else vllm if it is installed and there is a GPU"""
    base_url: str | None = None
    """of a server that speaks OpenAI's protocol, such as http://localhost:8000/v1"""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 256
    """of a completion"""
    seed: int = 0
    chat: bool = True
    """put the prompt into the model's chat template"""
    hints: tuple[str, ...] = ()
    """sentences for the end of the prompt, which the samples of a problem take in turn"""
    batch: int | None = None
    """completions at a time; default: what suits the back end"""
    processes: int = 1
    """engines side by side, over the GPUs that there are; several on one help a small model"""
    engine: tuple[str, ...] = ()
    """more for the back end, such as gpu_memory_utilization=0.5 logprobs=true for vllm"""
    verify: bool = True
    """judge the completions while others are sampled"""
    workers: int | None = None
    """programs judged at once; default: two per core, beside a GPU three for four cores"""
    limits: Limits = field(default_factory=Limits)
    allow_unsafe: bool = False
    """judge under resource limits alone where the kernel has no isolation; for code you trust"""

    def run(self) -> int:
        settings = Sampling(self.temperature, self.top_p, self.max_tokens, self.seed, self.chat)
        backend = choose(self.backend, self.base_url)
        problems = self.problems()
        run = Run.start(self.out, "sample", self.config(backend, settings))
        options = named_values(self.engine, "--engine")
        if self.batch is not None:
            options["concurrency" if backend == "openai" else "batch"] = self.batch
        total = self.n * len(problems)
        shown = Shown[Progress](total, "completions", lambda state: state.done, line)
        with terminated_as_interrupted(), shown:
            with run.locked():  # or another works on it; better known before the model is loaded
                pass
            sampler = self.sampler(options, backend)
            workers = self.workers or judges_beside(backend)
            judging = Judging(workers, self.limits, self.allow_unsafe)
            state = sample(
                *(problems, sampler, run, self.n, settings),
                hints=self.hints,
                judging=judging if self.verify else None,
                progress=shown.update,
                note={"engine": options, "processes": self.processes},
            )
        console.print(f"{state.done} completions in {self.out}", soft_wrap=True, markup=False)
        if state.new:
            console.print(f"{state.new} of them new, {line(state)}", markup=False)
        return 0

    def sampler(self, options: dict[str, Any], backend: Backend) -> Sampler:
        if self.processes == 1:
            return make_with(options, self.model, backend, self.base_url)
        from maxk.sample.processes import ProcessSampler

        return ProcessSampler(self.processes, self.model, backend, options)

    def which(self) -> Which:
        return Which(self.data, self.split, self.source, options=self.data_options)

    def problems(self) -> list[Problem]:
        found, _ = self.which().problems("--data-options")
        return share(found[: self.limit], self.shard)

    def config(self, backend: Backend, settings: Sampling) -> dict[str, Any]:
        """All that the completions depend on, and nothing else."""
        options = named_values(self.data_options, "--data-options")
        return {
            "model": self.model,
            "backend": backend,
            "base_url": self.base_url,
            "n": self.n,
            "shard": self.shard,
            "data": {
                "name": self.data,
                "split": self.which().chosen_split(),
                "source": self.source,
                "limit": self.limit,
                **({"options": options} if options else {}),
            },
            "settings": dataclasses.asdict(settings),
            **({"hints": self.hints} if self.hints else {}),
        }


def judges_beside(backend: Backend) -> int | None:
    """How many programs to judge at once, if not as many as usual.

    What drives a GPU is one busy thread or a few: with two jails per core it has to share its own.
    """
    import torch

    if backend == "openai" or not torch.cuda.is_available():
        return None
    return max(1, len(os.sched_getaffinity(0)) * 3 // 4)


def make_with(options: dict[str, Any], model: str, backend: Backend, url: str | None) -> Sampler:
    """The back end with these options; one that it does not know is the user's mistake."""
    try:
        return make(model, backend, url, **options)
    except TypeError as error:
        if any(name in str(error) for name in options):
            raise ValueError(f"--engine: {error}") from error
        raise


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, as schedulers send it, ends the command as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def line(state: Progress) -> str:
    """Speed, and how good the completions are so far."""
    text = f"{state.rate:,.0f} tokens/s"
    if state.judged:
        text += f", {state.judged} judged, mean reward {state.reward / state.judged:.3f}"
    return text


@dataclass(frozen=True)
class Merge:
    """Join the shards of a sampling run into one."""

    out: Annotated[Path, tyro.conf.Positional]
    """new folder"""
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """folders of all the shards"""

    def run(self) -> int:
        run = merge(self.runs, self.out)
        console.print(f"{len(self.runs)} shards in {run.folder}", soft_wrap=True, markup=False)
        return 0


@dataclass(frozen=True)
class Show:
    """How far a sampling run is."""

    folder: Annotated[Path, tyro.conf.Positional]

    def run(self) -> int:
        run = Run.open(self.folder)
        total = run.config["n"] * run.read("problems", ["id"]).num_rows
        for table in ("completions", "verdicts"):
            there = run.read(table, ["sample"]).num_rows if run.parts(table) else 0
            console.print(f"{there} of {total} {table}")
        return 0


@dataclass(frozen=True)
class Runs:
    """Folders of runs: show, merge."""

    action: (
        Annotated[Show, tyro.conf.subcommand("show")]
        | Annotated[Merge, tyro.conf.subcommand("merge")]
    )

    def run(self) -> int:
        return self.action.run()
