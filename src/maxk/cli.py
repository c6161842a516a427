"""The command `maxk`: one function per subcommand, its arguments as the function's own."""

import dataclasses
import difflib
import functools
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from maxk.data import DATASETS, Account, check, load_with_account
from maxk.data.references import verify_references
from maxk.records import Problem, Status, Verdict
from maxk.schema import dict_of_test
from maxk.verify import Limits, Verifier
from maxk.verify.doctor import examine
from maxk.verify.stored import Summary, count_rows, judge_file, verdicts_path

console = Console(highlight=False)


@dataclass(frozen=True)
class Verify:
    """Judge stored completions again; verdicts go into a file beside them.

    Stopping and repeating the command goes on where it stopped.
    """

    file: Annotated[Path, tyro.conf.Positional]
    """JSONL (also .gz) or parquet; a row has `completion` or `program`, and `tests` or `problem`"""
    data: str | None = None
    """for rows that have `problem` instead of `tests`: the data set (`maxk data list`)"""
    split: str | None = None
    """of the data set; default: test, or the only one there is"""
    source: Path | None = None
    """of the data set: file or folder; default: the Hugging Face hub"""
    out: Path | None = None
    """file of the verdicts; default: NAME.verdicts.jsonl beside FILE"""
    workers: int | None = None
    """programs at once; default: two per core"""
    isolate: Literal["program", "test"] = "program"
    """what gets a process of its own"""
    limits: Limits = field(default_factory=Limits)
    allow_unsafe: bool = False
    """run under resource limits alone where the kernel has no isolation; for code you trust"""

    def run(self) -> int:
        total = count_rows(self.file)
        with (
            Verifier(
                self.workers, self.limits, self.allow_unsafe, isolate=self.isolate
            ) as verifier,
            Shown(total) as shown,
        ):
            summary = judge_file(self.file, verifier, self.out, self.problems(), shown.update)
        self.show(summary, verifier.tier)
        return 0

    def problems(self) -> dict[str, Problem]:
        if self.data is None:
            return {}
        found, _ = Which(self.data, self.split, self.source, keep_broken=True).problems()
        return {problem.id: problem for problem in found}

    def show(self, summary: Summary, tier: str) -> None:
        rows, tests = max(summary.rows, 1), max(summary.fates.total(), 1)
        table = Table(show_header=False, box=None)
        table.add_row("completions", f"{summary.rows}, of which {summary.judged} judged now")
        table.add_row("passed all tests", f"{summary.passed / rows:.2%}")
        table.add_row("mean reward", f"{summary.reward / rows:.4f}")
        for status in Status:
            if summary.fates[status]:
                table.add_row(f"tests: {status.value}", f"{summary.fates[status] / tests:.2%}")
        if summary.judged:
            rate = summary.judged / max(summary.seconds, 1e-9)
            table.add_row("speed", f"{rate:.0f} programs/s, tier {tier}")
        console.print(table)
        console.print(f"verdicts: {self.out or verdicts_path(self.file)}", soft_wrap=True)


@dataclass(frozen=True)
class Doctor:
    """Say which isolation this machine gives, what is missing, and how to add it."""

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


