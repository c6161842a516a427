"""The command `maxk`: one table of its subcommands.

`maxk --help` prints the table and imports nothing else. A subcommand imports only its own module,
which holds a dataclass: its fields are the arguments, and `run` does the work and returns the exit
code.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A subcommand: MODULE:CLASS, and the first line of the docstring of that class."""

    place: str
    summary: str


COMMANDS = {
    "train": Entry("maxk.cli.train:Train", "Train a model for Best-of-N, as a TOML file says."),
    "merge": Entry(
        "maxk.cli.merge:Merge",
        "Merge models into one: towards the base model (--alpha), or several into their mean.",
    ),
    "sample": Entry(
        "maxk.cli.sample:Sample",
        "Sample n completions of every problem into a run's folder, and grade them.",
    ),
    "evaluate": Entry(
        "maxk.cli.evaluate:Evaluate",
        "Print pass@k and max@k of a sampling run, with confidence intervals.",
    ),
    "compare": Entry(
        "maxk.cli.evaluate:Compare",
        "Compare runs on the same problems: tables, paired differences, p-values.",
    ),
    "forecast": Entry(
        "maxk.cli.evaluate:Forecast", "Forecast max@k or pass@k for more samples than a run has."
    ),
    "allocate": Entry(
        "maxk.cli.allocate:Allocate",
        "Allocate the k samples of a problem to several sampling configurations.",
    ),
    "report": Entry(
        "maxk.cli.report:Report",
        "Write one HTML page: did training help Best-of-N, where, and at what cost?",
    ),
    "solve": Entry(
        "maxk.cli.solve:Solve",
        "Solve one problem by Best-of-N: sample programs, judge them, print the best.",
    ),
    "verify": Entry(
        "maxk.cli.verify:Verify",
        "Grade stored completions; verdicts go beside them.",
    ),
    "doctor": Entry(
        "maxk.cli.verify:Doctor",
        "Say which isolation this machine gives, what is missing, and how to add it.",
    ),
    "data": Entry(
        "maxk.cli.data:Data", "Benchmarks and your own problems: list, show, check, verify."
    ),
    "runs": Entry(
        "maxk.cli.runs:Runs", "Folders of runs: show progress, join shards, convert old ones."
    ),
}
USAGE = 2  # the exit code for arguments that cannot be


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit. arguments: default, those of the process."""
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    # Threads of torch that spin while they wait starve whatever shares their cores: programs that
    # are judged, or a second command. Before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if not arguments:
        print(help_text(), file=sys.stderr)
        return USAGE
    name, *rest = arguments
    if name in ("-h", "--help"):
        print(help_text())
        return 0
    if name == "--version":
        from maxk import __version__

        print(f"maxk {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"maxk: {unknown(name)}", file=sys.stderr)
        return USAGE
    try:
        return parsed(name, rest).run()
    except KeyboardInterrupt:
        print("stopped; repeat the command to go on")
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"maxk: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1


def parsed(name: str, arguments: list[str]) -> Any:
    """The dataclass of a command, filled from its arguments; exits where they cannot be."""
    import dataclasses
    from importlib import import_module

    import tyro

    module, _, kind = COMMANDS[name].place.partition(":")
    given, overrides = split_overrides(arguments) if name == "train" else (arguments, [])
    command = tyro.cli(
        getattr(import_module(module), kind),
        args=given,
        prog=f"maxk {name}",
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    return dataclasses.replace(command, overrides=tuple(overrides)) if overrides else command


def split_overrides(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of `maxk train` proper, and the keys of its file that are given after them.

    >>> split_overrides(["run.toml", "--method.k", "8"])
    (['run.toml'], ['--method.k', '8'])
    """
    keys = (i for i, word in enumerate(arguments) if "." in word and word[:2] == "--")
    first = next(keys, len(arguments))
    return arguments[:first], arguments[first:]


def unknown(name: str) -> str:
    """What is said of a command that does not exist, with those of a similar name."""
    import difflib

    close = " or ".join(difflib.get_close_matches(name, COMMANDS, 2))
    close = f"did you mean {close}? " if close else ""
    return f"unknown command {name!r}; {close}maxk --help lists all commands"


def help_text() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items()]
    return "\n".join(
        [
            "usage: maxk COMMAND ...",
            "",
            "Train language models for Best-of-N with max@k, and measure them.",
            "",
            "commands:",
            *lines,
            "",
            "maxk COMMAND --help shows the options of a command, maxk --version the version.",
        ]
    )
