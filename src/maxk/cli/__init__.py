"""The command `maxk`.

`maxk --help` prints the table of commands and imports nothing else. A command imports only its own
module, which holds a dataclass: its fields are the arguments, and `run` does the work and returns
the exit code: 0, 1 for a failure, 2 for arguments that cannot be.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from maxk.cli.table import COMMANDS

USAGE = 2  # the exit code for arguments that cannot be
CLOSED = 141  # as a shell reports a process whose output nobody reads any more


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit. arguments: default, those of the process."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # `maxk data list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = CLOSED
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    # Threads of torch that spin while they wait starve whatever shares their cores: programs that
    # are judged, or a second command. Before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if not arguments or arguments[0] in ("-h", "--help"):
        from maxk.cli.help import overview

        print(overview(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else USAGE
    name, *rest = arguments
    if name == "--version":
        from maxk import __version__

        print(f"maxk {__version__}")
        return 0
    if name not in COMMANDS:
        return _failed("maxk", ValueError(unknown(name)), USAGE)
    try:
        return parsed(name, rest).run()
    except KeyboardInterrupt:
        print("stopped; repeat the command to go on")
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        return _reported(name, error)


def parsed(name: str, arguments: list[str]) -> Any:
    """The dataclass of a command, filled from its arguments.

    Exits after --help, and where the arguments cannot be.
    """
    import dataclasses
    from importlib import import_module

    from maxk.cli.arguments import UsageError, actions_of, filled

    module, _, kind = COMMANDS[name].place.partition(":")
    command, words = getattr(import_module(module), kind), list(arguments)
    outer = None
    try:
        if (actions := actions_of(command)) and words and words[0] not in ("-h", "--help"):
            if words[0] not in actions:
                raise UsageError(
                    f"maxk {name} has no action {words[0]!r}; use one of {', '.join(actions)}"
                )
            name, outer, command = f"{name} {words[0]}", command, actions[words.pop(0)]
        elif actions and not words:
            raise UsageError(f"no action is given; use one of {', '.join(actions)}")
        words, overrides = split_overrides(words) if name == "train" else (words, [])
        if {"-h", "--help"} & set(words + overrides):
            from maxk.cli.help import help_of

            print(help_of(name, command))
            sys.exit(0)
        made = filled(command, words)
    except UsageError as error:
        sys.exit(_failed(f"maxk {name}", error, USAGE))
    if overrides:
        made = dataclasses.replace(made, overrides=tuple(overrides))
    return made if outer is None else outer(made)


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


def _reported(name: str, error: Exception) -> int:
    """Say what went wrong; the exit code for it."""
    from maxk.cli.arguments import UsageError

    if isinstance(error, UsageError):
        return _failed(f"maxk {name}", error, USAGE)
    if isinstance(error, (ValueError, OSError, ImportError, RuntimeError)):
        return _failed(f"maxk {name}", error, 1)
    if os.environ.get("MAXK_TRACEBACK"):
        raise error
    told = RuntimeError(
        f"{type(error).__name__}: {error}; if this is a fault of maxk, report it, with what the "
        "command says when MAXK_TRACEBACK=1 is set"
    )
    return _failed(f"maxk {name}", told, 1)


def _failed(who: str, error: Exception, code: int) -> int:
    """Print a line of what was wrong and one of what to do; returns the exit code."""
    what, fix = told(error)
    notes = getattr(error, "__notes__", ())
    said = "\n" in what and not what.rpartition("\n")[2].startswith(" ")
    if not (fix or notes or said):
        fix = f"{who} --help has an example and the options"
    print(*filter(None, [f"{who}: {what}", fix, *notes]), sep="\n", file=sys.stderr)
    return code


def told(error: Exception) -> tuple[str, str]:
    """What was wrong, and what to do, which an error says behind its first semicolon.

    >>> told(ValueError("--n 0 is below 1; use 1 or more"))
    ('--n 0 is below 1', 'use 1 or more')
    """
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename} is missing", "check the path"
    if isinstance(error, IsADirectoryError):
        return f"{error.filename} is a folder", "give a file"
    if isinstance(error, PermissionError):
        return (
            f"{error.filename}: permission denied",
            "choose another place, or change its permissions",
        )
    text = str(error).strip() or type(error).__name__
    what, _, fix = (text, "", "") if "\n" in text else text.partition("; ")
    return what, fix
