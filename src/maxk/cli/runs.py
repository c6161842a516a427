"""`maxk runs`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from maxk.cli.arguments import POSITIONAL, Action


@dataclass(frozen=True)
class Show:
    """Show how many completions and verdicts a sampling run has."""

    folder: Annotated[Path, POSITIONAL]
    """a run of `maxk sample`"""

    def run(self) -> int:
        from maxk.cli.console import console
        from maxk.store.run import Run

        run = Run.open(self.folder)
        total = run.config["n"] * run.read("problems", ["id"]).num_rows
        for table in ("completions", "verdicts"):
            rows = run.read(table, ["sample"]).num_rows if run.parts(table) else 0
            console.print(f"{rows} of {total} {table}")
        return 0


@dataclass(frozen=True)
class Join:
    """Join the shards of a sampling run into one run."""

    out: Annotated[Path, POSITIONAL]
    """a new folder"""
    runs: Annotated[tuple[Path, ...], POSITIONAL]
    """folders of all the shards"""

    def run(self) -> int:
        from maxk.cli.console import console
        from maxk.sample import join

        run = join(self.runs, self.out)
        console.print(f"{len(self.runs)} shards in {run.folder}", soft_wrap=True, markup=False)
        return 0


@dataclass(frozen=True)
class Convert:
    """Convert a run of an older maxk, in place."""

    folder: Annotated[Path, POSITIONAL]
    """a run of `maxk sample` or `maxk train`"""

    def run(self) -> int:
        from maxk.cli.console import console
        from maxk.grade.convert import convert

        for sentence in convert(self.folder):
            console.print(sentence, soft_wrap=True, markup=False)
        return 0


@dataclass(frozen=True)
class Runs:
    """Folders of runs: show progress, join shards, convert old ones."""

    action: (
        Annotated[Show, Action("show")]
        | Annotated[Join, Action("join")]
        | Annotated[Convert, Action("convert")]
    )

    def run(self) -> int:
        return self.action.run()
