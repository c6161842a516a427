"""The arguments of a command: a dataclass, whose fields are the options, filled from words.

A field without a marker is an option: `max_tokens: int = 512` is `--max-tokens N`. A dataclass as a
field is a group of options, `--limits.cpu-seconds` if the field is called limits. The text below a
field is its help.
"""

import argparse
import ast
import dataclasses
import difflib
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn


class UsageError(ValueError):
    """Arguments that cannot be. The command ends with exit code 2."""


def check_places(**files: Path | None) -> None:
    """UsageError where the folder of a file to write is missing: before any work, not after it."""
    for name, file in files.items():
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(f"--{name}: the folder {file.parent} is missing; make it first")
        if file is not None and file.is_dir():
            raise UsageError(f"--{name} {file} is a folder; give a file")


def check_numbers(**given: int | None) -> None:
    """UsageError for a number below 1."""
    for name, value in given.items():
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value} is below 1; use 1 or more")


# --- markers, for Annotated ----------------------------------------------------------------------


class Marker:
    """What a field is if it is no option of its own name."""


POSITIONAL = Marker()
FLAT = Marker()  # a group whose options have no prefix
HIDDEN = Marker()  # no option at all


@dataclass(frozen=True)
class Short:
    """A second name of an option, such as -n."""

    flag: str


@dataclass(frozen=True)
class Action:
    """The name of a subcommand: `list` of `maxk data list`."""

    name: str


# --- options -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """One argument of a command."""

    path: tuple[str, ...]  # from the command to the field
    kind: Any  # str, int, float, bool, Path, a Literal, or a union of these
    many: bool
    required: bool
    default: Any  # MISSING where there is none, or it is made anew
    text: str
    flags: tuple[str, ...]  # none: it is positional

    @property
    def name(self) -> str:
        return self.flags[-1] if self.flags else self.path[-1].upper()

    @property
    def value(self) -> str:
        """What stands for its value in the help."""
        kinds = [each for each in kinds_of(self.kind) if each is not type(None)]
        names = [_NAMES.get(each) or "|".join(typing.get_args(each)) for each in kinds]
        one = "|".join(names) if self.flags else self.path[-1].upper()
        return f"{one} ..." if self.many else one


_NAMES = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
_WANTED = {int: "a whole number", float: "a number"}


@cache
def options_of(command: type) -> tuple[Option, ...]:
    """The options of a dataclass, those of its groups among them."""
    return tuple(_options(command, (), ""))


def _options(group: type, path: tuple[str, ...], prefix: str) -> Iterator[Option]:
    kinds, texts = typing.get_type_hints(group, include_extras=True), texts_of(group)
    for field in dataclasses.fields(group):
        kind, marks = _plain(kinds[field.name])
        if HIDDEN in marks:
            continue
        here = (*path, field.name)
        if dataclasses.is_dataclass(kind):
            inner = prefix if FLAT in marks else f"{prefix}{field.name.replace('_', '-')}."
            yield from _options(typing.cast(type, kind), here, inner)
            continue
        many = typing.get_origin(kind) is tuple
        flag = f"--{prefix}{field.name.replace('_', '-')}"
        short = tuple(mark.flag for mark in marks if isinstance(mark, Short))
        yield Option(
            path=here,
            kind=typing.get_args(kind)[0] if many else kind,
            many=many,
            required=field.default is field.default_factory is MISSING,
            default=field.default,
            text=texts.get(field.name, ""),
            flags=() if POSITIONAL in marks else (*short, flag),
        )


def actions_of(command: type) -> dict[str, type]:
    """The subcommands of a command by name; empty for most."""
    hint = typing.get_type_hints(command, include_extras=True).get("action")
    found = {}
    for each in typing.get_args(hint):
        kind, marks = _plain(each)
        found |= {mark.name: kind for mark in marks if isinstance(mark, Action)}
    return found


def _plain(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint without Annotated, and its markers."""
    return (hint.__origin__, hint.__metadata__) if hasattr(hint, "__metadata__") else (hint, ())


def kinds_of(kind: Any) -> list[Any]:
    """The members of a union, or the kind alone."""
    union = typing.get_origin(kind) in (types.UnionType, typing.Union)
    return list(typing.get_args(kind)) if union else [kind]


def texts_of(group: type) -> dict[str, str]:
    """The text below each field of a dataclass."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(group)))
    (body,) = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)][:1]
    texts = {}
    for field, below in itertools.pairwise(body):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        match below:
            case ast.Expr(value=ast.Constant(value=str(text))) if named:
                texts[field.target.id] = " ".join(text.split())  # type: ignore[union-attr]
    return texts


