"""Values of the command line in the types of TRL's fields: a word is no truth value.

A TOML file has types, and a command line has words: `--trl.bf16 False`, `--trl.epsilon .3` and
`--trl.delta None` are no TOML.
"""

import types
import typing
from collections.abc import Mapping
from typing import Any

from maxk.config import ConfigError

_TRUTH = {"true": True, "false": False}
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def typed(given: Mapping[str, Any], config: type) -> dict[str, Any]:
    """The keys of [trl], each as its field of the configuration wants it.

    Raises ConfigError for a value that its field cannot have.
    """
    types_of = typing.get_type_hints(config)
    return {name: as_kind(name, value, kinds_of(types_of[name])) for name, value in given.items()}


def kinds_of(hint: Any) -> set[Any]:
    """The types of a union; of `dict[str, Any]` the plain `dict`.

    >>> kinds_of(dict[str, int] | None) == {dict, types.NoneType}
    True
    """
    members = typing.get_args(hint) if is_union(hint) else (hint,)
    inner = (kinds_of(each) if is_union(each) else {each} for each in members)
    return {typing.get_origin(kind) or kind for kind in set().union(*inner)}


def is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def as_kind(name: str, value: Any, kinds: set[Any]) -> Any:
    """A value as one of some types.

    >>> as_kind("bf16", "no", {str}), as_kind("delta", ".04", {float}), as_kind("seed", 7, {int})
    ('no', 0.04, 7)
    """
    plain = kinds & _NAMES.keys()
    if kinds - plain - {types.NoneType, dict, list}:  # names of optimisers and the like
        return value
    if isinstance(value, str):
        if value == "None" and types.NoneType in kinds:
            return None
        if str in kinds:  # `report_to` has a "none" of its own
            return value
        found = read(value, plain)
    else:
        fits = isinstance(value, tuple(kinds)) and not (
            isinstance(value, bool) and bool not in kinds
        )
        whole = isinstance(value, int) and not isinstance(value, bool) and float in kinds
        found = (value,) if fits or whole else ()
    if not found:
        words = [_NAMES[kind] for kind in _NAMES if kind in plain]
        words += [{dict: "a table", list: "a list"}[kind] for kind in (dict, list) if kind in kinds]
        raise ConfigError(f"trl.{name}={value!r} is not {' or '.join(words)}")
    return found[0]


def read(text: str, kinds: set[Any]) -> tuple[Any, ...]:
    """The value that a text is of the first of the types that fits; empty if none does."""
    if bool in kinds and text.lower() in _TRUTH:
        return (_TRUTH[text.lower()],)
    for kind in (int, float):
        if kind in kinds:
            try:
                return (kind(text),)
            except ValueError:
                continue
    return ()
