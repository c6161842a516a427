"""`maxk verify` and `maxk doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.table import Table

from maxk.cli.arguments import FLAT, POSITIONAL, UsageError, check_places
from maxk.cli.console import console, progress_of_grading, say_left_out
from maxk.cli.data import Which
from maxk.cli.problems import with_tests
from maxk.grade.file import Summary, count_rows, grade_file, read_rows, verdicts_path
from maxk.grade.parallel import grade_run
from maxk.records import Problem, Status
from maxk.store.run import Run
from maxk.verify import VerifierSettings
from maxk.verify.doctor import examine

_MEND = "; mend the rows, or leave them out with --skip"


@dataclass(frozen=True)
class Verify:
    """Grade stored completions by unit tests.

    The verdicts of a file go into NAME.verdicts.jsonl beside it, those of a run into the run.

    Stopping and repeating the command goes on where it stopped.
    """

    file: Annotated[Path, POSITIONAL]
    """JSONL (also .gz) or parquet; a row has `completion` or `program`, and `tests` or `problem`.
    Or the folder of a run of `maxk sample`"""
    data: str | None = None
    """for rows that have `problem` instead of `tests`: the data set (`maxk data list`)"""
    split: str | None = None
    """of the data set; default: test, or the only one there is"""
    source: Path | None = None
    """of the data set: file or folder; default: the Hugging Face hub"""
    out: Path | None = None
    """file of the verdicts; default: NAME.verdicts.jsonl beside FILE"""
    table: str = "verdicts"
    """of a run: the table of the verdicts; those under other limits need one of their own"""
    skip: bool = False
    """take rows that cannot be graded for no failure; they are left out and named either way"""
    verifier: Annotated[VerifierSettings, FLAT] = VerifierSettings()  # noqa: RUF009

    def run(self) -> int:
        if self.file.is_dir():
            return self.run_folder()
        if self.table != "verdicts":
            raise UsageError(
                f"--table {self.table} is for the folder of a run; use --out for a file"
            )
        if not self.file.exists():
            raise FileNotFoundError(f"{self.file} is missing; give a file or the folder of a run")
        check_places(out=self.out)
        problems, bad = self.problems(), list[str]()
        total = count_rows(self.file)
        if next(read_rows(self.file, problems, bad.append), None) is None:
            raise ValueError(f"{self.file} has no row that can be graded: {bad[0]}{_MEND}")
        bad.clear()
        with self.verifier.verifier() as verifier, progress_of_grading(total) as shown:
            done = shown.update
            summary = grade_file(self.file, verifier, self.out, problems, done, bad.append)
        say_left_out(bad, "rows")
        self.show(summary, verifier.tier)
        if bad and not self.skip:
            rows = f"{len(bad)} row{'s' * (len(bad) > 1)} could not be graded, the first: {bad[0]}"
            raise ValueError(rows + _MEND)
        return 0

    def run_folder(self) -> int:
        for name in ("data", "split", "source", "out"):
            if (given := getattr(self, name)) is not None:
                raise UsageError(
                    f"--{name} {given} is for a file of completions; {self.file} is a folder and "
                    "has its problems: leave it out"
                )
        run = Run.open(self.file)
        there = run.read(self.table, ["reward"]).num_rows if run.parts(self.table) else 0
        total = run.read("completions", ["sample"]).num_rows - there
        summary = Summary()

        def on_graded(completions: int, reward: float) -> None:
            summary.rows += completions
            summary.reward += reward
            shown.update(summary)

        with progress_of_grading(total) as shown:
            grade_run(run, self.verifier, self.table, on_graded)
        if summary.rows:
            console.print(f"mean reward {summary.reward / summary.rows:.4f}")
        text = f"{summary.rows} graded now; verdicts: {self.file}/{self.table}"
        console.print(text, soft_wrap=True, markup=False)
        return 0

    def problems(self) -> dict[str, Problem]:
        if self.data is None:
            return {}
        which = Which(self.data, self.split, self.source, keep_broken=True, skip=self.skip)
        found, bad = with_tests(which.problems()[0], self.verifier.allow_unsafe)
        say_left_out(bad)
        return {problem.id: problem for problem in found}

    def show(self, summary: Summary, tier: str) -> None:
        rows, tests = max(summary.rows, 1), max(summary.statuses.total(), 1)
        table = Table(show_header=False, box=None)
        table.add_row("completions", f"{summary.rows}, of which {summary.judged} graded now")
        table.add_row("passed all tests", f"{summary.passed / rows:.2%}")
        table.add_row("mean reward", f"{summary.reward / rows:.4f}")
        if summary.without:
            table.add_row("without a program", f"{summary.without / rows:.2%}")
        for status in Status:
            if summary.statuses[status]:
                table.add_row(f"tests: {status.value}", f"{summary.statuses[status] / tests:.2%}")
        if summary.judged:
            rate = summary.judged / max(summary.seconds, 1e-9)
            table.add_row("speed", f"{rate:.0f} programs/s, tier {tier}")
        console.print(table)
        console.print(f"verdicts: {self.out or verdicts_path(self.file)}", soft_wrap=True)


@dataclass(frozen=True)
class Doctor:
    """Say which isolation this machine has for judged programs.

    It names what is missing, and the command that adds it.
    """

    def run(self) -> int:
        report = examine()
        meaning = {
            "A": "A: namespaces, Landlock and seccomp",
            "B": "B: Landlock and seccomp, no namespaces",
            None: "none: programs are not run here, unless you pass allow_unsafe",
        }
        console.print(f"tier {meaning[report.tier]}")
        for finding in report.findings:
            mark = "yes" if finding.works else "NO "
            console.print(f"  {mark} {finding.layer}: stops {finding.stops}", soft_wrap=True)
            if not finding.works:
                console.print(f"      {finding.why}", soft_wrap=True)
                if finding.command:
                    console.print(f"      to add it: {finding.command}", soft_wrap=True)
        if report.trial:
            console.print(report.trial)
        return 0 if report.tier else 1
