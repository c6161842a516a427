"""`maxk sample`."""

import dataclasses
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maxk.cli.arguments import FLAT, Short, UsageError, check_numbers
from maxk.cli.console import Shown, console, say_left_out, terminated_as_interrupted
from maxk.records import Completion, Problem
from maxk.sample import Backend, Request, Sampler, Sampling, choose, make
from maxk.verify import VerifierSettings

if TYPE_CHECKING:
    from maxk.cli.data import Which
    from maxk.sample import Progress
    from maxk.store.run import Run


@dataclass(frozen=True)
class Sample:
    """Sample n completions of every problem and grade them.

    Grading runs while sampling goes on (streaming verification). The same command continues a
    stopped run; with a larger n it adds samples. The key of a server comes from MAXK_API_KEY or
    OPENAI_API_KEY.
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
    """more for the loader, such as shown=1 for mbpp"""
    n: Annotated[int, Short("-n")] = 256
    """completions of a problem"""
    limit: int | None = None
    """the first so many problems; default: all"""
    shard: str | None = None
    """1/2: sample the first half of the problems; `maxk runs join` joins the shards"""
    backend: Backend = "auto"
    """auto: the server of --base-url, else vllm if it is installed and there is a GPU"""
    base_url: str | None = None
    """of a server that speaks OpenAI's protocol, such as http://localhost:8000/v1"""
    sampling: Annotated[Sampling, FLAT] = field(default_factory=Sampling)
    prompt_variants: tuple[str, ...] = ()
    """sentences for the end of the prompt; sample i has variant i modulo their number"""
    batch: int | None = None
    """completions at a time; default: what suits the back end"""
    processes: int = 1
    """engines, divided over the GPUs; several on one GPU are faster for a small model"""
    engine: tuple[str, ...] = ()
    """more for the back end, such as gpu_memory_utilization=0.5 logprobs=true for vllm"""
    skip: bool = False
    """leave out problems that cannot be used, and say which: a broken row, a prompt too long"""
    restart: bool = False
    """delete the run that is in --out, and begin anew"""
    verify: bool = True
    """grade the completions while others are sampled"""
    verifier: Annotated[VerifierSettings, FLAT] = field(default_factory=VerifierSettings)

    def run(self) -> int:
        from maxk.cli.data import named_values
        from maxk.cli.problems import usable
        from maxk.sample import sample
        from maxk.store.run import Run

        check_numbers(n=self.n, limit=self.limit, batch=self.batch, processes=self.processes)
        backend = choose_backend(self.backend, self.base_url)
        options = named_values(self.engine, "--engine")
        if self.batch is not None:
            options["concurrency" if backend == "openai" else "batch"] = self.batch
        problems, config = self.problems(), self.config(backend)
        there = None if self.restart else Run.there(self.out, "sample", config)
        if there is not None:
            with there.locked():  # an error at once if another process works on it
                pass
        asked = (self.model, backend, self.prompt_variants)
        problems = usable(problems, *asked, skip=self.skip)
        total = self.n * len(problems)
        shown = Shown["Progress"](total, "completions", lambda state: state.done, line)
        with terminated_as_interrupted(), shown:
            # Nothing is written before the model is there.
            sampler = self.sampler(options, backend) if self.lacks(there, problems) else NoSampler()
            if self.restart:
                Run.delete(self.out, "sample")
            run = Run.start(self.out, "sample", config)
            state = sample(
                *(problems, sampler, run, self.n, self.sampling),
                prompt_variants=self.prompt_variants,
                grading=self.grading(backend) if self.verify else None,
                progress=shown.update,
                note={"engine": options, "processes": self.processes},
            )
        console.print(f"{state.done} completions in {self.out}", soft_wrap=True, markup=False)
        if state.new:
            console.print(f"{state.new} of them new, {line(state)}", markup=False)
        return 0

    def grading(self, backend: Backend) -> VerifierSettings:
        """As asked for; beside a GPU with fewer workers, unless their number is."""
        workers = self.verifier.workers or judges_beside(backend)
        return dataclasses.replace(self.verifier, workers=workers)

    def lacks(self, run: "Run | None", problems: list[Problem]) -> bool:
        """Whether samples are missing, and a model is needed."""
        from maxk.sample.run import missing
        from maxk.store.tables import pairs_of

        return run is None or bool(missing(problems, self.n, pairs_of(run)))

    def sampler(self, options: dict[str, Any], backend: Backend) -> Sampler:
        if self.processes == 1:
            return make_with(options, self.model, backend, self.base_url)
        from maxk.sample.processes import ProcessSampler

        return ProcessSampler(self.processes, self.model, backend, options)

    def which(self) -> "Which":
        from maxk.cli.data import Which

        return Which(self.data, self.split, self.source, options=self.data_options, skip=self.skip)

    def problems(self) -> list[Problem]:
        from maxk.sample import shard_of

        found, account = self.which().problems("--data-options")
        say_left_out(account.bad)
        chosen = shard_of(found[: self.limit], self.shard)
        if not found:
            raise ValueError(f"{self.data} has no problem that can be used:\n{account}")
        return chosen

    def config(self, backend: Backend) -> dict[str, Any]:
        """Everything that the completions depend on, and nothing else."""
        from maxk.cli.data import named_values

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
                **({"skip": True} if self.skip else {}),
            },
            "settings": dataclasses.asdict(self.sampling),
            **({"prompt_variants": self.prompt_variants} if self.prompt_variants else {}),
        }


class NoSampler:
    """Stands for the model where no sample is missing."""

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        return iter(())


def choose_backend(backend: Backend, url: str | None) -> Backend:
    """The back end that "auto" stands for; UsageError where it does not go with --base-url."""
    try:
        return choose(backend, url)
    except ValueError as error:
        text = str(error).replace("backend=", "--backend ").replace("base_url", "--base-url")
        raise UsageError(text.replace("'", "")) from None


def judges_beside(backend: Backend) -> int | None:
    """How many programs to judge at once beside a GPU; None for the default.

    A GPU is driven by a few busy threads, which two jails per core would slow down.
    """
    import torch

    if backend == "openai" or not torch.cuda.is_available():
        return None
    return max(1, len(os.sched_getaffinity(0)) * 3 // 4)


def make_with(options: dict[str, Any], model: str, backend: Backend, url: str | None) -> Sampler:
    """A sampler of the back end; an unknown option in --engine is a ValueError that names it."""
    try:
        return make(model, backend, url, **options)
    except TypeError as error:
        if any(name in str(error) for name in options):
            raise UsageError(f"--engine: {error}") from error
        raise


def line(state: "Progress") -> str:
    """The speed, and the mean reward so far."""
    text = state.rate
    if state.graded:
        text += f", {state.graded} graded, mean reward {state.reward / state.graded:.3f}"
    return text
