"""`maxk solve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from maxk.best_of_n import Solution, solve
from maxk.cli.console import console
from maxk.cli.data import Which, named_values
from maxk.cli.sample import make_with
from maxk.data.jsonl import refuse_faults
from maxk.records import Problem, Verdict
from maxk.sample import Backend, Sampling, choose
from maxk.verify import Verifier


@dataclass(frozen=True)
class Solve:
    """Best-of-N: sample programs for one problem, judge them, print the best."""

    problem: str
    """the id of a problem of --data, or a .jsonl file with one problem (docs/data.md)"""
    model: str
    """pocket, folder, name on the hub, LoRA adapter, GGUF file, or what a server calls it"""
    data: str | None = None
    """data set, as `maxk data list` has it"""
    split: str | None = None
    source: Path | None = None
    """of the data set: file or folder; default: the Hugging Face hub"""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 64
    """programs at most"""
    backend: Backend = "auto"
    base_url: str | None = None
    """of a server that speaks OpenAI's protocol"""
    engine: tuple[str, ...] = ()
    """more for the back end, such as gpu_memory_utilization=0.5 for vllm"""
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int = 0
    hints: tuple[str, ...] = ()
    """sentences for the end of the prompt, which the programs take in turn"""
    out: Path | None = None
    """write the program here"""
    allow_unsafe: bool = False
    """judge under resource limits alone where the kernel has no isolation; for code you trust"""

    def run(self) -> int:
        problem = self.found()
        settings = Sampling(self.temperature, self.top_p, self.max_tokens, self.seed)
        backend = choose(self.backend, self.base_url)
        sampler = make_with(
            named_values(self.engine, "--engine"), self.model, backend, self.base_url
        )
        with Verifier(allow_unsafe=self.allow_unsafe) as verifier:
            solution = solve(problem, sampler, self.n, settings, verifier, self.report, self.hints)
        self.show(solution)
        if self.out is None:
            print(solution.program)
        else:
            self.out.write_text(solution.program + "\n")
        return 0 if solution.solved else 1

    def report(self, drawn: int, best: Verdict) -> None:
        done = sum(test.status.value == "passed" for test in best.tests)
        console.print(f"{drawn} of {self.n} sampled, best passes {done} of {len(best.tests)} tests")

    def show(self, solution: Solution) -> None:
        what = "all" if solution.solved else f"{solution.verdict.fraction:.0%} of"
        by = "tests" if solution.judged_by == "tests" else "examples (there are no other tests)"
        cost = f"{solution.samples} samples, {solution.tokens} tokens, {solution.seconds:.1f} s"
        console.print(f"passes {what} the {by}; {cost}; {solution.agreeing} samples agree")

    def found(self) -> Problem:
        file = Path(self.problem)
        if self.data is None:
            if file.suffix != ".jsonl" or not file.exists():
                raise ValueError(f"--problem {self.problem!r} is no .jsonl file; or give --data")
            refuse_faults([file])
            problems, _ = Which("jsonl", "all", file).problems()
            if len(problems) != 1:
                raise ValueError(f"{file} has {len(problems)} problems; solve takes one")
            return problems[0]
        return Which(self.data, self.split, self.source).problem(self.problem)
