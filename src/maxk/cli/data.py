"""`maxk data`: the benchmarks and one's own problems."""

import contextlib
import dataclasses
import difflib
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from maxk.cli.arguments import FLAT, POSITIONAL, Action, UsageError, check_numbers
from maxk.cli.console import console, progress_of_grading, say_left_out
from maxk.cli.problems import with_tests
from maxk.data import DATASETS, Account, check, load_with_account
from maxk.data.constants import MUCH, PROGRAMS, RAISE, Earned, judge_constants
from maxk.data.references import verify_references
from maxk.grade.file import Summary
from maxk.prompts import messages
from maxk.records import Problem, Verdict
from maxk.store.codec import dict_of_test
from maxk.store.rows import BadRow
from maxk.verify import Limits, Verifier


@dataclass(frozen=True)
class DataList:
    """List the data sets: sizes, licences, where they come from, papers."""

    def run(self) -> int:
        for each in DATASETS.values():
            where = each.hub or {"jsonl": "--source FILE"}.get(each.name, "comes with maxk")
            print(each.name, each.size, f"{where}; {each.licence}", each.citation, sep="\n  ")
        return 0


def named_values(given: Sequence[str], argument: str) -> dict[str, Any]:
    """name=value, where the value is JSON or else text.

    >>> named_values(["max_model_len=2048", "logprobs=true", "dtype=bfloat16"], "--engine")
    {'max_model_len': 2048, 'logprobs': True, 'dtype': 'bfloat16'}
    """
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise UsageError(f"{argument} {text!r} is not name=value; use one such as shown=1")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


@dataclass(frozen=True)
class Which:
    """A data set: its name, which of its splits, and where its files are."""

    name: Annotated[str, POSITIONAL]
    """as `maxk data list` has it"""
    split: str | None = None
    """default: test, or the only one there is"""
    source: Path | None = None
    """file or folder with the published files; default: the Hugging Face hub"""
    keep_broken: bool = False
    """keep problems whose own solution is known to fail its tests"""
    options: tuple[str, ...] = ()
    """more for the loader, such as shown=1 for mbpp"""
    skip: bool = False
    """leave out rows that cannot be read, and say which"""

    def chosen_split(self) -> str:
        if self.name not in DATASETS:
            close = difflib.get_close_matches(self.name, DATASETS, 1)
            fix = f"use {close[0]}" if close else "`maxk data list` has the names"
            raise UsageError(f"the data set {self.name!r} is unknown; {fix}")
        known = DATASETS[self.name].splits
        if self.split is not None and self.split not in known:
            raise UsageError(
                f"--split {self.split!r} is unknown; {self.name} has {', '.join(known)}"
            )
        whole = self.name == "jsonl" and self.source is not None and self.source.is_file()
        return self.split or ("all" if whole else "test" if "test" in known else known[0])

    def problems(self, argument: str = "--options") -> tuple[list[Problem], Account]:
        """argument: what the command calls the options."""
        which = (self.name, self.chosen_split(), self.source)
        options = named_values(self.options, argument)
        kept = {"keep_broken": self.keep_broken, "skip": self.skip}
        try:
            return load_with_account(*which, **kept, **options)
        except BadRow as error:
            fix = "mend the row, or leave it out with --skip"
            raise ValueError(f"{error}; {fix}") from None
        except TypeError as error:
            unknown = [name for name in options if f"'{name}'" in str(error)]
            if unknown:
                fix = "leave it out"
                text = f"{argument}: {self.name} has no option {unknown[0]!r}; {fix}"
                raise UsageError(text) from None
            raise

    def problem(self, name: str) -> Problem:
        """The one with this id; the name of the data set before it may be left out."""
        problems, account = dataclasses.replace(self.with_split_of(name), skip=True).problems()
        found = {problem.id: problem for problem in problems}
        problem = found.get(name) or found.get(f"{self.name}/{name}")
        if problem is None:
            say_left_out(account.bad)
            close = difflib.get_close_matches(name, found, 3) or list(found)[:3]
            raise ValueError(
                f"{self.name} has no problem {name!r}; there are {', '.join(close)}, ..."
            )
        return problem

    def with_split_of(self, name: str) -> "Which":
        """Itself, with the split that an id names: train for pocket/train/000-..."""
        parts = name.split("/")
        known = DATASETS[self.name].splits if self.name in DATASETS else ()
        named = self.split is None and len(parts) > 2 and parts[1] in known
        return dataclasses.replace(self, split=parts[1]) if named else self


