"""`maxk solve`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from maxk.cli.console import console
from maxk.cli.sample import make_with
from maxk.records import Problem, Verdict
from maxk.sample import Backend, Sampling

if TYPE_CHECKING:
    from maxk.best_of_n import Solution


@dataclass(frozen=True)
class Solve:
    """Solve one problem by Best-of-N: sample programs, judge them, print the best."""

    problem: str
    """the id of a problem of --data, or a .jsonl file with one problem (docs/data.md)"""
    model: str
    """pocket, folder, name on the hub, LoRA adapter, GGUF file, or what a server calls it"""
    data: str | None = None
    """data set, as `maxk data list` has it"""
    split: str | None = None
    """of the data set; default: test, or the only one there is"""
    source: Path | None = None
    """of the data set: file or folder; default: the Hugging Face hub"""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 64
    """programs at most"""
    backend: Backend = "auto"
    """auto: the server of --base-url, else vllm if it is installed and there is a GPU"""
    base_url: str | None = None
    """of a server that speaks OpenAI's protocol"""
    engine: tuple[str, ...] = ()
    """more for the back end, such as gpu_memory_utilization=0.5 for vllm"""
    sampling: Annotated[Sampling, tyro.conf.arg(name="")] = field(default_factory=Sampling)
    prompt_variants: tuple[str, ...] = ()
    """sentences for the end of the prompt; sample i has variant i modulo their number"""
    out: Path | None = None
    """write the program here"""
    allow_unsafe: bool = False
    """judge under resource limits alone where the kernel has no isolation; for code you trust"""

    def run(self) -> int:
        from maxk.best_of_n import solve
        from maxk.cli.data import named_values
        from maxk.sample import choose
        from maxk.verify import Verifier

        problem = self.found()
        backend = choose(self.backend, self.base_url)
        options = named_values(self.engine, "--engine")
        sampler = make_with(options, self.model, backend, self.base_url)
        with Verifier(allow_unsafe=self.allow_unsafe) as verifier:
            solution = solve(
                *(problem, sampler, self.n, self.sampling, verifier),
                progress=self.report,
                prompt_variants=self.prompt_variants,
            )
        self.show(solution)
        if self.out is None:
            print(solution.program)
        else:
            self.out.write_text(solution.program + "\n")
        return 0 if solution.solved else 1

    def report(self, drawn: int, best: Verdict) -> None:
        done = sum(test.status.value == "passed" for test in best.tests)
        console.print(f"{drawn} of {self.n} sampled, best passes {done} of {len(best.tests)} tests")

    def show(self, solution: "Solution") -> None:
        what = "all" if solution.solved else f"{solution.verdict.fraction:.0%} of"
        by = "tests" if solution.judged_by == "tests" else "examples (there are no other tests)"
        cost = f"{solution.samples} samples, {solution.tokens} tokens, {solution.seconds:.1f} s"
        console.print(f"passes {what} the {by}; {cost}; {solution.agreeing} samples agree")

    def found(self) -> Problem:
        from maxk.cli.data import Which
        from maxk.data.jsonl import refuse_faults

        file = Path(self.problem)
        if self.data is not None:
            return Which(self.data, self.split, self.source).problem(self.problem)
        if file.suffix != ".jsonl" or not file.exists():
            raise ValueError(f"--problem {self.problem!r} is not a .jsonl file; or give --data")
        refuse_faults([file])
        problems, _ = Which("jsonl", "all", file).problems()
        if len(problems) != 1:
            raise ValueError(f"{file} has {len(problems)} problems; solve takes one")
        return problems[0]