# --- words ---------------------------------------------------------------------------------------


def filled(command: type, words: Sequence[str]) -> Any:
    """The dataclass with what the words say; UsageError where they cannot be."""
    options = options_of(command)
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for option in options:
        parser.add_argument(*_argument(option), **_settings(option))
    known = [flag for option in options for flag in _all_flags(option)]
    given = parser.parse_intermixed_args(list(_checked(words, known)))
    values = {option.path: _value(option, vars(given)) for option in options}
    missing = [each.name for each in options if each.required and values[each.path] is MISSING]
    if missing:
        raise UsageError(f"{' and '.join(missing)} must be given")
    return _built(command, (), values)


def _checked(words: Sequence[str], known: list[str]) -> Iterator[str]:
    """The words with options as they are called here; UsageError for an unknown one."""
    for word in words:
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or flag == "--":
            yield word
            continue
        flag = flag.replace("_", "-")
        if flag not in known:
            close = difflib.get_close_matches(flag, known, 1)
            raise UsageError(f"unknown option {flag}" + (f"; use {close[0]}" if close else ""))
        yield f"{flag}{equals}{value}"


def _all_flags(option: Option) -> list[str]:
    no = [f"--no-{flag[2:]}" for flag in option.flags if option.kind is bool and flag[:2] == "--"]
    return [*option.flags, *no]


def _argument(option: Option) -> list[str]:
    return list(option.flags) or [".".join(option.path)]


def _settings(option: Option) -> dict[str, Any]:
    """How argparse is to read an option. What has to be given is looked at afterwards."""
    if option.kind is bool:
        return {"action": argparse.BooleanOptionalAction, "dest": ".".join(option.path)}
    settings: dict[str, Any] = {"type": _reader(option)}
    if option.flags:
        settings["dest"] = ".".join(option.path)
    if option.many:
        return settings | {"nargs": "*"}
    return settings if option.flags else settings | {"nargs": "?", "default": None}


def _value(option: Option, given: dict[str, Any]) -> Any:
    """What was given; MISSING where nothing was."""
    found = given.get(".".join(option.path), argparse.SUPPRESS)
    if found in (argparse.SUPPRESS, None, []):  # argparse has several words for nothing
        return MISSING
    return tuple(found) if option.many else found


def _reader(option: Option) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        for kind in kinds_of(option.kind):
            if typing.get_origin(kind) is Literal:
                if text in typing.get_args(kind):
                    return text
            elif kind is not type(None):
                try:
                    return kind(text)
                except ValueError:
                    continue
        raise argparse.ArgumentTypeError(f"{option.name} {text!r} {refusal(option.kind)}")

    return read


def refusal(kind: Any) -> str:
    """What is said of a value that is none of this kind.

    >>> refusal(int | Literal["all"])
    'is not a whole number; use one, or all'
    """
    words: list[str] = []
    choices: list[str] = []
    for each in kinds_of(kind):
        if typing.get_origin(each) is Literal:
            choices += typing.get_args(each)
        elif each in _WANTED:
            words.append(_WANTED[each])
    if words:
        return f"is not {words[0]}" + (f"; use one, or {' or '.join(choices)}" if choices else "")
    return f"is unknown; use {' or '.join(choices)}"


def _built(group: type, path: tuple[str, ...], values: dict[tuple[str, ...], Any]) -> Any:
    kinds = typing.get_type_hints(group, include_extras=True)
    given = {}
    for field in dataclasses.fields(group):
        here = (*path, field.name)
        inside = {at: each for at, each in values.items() if at[: len(here)] == here}
        if all(each is MISSING for each in inside.values()):
            continue
        kind, _ = _plain(kinds[field.name])
        given[field.name] = values[here] if here in values else _built(kind, here, values)
    try:
        return group(**given)
    except ValueError as error:
        raise UsageError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    """One that raises UsageError and prints nothing."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: "):
            raise UsageError(f"too many arguments: {message.partition(': ')[2]}")
        name, _, what = message.removeprefix("argument ").partition(": ")
        if what.startswith("expected "):
            raise UsageError(f"{name.split('/')[-1]} has no value")
        raise UsageError(what or message)