@dataclass(frozen=True)
class DataShow:
    """Show one problem as the model and the judge see it."""

    which: Annotated[Which, FLAT]
    id: str
    """of the problem, with or without the name of the data set"""
    tests: int = 5
    """how many of the graded tests to print"""

    def run(self) -> int:
        if self.tests < 0:
            raise UsageError(f"--tests {self.tests} is below 0; use 0 or more")
        problem = self.which.problem(self.id)
        write = functools.partial(console.print, markup=False, soft_wrap=True)
        facts = {"difficulty": problem.difficulty, "origin": problem.origin}
        facts |= {"time limit": problem.time_limit, "tags": ", ".join(problem.tags)}
        write(problem.id, *(f"{key}: {fact}" for key, fact in facts.items() if fact), sep="  ")
        write("\n--- what the model is asked ---")
        write(messages(problem)[0]["content"])
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

    file: Annotated[Path, POSITIONAL]
    """.jsonl or .jsonl.gz, one problem a line"""

    def run(self) -> int:
        faults = check(self.file)
        for fault in faults:
            console.print(f"{self.file}, {fault}", markup=False, soft_wrap=True)
        many = f"{len(faults)} fault{'s' * (len(faults) > 1)}"
        total = many if faults else f"{self.file}: no faults"
        console.print(total, markup=False, soft_wrap=True)
        return 1 if faults else 0


@dataclass(frozen=True)
class DataVerify:
    """Judge every problem's own solution, and constant answers."""

    which: Annotated[Which, FLAT]
    workers: int | None = None
    """programs at once; default: two per core"""
    tests: int | None = None
    """judge by the first so many tests; default: all"""
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None
    """write the failures and the slow solutions as JSON: {id: how}"""
    constants: bool = True
    """judge programs that raise, or always return the same or their first argument"""

    def run(self) -> int:
        check_numbers(workers=self.workers, tests=self.tests)
        found, account = dataclasses.replace(self.which, keep_broken=True).problems()
        problems, bad = with_tests(found)
        account.bad += bad
        having = sum(problem.reference is not None for problem in problems)
        with Verifier(self.workers, self.limits) as verifier:
            with _progress(having) as done:
                failures, slow = verify_references(problems, verifier, self.tests, done)
            earned: list[Earned] = []
            if self.constants:
                with _progress(PROGRAMS * len(problems)) as done:
                    earned = judge_constants(problems, verifier, self.tests, done)
        much = [e for e in earned if e.passed > (0 if e.what == RAISE else MUCH * e.tests)]
        for each in (*failures, *slow, *much):
            console.print(str(each), markup=False, soft_wrap=True)
        console.print(str(account), markup=False, soft_wrap=True)
        kinds = Counter(failure.status for failure in failures).most_common()
        ways = ": " + ", ".join(f"{n} {kind}" for kind, n in kinds) if kinds else ""
        console.print(
            f"{having} with a reference, {len(failures)} fail{ways}, {len(slow)} are slow"
        )
        if earned:
            console.print(_constants_line(earned, much), markup=False, soft_wrap=True)
        if self.out is not None:
            known = {each.id: each.how for each in (*failures, *slow)}
            self.out.write_text(json.dumps(known, indent=1) + "\n")
        if bad and not self.which.skip:
            raise ValueError(f"{len(bad)} problems have no tests; --skip takes that for no failure")
        return 0


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[int, Verdict], None]]:
    summary = Summary()
    with progress_of_grading(total) as shown:

        def done(_: int, verdict: Verdict) -> None:
            summary.add(verdict)
            shown.update(summary)

        yield done


def _constants_line(earned: list[Earned], much: list[Earned]) -> str:
    """The mean reward of each program, and how many problems give one of them much."""
    rewards: dict[str, list[float]] = {}
    for each in earned:
        rewards.setdefault(each.what, []).append(each.passed / max(each.tests, 1))
    means = ", ".join(f"{what} {sum(all_) / len(all_):.3f}" for what, all_ in rewards.items())
    count = len({each.id for each in much})
    return f"mean reward of a program that {means}; {count} problems give one of them too much"


@dataclass(frozen=True)
class Data:
    """Data sets and your own problems: list, show, check, verify."""

    action: (
        Annotated[DataList, Action("list")]
        | Annotated[DataShow, Action("show")]
        | Annotated[DataCheck, Action("check")]
        | Annotated[DataVerify, Action("verify")]
    )

    def run(self) -> int:
        return self.action.run()
