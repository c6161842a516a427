"""`maxk train --keys`: the keys of a configuration file, with their defaults."""

import textwrap
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from maxk.config import TrainConfig
from maxk.estimators.settings import FACTS

_TABLES = {
    "run": "where the run goes",
    "model": "what is trained",
    "data": "the problems",
    "reward": "how a program is judged",
    "method": "how rewards become advantages",
    "lora": "train an adapter alone; the keys are those of peft's LoraConfig",
    "trl": "all else: the keys of trl.GRPOConfig, such as trl.max_steps",
}


def keys_text() -> str:
    """One line a key: name, type, default."""
    lines = []
    for name, field in TrainConfig.model_fields.items():
        table = field.annotation
        if isinstance(table, type) and issubclass(table, BaseModel):
            lines += ["", f"[{name}]  {_TABLES[name]}", *keys_of(table, name)]
        else:
            lines += ["", f"[{name}]  {_TABLES[name]}"]
    lines += ["", textwrap.fill(f"method.name is one of {', '.join(FACTS)}.", 80)]
    return "\n".join(lines).strip()


def keys_of(table: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in table.model_fields.items():
        key, kind = f"{path}.{name}", field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, key)
            continue
        default = field.get_default(call_default_factory=True)
        nothing = default is None or default == {}
        told = "" if nothing else f" = {default}"
        needed = "  (required)" if default is PydanticUndefined else told
        meaning = f"  {' '.join(field.description.split())}" if field.description else ""
        yield f"  {key}  {kind_of(kind)}{needed}{meaning}"


def kind_of(kind: Any) -> str:
    """
    >>> kind_of(Literal["a", "b"]), kind_of(int | None)
    ('a|b', 'whole number')
    """
    if typing.get_origin(kind) is Literal:
        return "|".join(typing.get_args(kind))
    if typing.get_origin(kind) in (list, dict, tuple):
        words = {list: "list", dict: "table", tuple: "list"}
        return words[typing.get_origin(kind)]
    plain = {int: "whole number", float: "number", bool: "true|false", str: "text"}
    members = [each for each in typing.get_args(kind) if each is not type(None)]
    return " or ".join(map(kind_of, members)) if members else plain.get(kind, "path")
