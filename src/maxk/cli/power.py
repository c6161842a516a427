"""`maxk power`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from maxk.cli.arguments import POSITIONAL, UsageError, check_numbers
from maxk.cli.console import console

if TYPE_CHECKING:
    from maxk.evaluate.power import Variances

_SHOWN = (3, 5, 8, 16)  # runs a side


@dataclass(frozen=True)
class Power:
    """Say how many runs, problems and samples tell a difference apart.

    The variances come from --between-sd and --within, or from several stored runs of one method:
    `maxk power runs/grpo-s*`. The test is that of `maxk compare`, for one difference.
    """

    runs: Annotated[tuple[str, ...], POSITIONAL] = ()
    """folders of `maxk sample` with runs of one method, in place of standard deviations"""
    delta: float = 0.02
    """the difference in max@k that is to be found"""
    between_sd: float | None = None
    """standard deviation between the means of runs that differ in their seed alone"""
    within: float | None = None
    """standard deviation of a run on one problem, beside its mean and the problem's"""
    by_problem: float = 0.0
    """standard deviation over problems of the true difference of the two methods"""
    problems: int | None = None
    """problems of the benchmark; default: 100, or those of the stored runs"""
    samples: int | None = None
    """samples of a problem; default: those of the stored runs, from which their noise is known"""
    chance: float = 0.8
    """how often the difference is to be found"""
    level: float = 0.05
    """how often a difference of 0 may be found"""
    k: int | None = None
    """with stored runs, the k; default: half of their samples"""
    metric: Literal["max", "pass"] = "max"
    """with stored runs, max@k or pass@k"""

    def run(self) -> int:
        from maxk.evaluate.power import MOST_RUNS, power, runs_needed, smallest, with_more

        found, name = self.stored() if self.runs else self.given()
        found = replace(found, by_problem=self.by_problem)
        known = found.noise > 0
        console.print(
            f"{name}: standard deviation between runs {found.between:.4f}; of a run on one problem "
            f"{found.on_a_problem**0.5:.3f}"
            + (f", {found.noise / found.samples**0.5:.3f} of it from its samples" if known else ""),
            markup=False,
            soft_wrap=True,
        )
        if not found.by_problem:
            console.print(
                "--by-problem is 0: as if the methods differed by the same on every problem",
                markup=False,
                soft_wrap=True,
            )
        shown = f"a difference of {self.delta:g}, found in {self.chance:.0%} of comparisons"
        console.print(f"\n{shown}, at level {self.level:g}:", markup=False)
        for problems in (1, 4):
            for samples in (1, 4) if known else (1,):
                more = with_more(found, problems, samples)
                needed = runs_needed(more, self.delta, self.chance, self.level)
                runs = f"{needed} runs a side" if needed else f"more than {MOST_RUNS} runs a side"
                of = f", {more.samples} samples" if known else ""
                console.print(f"  {more.problems} problems{of}: {runs}", markup=False)
        of = f" and {found.samples} samples" if known else ""
        console.print(f"\nwith {found.problems} problems{of}:", markup=False)
        for runs in _SHOWN:
            least = smallest(found, runs, self.chance, self.level)
            often = power(found, runs, self.delta, self.level)
            console.print(
                f"  {runs} runs a side: {self.delta:g} is found in {often:.0%}; the smallest "
                f"difference found in {self.chance:.0%} is {least:.3f}",
                markup=False,
            )
        return 0

    def given(self) -> "tuple[Variances, str]":
        from maxk.evaluate.power import Variances

        self.check()
        for flag, value in (("--between-sd", self.between_sd), ("--within", self.within)):
            if value is None:
                raise UsageError(
                    f"{flag} is missing; give --between-sd and --within, or folders of runs"
                )
        if self.samples is not None:
            raise UsageError("--samples needs stored runs; their noise is in --within otherwise")
        if self.k is not None:
            raise UsageError("--k needs stored runs; give folders of runs, or leave it out")
        assert self.between_sd is not None
        assert self.within is not None
        return Variances(self.between_sd, self.within, self.problems or 100, 1), "given"

    def stored(self) -> "tuple[Variances, str]":
        from maxk.cli.methods import folders
        from maxk.evaluate import replicates
        from maxk.evaluate.power import variances
        from maxk.evaluate.read import read_run, refuse_other_settings

        self.check()
        for flag, value in (("--between-sd", self.between_sd), ("--within", self.within)):
            if value is not None:
                raise UsageError(f"{flag} is measured from the runs; give it without folders")
        read = [read_run(folder) for _, folder in folders(self.runs)]
        if len(read) < 2:
            raise UsageError("one run has no deviation between runs; give two or more")
        refuse_other_settings(read)
        n = min(len(row) for run in read for row in run.rows)
        k = self.k or max(1, n // 2)
        order = list(read[0].rewards)
        rows = [[run.rewards[problem][:n] for problem in order] for run in read]
        found = variances(replicates(rows, [k], self.metric), 0, n)
        found = replace(
            found, problems=self.problems or found.problems, samples=self.samples or found.samples
        )
        return found, f"{self.metric}@{k} of {len(read)} runs, {n} samples of {len(order)} problems"

    def check(self) -> None:
        check_numbers(problems=self.problems, samples=self.samples, k=self.k)
        for flag, value in (("--chance", self.chance), ("--level", self.level)):
            if not 0 < value < 1:
                raise UsageError(f"{flag} {value:g} must lie between 0 and 1; use 0.8 or 0.05")
        if not self.delta > 0:
            raise UsageError(f"--delta {self.delta:g} must be above 0; use 0.02 for 2 pp")
