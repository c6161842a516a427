"""What the site reads from the code when it is built: nothing on these pages is copied by hand.

maxk-api MODULE       every public name of a module, from its docstrings
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
import itertools
import os
import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from maxk.cli import COMMANDS, main
from maxk.config import LimitsTable, MethodTable, RewardTable, TrainConfig
from maxk.data import DATASETS
from maxk.estimators import METHODS, MethodSettings
from maxk.store import codec
from maxk.store.schemas import FILES, METRICS, TABLES
from maxk.verify import Limits, VerifierSettings


class FromCode(SphinxDirective):
    """A directive whose content is Markdown that is made when the site is built."""

    has_content = False

    def markdown(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the code may have changed where the page has not
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(headings), *map(list, rows)]
    text = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    text.insert(1, "|---" * len(lines[0]) + "|")
    return "\n".join(text)


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean, which fit a narrow page where a table does not."""
    text = "\n\n".join(f"{term}\n: {meaning}" for term, meaning in rows)
    return f"::::{{div}} keys\n{text}\n::::"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- API -----------------------------------------------------------------------------------------


class Api(FromCode):
    """A module, and its public names or those that are asked for."""

    required_arguments = 1
    optional_arguments = 1
    final_argument_whitespace = True

    def markdown(self) -> str:
        name, *asked = " ".join(self.arguments).split()
        # What is installed is imported as it is: TRL asks which versions there are of the others.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        with mock(self.config.autodoc_mock_imports):
            module = importlib.import_module(name)
        names = asked or sorted(public(module), key=lambda each: kind_of(getattr(module, each)))
        told = [described(module, each) for each in names]
        return rst("\n".join([f".. automodule:: {name}", "", *told]))


def public(module: ModuleType) -> list[str]:
    """`__all__`, or what is defined here and has no underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (each for each in vars(module).items() if not each[0].startswith("_"))
    return [name for name, value in own if getattr(value, "__module__", "") == module.__name__]


def kind_of(value: Any) -> int:
    """Functions first, then classes, then the rest."""
    return 0 if inspect.isfunction(value) else 1 if inspect.isclass(value) else 2


def described(module: ModuleType, name: str) -> str:
    """The directive of autodoc for a name. What another page describes is a link to it."""
    value, full = getattr(module, name), f"{module.__name__}.{name}"
    if (home := home_of(module, value)) != module.__name__:
        return f".. py:data:: {full}\n   :no-index:\n\n   `{home}.{name}`.\n"
    if inspect.ismodule(value):
        return ""
    if inspect.isclass(value):
        bases = "" if value.__bases__ == (object,) else "   :show-inheritance:\n"
        return f".. autoclass:: {full}\n   :members:\n{bases}"
    if inspect.isfunction(value):
        return f".. autofunction:: {full}\n"
    if isinstance(value, dict):
        return f".. py:data:: {full}\n\n   A dict with the keys {listed(value)}.\n"
    return f".. py:data:: {full}\n\n   ``{shown(value)}``\n"


def home_of(module: ModuleType, value: Any) -> str:
    """The module on whose page a value is described: for data and metrics not the one that asks."""
    written = getattr(value, "__module__", "") or ""
    homes = [home for home in ("maxk.records", "maxk.estimators") if written.startswith(home)]
    return homes[0] if homes and not module.__name__.startswith(homes[0]) else module.__name__


def listed(values: Iterable[Any]) -> str:
    return ", ".join(f"``{each}``" for each in values)


def shown(value: Any) -> str:
    return str(value).replace("typing.", "").replace("NoneType", "None")


_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
_PLURAL = re.compile(r"(`[\w.]+`)(\w)")  # "`Problem`s"


def mended(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """A docstring as reStructuredText: indented blocks are literal, arguments stand out."""
    try:
        arguments = [*inspect.signature(value).parameters] if callable(value) else []
    except (TypeError, ValueError):
        arguments = []
    named = re.compile(rf"(^|(?<=[.;:] ))({'|'.join(arguments) or '$.'}):(?= )")
    out: list[str] = []
    for paragraph in paragraphs(lines):
        if indented(paragraph):
            out += ["::", "", *paragraph]
        elif paragraph[0].startswith((">>>", "..")):
            out += paragraph
        else:
            plain = (_PLURAL.sub(r"\1\\ \2", line.replace("|", r"\|")) for line in paragraph)
            plain = (_PAGE.sub(page_link, line) for line in plain)
            out += [named.sub(r"\1**\2**:", line) for line in plain]
        out.append("")
    lines[:] = out + (helped(value) if what == "class" else [])


def page_link(found: re.Match[str]) -> str:
    """A page that a docstring names by its file."""
    there = (Path(__file__).parent / f"{found[1]}.md").exists()
    return f":doc:`/{found[1]}`" if there else found[0]


def shortened(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: Any, returned: Any
) -> tuple[str, Any] | None:
    """No signature where it is a page long (TRL's settings), or none that Sphinx can read."""
    given = signature or ""
    return ("", returned) if len(given) > 2000 or "Callable[[...]" in given else None


def helped(kind: Any) -> list[str]:
    """The fields that a dataclass adds to its base, with the help that they carry."""
    own = vars(kind).get("__annotations__", {}) if inspect.isclass(kind) else {}
    fields = getattr(kind, "__dataclass_fields__", {})
    given = [(each, fields[each]) for each in own if each in fields]
    lines = []
    for name, field in given:
        if "help" in field.metadata:
            told = field.metadata["help"].replace("|", r"\|")
            lines += [f"``{name}`` = ``{field.default!r}``", f"   {told}", ""]
    return lines


def paragraphs(lines: list[str]) -> list[list[str]]:
    """What blank lines separate; indented paragraphs in a row are one."""
    found: list[list[str]] = []
    for blank, group in itertools.groupby(lines, lambda line: not line.strip()):
        if blank:
            continue
        part = list(group)
        if found and indented(part) and indented(found[-1]):
            found[-1] += ["", *part]
        else:
            found.append(part)
    return found


def indented(paragraph: list[str]) -> bool:
    return paragraph[0].startswith("    ")


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


def rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


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
        "maxk-api": Api,
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
    app.connect("autodoc-process-docstring", mended)
    app.connect("autodoc-process-signature", shortened)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