class Shown:
    """Progress: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.last = total, time.monotonic()
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console) if console.is_terminal else None
        self.task = self.bar.add_task("judging", total=total) if self.bar else None

    def __enter__(self) -> "Shown":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, summary: Summary) -> None:
        mean = summary.reward / max(summary.rows, 1)
        if self.bar and self.task is not None:
            text = f"judging, mean reward {mean:.3f}"
            self.bar.update(self.task, completed=summary.rows, description=text)
        elif time.monotonic() - self.last >= 10:
            self.last = time.monotonic()
            console.print(f"{summary.rows} of {self.total} judged, mean reward {mean:.3f}")


@dataclass(frozen=True)
class DataList:
    """The data sets by name: sizes, licences, where they come from."""

    def run(self) -> int:
        table = Table(box=None, pad_edge=False)
        table.add_column("name", no_wrap=True)
        for column in ("problems", "licence", "on the hub", "paper"):
            table.add_column(column, overflow="fold")
        for each in DATASETS.values():
            table.add_row(each.name, each.size, each.licence, each.hub or "", each.citation)
        console.print(table)
        return 0


@dataclass(frozen=True)
class Which:
    """A data set: its name, which of its splits, and where its files are."""

    name: Annotated[str, tyro.conf.Positional]
    """as `maxk data list` has it"""
    split: str | None = None
    """default: test, or the only one there is"""
    source: Path | None = None
    """file or folder with the published files; default: the Hugging Face hub"""
    keep_broken: bool = False
    """keep problems whose own solution is known to fail its tests"""

    def problems(self) -> tuple[list[Problem], Account]:
        known = DATASETS[self.name].splits if self.name in DATASETS else ("test",)
        split = self.split or ("test" if "test" in known else known[0])
        return load_with_account(self.name, split, self.source, keep_broken=self.keep_broken)


@dataclass(frozen=True)
class DataShow:
    """One problem as the model and the judge see it."""

    which: Annotated[Which, tyro.conf.arg(name="")]
    id: str
    tests: int = 5
    """how many of the graded tests to print"""

    def run(self) -> int:
        problems, _ = self.which.problems()
        found = {problem.id: problem for problem in problems}
        problem = found.get(self.id) or found.get(f"{self.which.name}/{self.id}")
        if problem is None:
            close = difflib.get_close_matches(self.id, found, 3) or list(found)[:3]
            raise ValueError(f"no problem {self.id!r}; there are {', '.join(close)}, ...")
        write = functools.partial(console.print, markup=False, soft_wrap=True)
        facts = {"difficulty": problem.difficulty, "origin": problem.origin}
        facts |= {"time limit": problem.time_limit, "tags": ", ".join(problem.tags)}
        write(problem.id, *(f"{key}: {fact}" for key, fact in facts.items() if fact), sep="  ")
        write("\n--- what the model is asked ---")
        write(problem.prompt[0]["content"])
        write(f"\n--- what it is graded by: {len(problem.tests)} tests ---")
        for test in problem.tests[: self.tests]:
            seen = "shown " if test in problem.examples else "hidden"
            text = json.dumps(dict_of_test(test), ensure_ascii=False)
            write(f"{seen} {text if len(text) < 500 else text[:500] + '...'}")
        if len(problem.tests) > self.tests:
            write(f"... and {len(problem.tests) - self.tests} more (--tests N shows more)")
        write("\n--- the reference ---")
        write(problem.reference or "none")
        return 0


@dataclass(frozen=True)
class DataCheck:
    """Check a file of your own problems; every fault is named with its line."""

    file: Annotated[Path, tyro.conf.Positional]

    def run(self) -> int:
        faults = check(self.file)
        for fault in faults:
            console.print(f"{self.file}, {fault}", markup=False, soft_wrap=True)
        total = f"{len(faults)} faults" if faults else f"{self.file}: no faults"
        console.print(total, markup=False, soft_wrap=True)
        return 1 if faults else 0


@dataclass(frozen=True)
class DataVerify:
    """Judge every problem's own solution; list those that fail."""

    which: Annotated[Which, tyro.conf.arg(name="")]
    workers: int | None = None
    """programs at once; default: two per core"""
    tests: int | None = None
    """judge by the first so many tests; default: all"""
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None
    """write the failures as JSON: {id: how}"""

    def run(self) -> int:
        problems, account = dataclasses.replace(self.which, keep_broken=True).problems()
        having = sum(problem.reference is not None for problem in problems)
        summary = Summary()
        with Verifier(self.workers, self.limits) as verifier, Shown(having) as shown:

            def done(_: int, verdict: Verdict) -> None:
                summary.add(verdict)
                shown.update(summary)

            failures = verify_references(problems, verifier, self.tests, done)
        for failure in failures:
            console.print(str(failure), markup=False, soft_wrap=True)
        console.print(str(account), markup=False)
        kinds = Counter(failure.status for failure in failures).most_common()
        ways = ": " + ", ".join(f"{n} {kind}" for kind, n in kinds) if kinds else ""
        console.print(f"{having} with a reference, {len(failures)} fail{ways}")
        if self.out is not None:
            known = {f.id: f"{f.failed} of {f.tests} tests, {f.status}" for f in failures}
            self.out.write_text(json.dumps(known, indent=1) + "\n")
        return 0


@dataclass(frozen=True)
class Data:
    """Benchmarks and your own problems: list, show, check, verify."""

    action: (
        Annotated[DataList, tyro.conf.subcommand("list")]
        | Annotated[DataShow, tyro.conf.subcommand("show")]
        | Annotated[DataCheck, tyro.conf.subcommand("check")]
        | Annotated[DataVerify, tyro.conf.subcommand("verify")]
    )

    def run(self) -> int:
        return self.action.run()


Command = (
    Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
    | Annotated[Data, tyro.conf.subcommand("data")]
)


def main() -> None:
    command = tyro.cli(
        Command,
        prog="maxk",
        description="Best-of-N: train for it, measure it.",
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    try:
        code = command.run()
    except KeyboardInterrupt:
        console.print("stopped; repeat the command to go on")
        code = 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"maxk: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
