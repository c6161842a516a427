"""`maxk solve`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maxk.cli.arguments import FLAT, Short, UsageError, check_numbers, check_places
from maxk.cli.console import console
from maxk.cli.sample import choose_backend, make_with
from maxk.records import Problem, Verdict
from maxk.sample import Backend, Sampling
from maxk.verify import VerifierSettings

if TYPE_CHECKING:
    from maxk.best_of_n import Solution


@dataclass(frozen=True)
class Solve:
    """Solve one problem by Best-of-N and print the best program.

    Programs are sampled in waves and judged by unit tests, until one passes all of them.
    """

    problem: str
    """the id of a problem, such as starter/133, or a .jsonl file with one problem"""
    model: str
    """pocket, folder, name on the hub, LoRA adapter, GGUF file, or what a server calls it"""
    data: str | None = None
    """data set, as `maxk data list` has it; default: the first word of the id"""
    split: str | None = None
    """of the data set; default: test, or the only one there is"""
    source: Path | None = None
    """of the data set: file or folder; default: the Hugging Face hub"""
    data_options: tuple[str, ...] = ()
    """more for the loader of the data set, such as shown=1 for mbpp"""
    n: Annotated[int, Short("-n")] = 64
    """programs at most"""
    backend: Backend = "auto"
    """auto: the server of --base-url, else vllm if it is installed and there is a GPU"""
    base_url: str | None = None
    """of a server that speaks OpenAI's protocol"""
    engine: tuple[str, ...] = ()
    """more for the back end, such as gpu_memory_utilization=0.5 for vllm"""
    sampling: Annotated[Sampling, FLAT] = field(default_factory=Sampling)
    prompt_variants: tuple[str, ...] = ()
    """sentences for the end of the prompt; sample i has variant i modulo their number"""
    out: Path | None = None
    """write the program here"""
    verifier: Annotated[VerifierSettings, FLAT] = field(default_factory=VerifierSettings)

    def run(self) -> int:
        from maxk.best_of_n import solve
        from maxk.cli.data import named_values
        from maxk.cli.problems import usable

        check_numbers(n=self.n)
        backend = choose_backend(self.backend, self.base_url)
        options = named_values(self.engine, "--engine")
        check_places(out=self.out)
        asked = (self.model, backend, self.prompt_variants)
        unsafe = self.verifier.allow_unsafe
        [problem] = usable([self.found()], *asked, allow_unsafe=unsafe)
        sampler = make_with(options, self.model, backend, self.base_url)
        with self.verifier.verifier() as verifier:
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
        tokens = "" if solution.tokens is None else f"{solution.tokens} tokens, "
        cost = f"{solution.samples} samples, {tokens}{solution.seconds:.1f} s"
        console.print(f"passes {what} the {by}; {cost}; {solution.agreeing} samples agree")

    def found(self) -> Problem:
        from maxk.cli.data import Which
        from maxk.data import DATASETS
        from maxk.data.jsonl import refuse_faults

        file, name = Path(self.problem), self.data
        if name is None and not self.problem.endswith((".jsonl", ".jsonl.gz")):
            name, slash, _ = self.problem.partition("/")
            if name not in DATASETS or not slash:
                raise UsageError(
                    f"--problem {self.problem!r} is neither the id of a problem nor a .jsonl file; "
                    "name its data set with --data (`maxk data list`)"
                )
        if name is not None:
            options = self.data_options
            return Which(name, self.split, self.source, options=options).problem(self.problem)
        if not file.exists():
            raise FileNotFoundError(
                f"{file} is missing; give a .jsonl file, or the id of a problem"
            )
        refuse_faults([file])
        problems, _ = Which("jsonl", "all", file).problems()
        if len(problems) != 1:
            raise ValueError(
                f"{file} has {len(problems)} problems, and solve takes one; name it: "
                f"--data jsonl --source {file} --problem ID"
            )
        return problems[0]
