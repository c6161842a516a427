"""The command `maxk`: a dataclass per subcommand, its fields the arguments."""

import dataclasses
import os
import sys
from typing import Annotated

import tyro

from maxk.cli.allocate import Plan
from maxk.cli.console import console
from maxk.cli.data import Data
from maxk.cli.evaluate import Compare, Evaluate, Foresee
from maxk.cli.merge import Merge
from maxk.cli.report import Report
from maxk.cli.sample import Runs, Sample
from maxk.cli.solve import Solve
from maxk.cli.train import Train
from maxk.cli.verify import Doctor, Verify

Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Merge, tyro.conf.subcommand("merge")]
    | Annotated[Sample, tyro.conf.subcommand("sample")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Foresee, tyro.conf.subcommand("curve")]
    | Annotated[Plan, tyro.conf.subcommand("plan")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Solve, tyro.conf.subcommand("solve")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
    | Annotated[Data, tyro.conf.subcommand("data")]
    | Annotated[Runs, tyro.conf.subcommand("runs")]
)


def main() -> None:
    # Threads of torch that spin while they wait starve whatever shares their cores: programs that
    # are judged, or a second command (docs/sampling.md). Before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    given, overrides = split_overrides(sys.argv[1:])
    command = tyro.cli(
        Command,
        args=given,
        prog="maxk",
        description="Best-of-N: train for it, measure it.",
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    if isinstance(command, Train):
        command = dataclasses.replace(command, overrides=tuple(overrides))
    try:
        code = command.run()
    except KeyboardInterrupt:
        console.print("stopped; repeat the command to go on")
        code = 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"maxk: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        code = 1
    sys.exit(code)


def split_overrides(given: list[str]) -> tuple[list[str], list[str]]:
    """The arguments proper, and for `train` the keys of its file that are given here.

    >>> split_overrides(["train", "run.toml", "--method.k", "8"])
    (['train', 'run.toml'], ['--method.k', '8'])
    """
    if given[:1] != ["train"]:
        return given, []
    first = next((i for i, word in enumerate(given) if "." in word and word[:2] == "--"), None)
    return (given, []) if first is None else (given[:first], given[first:])
