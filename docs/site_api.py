"""The API reference: every public name of a module, from its docstrings (`maxk-api MODULE`)."""

import contextlib
import importlib
import inspect
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from site_markdown import FromCode, rst, shown
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock


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


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("maxk-api", Api)
    app.connect("autodoc-process-docstring", mended)
    app.connect("autodoc-process-signature", shortened)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
