"""What the site reads from the code when it is built: nothing on these pages is copied by hand.

maxk-help             what `maxk --help` prints
maxk-cli              every command, from its own --help
maxk-configuration    every key of a configuration, from its pydantic models
maxk-methods          the table of methods
maxk-formulas         the formula of each method
maxk-run-files        the files of a run
maxk-metrics          what a training run logs
maxk-table NAME       the columns of a table of a run
maxk-test-fields      the fields of a test in JSON
maxk-data-sets        the data sets
"""

import contextlib
import importlib
import inspect
import io
import os
import re
import typing
from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from site_markdown import FromCode, code, definitions, rst, shown, table
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from maxk.cli import COMMANDS, main
from maxk.config import LimitsTable, MethodTable, RewardTable, TrainConfig
from maxk.data import DATASETS
from maxk.estimators import METHODS, MethodSettings
from maxk.store import codec
from maxk.store.schemas import FILES, METRICS, TABLES
from maxk.verify import Limits, VerifierSettings

# --- commands ------------------------------------------------------------------------------------


class Overview(FromCode):
    def markdown(self) -> str:
        return block(help_of([]))


class Cli(FromCode):
    def markdown(self) -> str:
        parts = []
        for name in COMMANDS:
            parts += [f"## maxk {name}", block(help_of([name]))]
            for action in actions_of(name):
                parts += [f"### maxk {name} {action}", block(help_of([name, action]))]
        return "\n\n".join(parts)


def block(text: str) -> str:
    return f"```text\n{text}\n```"


def help_of(words: list[str]) -> str:
    """What a command says of itself in 80 columns, without the boxes around it."""
    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main([*words, "--help"])
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"maxk {' '.join(words)} --help: {said.getvalue()}") from None
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return "\n".join(unboxed(said.getvalue().strip().splitlines()))


def unboxed(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("╭"):
            yield line.strip("╭╮─ ") + ":"
        elif line.startswith("╰"):
            yield ""
        elif line.startswith("├"):
            yield "  " + "─" * 20
        else:
            yield re.sub(r"^│ ?|\s*│$", "", line) if line.startswith("│") else line.rstrip()


def actions_of(command: str) -> list[str]:
    """The subcommands of a command, such as list and show of `maxk data`."""
    module, _, name = COMMANDS[command].place.partition(":")
    found = getattr(importlib.import_module(module), name)
    action = typing.get_type_hints(found, include_extras=True).get("action")
    notes = (note for each in typing.get_args(action) for note in typing.get_args(each)[1:])
    return [note.name for note in notes if getattr(note, "name", None)]


# --- configuration -------------------------------------------------------------------------------

_SAME = {
    LimitsTable: Limits,
    MethodTable: MethodSettings,
    RewardTable: VerifierSettings,
}  # models that are views of these


class Configuration(FromCode):
    def markdown(self) -> str:
        return "\n\n".join(tables_of(TrainConfig, ""))


def tables_of(model: type[BaseModel], path: str) -> Iterator[str]:
    """The keys of a table of the file, then those of the tables inside it."""
    rows, inner = [], []
    meanings = attribute_docs(_SAME[model]) if model in _SAME else {}
    for key, field in model.model_fields.items():
        kind = field.annotation
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            inner.append((key, kind))
            continue
        optional = field.default is not PydanticUndefined
        default = f" = {code(repr(field.default))}" if optional else ", required"
        same = "method" if model is MethodTable and key == "name" else key
        meaning = field.description or meanings[same]
        rows.append((f"{code(key)} {code(type_of(kind))}{default}", " ".join(meaning.split())))
    title = f"## `[{path}]`" if path else "## Tables at the top"
    if rows:
        yield title
        if path:
            yield (inspect.getdoc(model) or "").partition("\n")[0]
        yield definitions(rows)
    for key, kind in inner:
        yield from tables_of(kind, f"{path}.{key}".strip("."))


def attribute_docs(kind: type) -> dict[str, str]:
    """The text under each field of a class."""
    found = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    return {name: " ".join(text) for (owner, name), text in found.items() if owner == kind.__name__}


def type_of(kind: Any) -> str:
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return " | ".join(type_of(each) for each in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return " | ".join(map(repr, typing.get_args(kind)))
    if kind is NoneType:
        return "None"
    return kind.__name__ if inspect.isclass(kind) and not typing.get_args(kind) else shown(kind)


# --- methods, files, data sets -------------------------------------------------------------------


class Methods(FromCode):
    def markdown(self) -> str:
        rows = [
            (
                f"[`{name}`](#method-{name})",
                each.summary,
                ("k < n" if each.needs_k_below_n else "k <= n") if each.uses_k else "none",
                "off-policy" if each.off_policy else "on-policy",
                each.reference or "maxk",
            )
            for name, each in METHODS.items()
        ]
        return table(("method", "advantage", "k", "samples", "from"), rows)


class Formulas(FromCode):
    def markdown(self) -> str:
        parts = []
        for name, each in METHODS.items():
            docstring = inspect.getdoc(each.function) or ""
            parts += [f"(method-{name})=\n### `{name}`", rst(docstring)]
        return "\n\n".join(parts)


class RunFiles(FromCode):
    def markdown(self) -> str:
        return table(("file or folder", "holds"), ((code(name), FILES[name]) for name in FILES))


class Metrics(FromCode):
    def markdown(self) -> str:
        return table(("metric", "is"), ((code(name), METRICS[name]) for name in METRICS))


class Table(FromCode):
    required_arguments = 1

    def markdown(self) -> str:
        columns = TABLES[self.arguments[0]]
        rows = ((code(each.name), code(str(each.type)), each.meaning) for each in columns)
        return table(("column", "type", "holds"), rows)


class TestFields(FromCode):
    def markdown(self) -> str:
        def types(kind: Any) -> str:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            names = {str: "text", list: "list", bool: "true or false", object: "any value"}
            return names.get(kinds[0], "number")

        rows = []
        for kind, known in codec.FIELDS.items():
            fields = (f"`{name}` ({types(wanted)})" for name, wanted in known.items())
            rows.append((f"a test with `{kind}`", ", ".join(fields)))
        return table(("kind", "fields"), rows)


class DataSets(FromCode):
    def markdown(self) -> str:
        rows = (
            (
                code(each.name),
                each.size,
                ", ".join(map(code, each.splits)),
                each.licence,
                each.hub or "in the package" * (each.made is not None or each.bundled is not None),
                each.citation,
            )
            for each in DATASETS.values()
        )
        return table(("name", "problems", "splits", "licence", "on the hub", "paper"), rows)


def setup(app: Sphinx) -> dict[str, bool]:
    for name, directive in {
        "maxk-help": Overview,
        "maxk-cli": Cli,
        "maxk-configuration": Configuration,
        "maxk-methods": Methods,
        "maxk-formulas": Formulas,
        "maxk-run-files": RunFiles,
        "maxk-metrics": Metrics,
        "maxk-table": Table,
        "maxk-test-fields": TestFields,
        "maxk-data-sets": DataSets,
    }.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
