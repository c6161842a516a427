"""What `maxk COMMAND --help` prints: an example, the options, and the page at the end."""

import inspect
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING

from maxk.cli.arguments import Option, actions_of, options_of
from maxk.cli.table import COMMANDS, EXAMPLES, PAGES

_WIDEST = 100
_COLUMN = 26  # where the texts of the options begin


def overview() -> str:
    """What `maxk --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [
        "usage: maxk COMMAND ...",
        "",
        "Train language models for Best-of-N with max@k, and measure them.",
    ]
    group = ""
    for name, entry in COMMANDS.items():
        if entry.group != group:
            group = entry.group
            lines += ["", group]
        lines.append(f"  {name:<{width}}  {entry.summary}")
    lines += [
        "",
        "maxk COMMAND --help has an example and the options of a command.",
        "maxk --version prints the version.",
    ]
    return "\n".join(lines)


def help_of(name: str, command: type) -> str:
    """What `maxk NAME --help` prints; name: `solve`, or `data show`."""
    text = (inspect.getdoc(command) or "").split("\n\n")
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    parts = [_examples(name), *(textwrap.fill(each, width) for each in text)]
    parts.append(_usage(name, command))
    if actions := actions_of(command):
        width = max(map(len, actions))
        rows = [f"  {each:<{width}}  {_summary(kind)}" for each, kind in actions.items()]
        parts.append("\n".join(["actions:", *rows]))
        parts.append(f"maxk {name} ACTION --help shows the options of an action.")
    elif options := options_of(command):
        parts.append("\n".join(_rows(options)))
    parts.append(f"More: {PAGES[name]}")
    return "\n\n".join(parts)


def _examples(name: str) -> str:
    return "\n".join(["Example:", *(f"  {line}" for line in EXAMPLES[name])])


def _summary(command: type) -> str:
    return (inspect.getdoc(command) or "").splitlines()[0]


def _usage(name: str, command: type) -> str:
    if actions_of(command):
        return f"usage: maxk {name} ACTION ..."
    options = options_of(command)
    words = [option.value for option in options if not option.flags]
    words += [
        f"{option.name} {option.value}" for option in options if option.flags and option.required
    ]
    optional = any(not option.required for option in options)
    return " ".join([f"usage: maxk {name}", *words, *(["[options]"] if optional else [])])


def _rows(options: tuple[Option, ...]) -> Iterator[str]:
    """The options, those that have to be given first, each with its text beside or below it."""
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    margin = " " * _COLUMN
    yield "options:"
    for option in sorted(options, key=lambda each: (bool(each.flags), not each.required)):
        head = f"  {_head(option)}"
        text = textwrap.wrap(_text(option), width - _COLUMN)
        if text and len(head) < _COLUMN - 1:
            head, text = head.ljust(_COLUMN) + text[0], text[1:]
        yield "\n".join([head, *(margin + line for line in text)])


def _head(option: Option) -> str:
    if not option.flags:
        return option.value
    flags = ", ".join(option.flags)
    if option.kind is bool:
        return f"--no-{flags[2:]}" if option.default else flags
    return f"{flags} {option.value}"


def _text(option: Option) -> str:
    """Its help, with a default that says something."""
    text = f"do not {option.text}" if option.kind is bool and option.default else option.text
    if option.required:
        return text if not option.flags else f"{text} (required)"
    if option.kind is bool or option.default in (MISSING, None, "", ()):
        return text
    return f"{text} (default: {option.default})"
