"""Whatever the README and the pages for users name exists: links, commands, names, files, targets.

The archive is a log in older words, so there only the links are followed.
"""

import contextlib
import dataclasses
import importlib
import io
import re
import runpy
import shlex
import tomllib
import typing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from maxk.cli import COMMANDS, parsed
from maxk.estimators import MethodSettings

ROOT = Path(__file__).parent.parent
FOLDERS_OF_PAGES = ("", "docs", "docs/tutorials", "docs/how-to")
FOLDERS_OF_PAGES += ("experiments", "experiments/grid", "experiments/pocket")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS_OF_PAGES
    for path in (ROOT / folder).glob("*.md")
)
LOGS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/archive").glob("*.md"))
CURRENT = [page for page in PAGES if page != "CHANGELOG.md"]  # which names what is no more

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
COMMAND = re.compile(r"(?:^ {4}|^|`|&& |; do )maxk ((?:[a-z-]+)(?: [a-z-]+)?)", re.MULTILINE)
DOTTED = re.compile(r"\bmaxk(?:\.[A-Za-z_]\w*)+")
FOLDERS = "src|tests|docs|examples|benchmarks|experiments|configs"
REPOSITORY_PATH = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w/?")
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)\b")


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def code_of(text: str) -> str:
    """What is set as code: indented lines, fenced blocks, and what stands between backticks."""
    blocks = FENCED.findall(text)
    rest = FENCED.sub("", text)
    lines = re.findall(r"^ {4}.*$", rest, re.MULTILINE)
    return "\n".join([*blocks, *lines, *re.findall(r"`[^`\n]+`", rest)])


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def broken_links(page: str) -> list[str]:
    """The relative links of a page that lead nowhere."""
    broken = []
    for link in LINK.findall(FENCED.sub("", text_of(page))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        lost = anchor and target.suffix == ".md" and anchor not in anchors_of(target)
        if not target.exists() or lost:
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", [*PAGES, *LOGS])
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


@cache
def actions_of(command: str) -> set[str]:
    """The names of a command's own subcommands: list, show, check, verify of `maxk data`."""
    module, _, name = COMMANDS[command].place.partition(":")
    found = getattr(importlib.import_module(module), name)
    action = typing.get_type_hints(found, include_extras=True).get("action")
    notes = [note for each in typing.get_args(action) for note in typing.get_args(each)[1:]]
    return {note.name for note in notes if getattr(note, "name", None)}


def unknown_commands(text: str) -> list[str]:
    """The commands in a text that `maxk` does not have."""
    unknown = []
    for given in COMMAND.findall(code_of(text)):
        name, _, action = given.partition(" ")
        if name not in COMMANDS:
            unknown.append(f"maxk {name}")
        elif action and actions_of(name) and action not in actions_of(name):
            unknown.append(f"maxk {given}")
    return unknown


@pytest.mark.parametrize("page", CURRENT)
def test_commands_exist(page):
    assert unknown_commands(text_of(page)) == []


def command_lines(text: str) -> list[str]:
    """Whole calls of `maxk` in indented lines and blocks of shell, without their comments."""
    fenced = (block.partition("\n") for block in FENCED.findall(text))
    blocks = [code for mark, _, code in fenced if mark in ("```", "```sh")]
    lines = "\n".join([*blocks, *re.findall(r"^ {4}(.*)$", FENCED.sub("", text), re.MULTILINE)])
    calls = [part for line in lines.splitlines() for part in re.split(r"&&|; do |; done|;", line)]
    calls = [re.sub(r"(^| )#.*", "", call).strip() for call in calls]
    return [call for call in calls if re.match(r"maxk [a-z]", call)]


def refusal(call: str) -> str:
    """What the command says of these arguments; nothing if it takes them."""
    _, name, *arguments = shlex.split(call.replace("$T", "1"))
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parsed(name, arguments)
        except SystemExit:
            return f"{call}: {said.getvalue()}"
    return ""


@pytest.mark.parametrize("page", CURRENT)
def test_calls_of_the_command_are_taken(page):
    assert [each for call in command_lines(text_of(page)) if (each := refusal(call))] == []


@cache
def missing(dotted: str) -> str | None:
    """The first part of a dotted name that is not there; None if all are."""
    if dotted.startswith("maxk.train"):  # importing TRL takes as long as all tests of this file
        folder = ROOT / "src/maxk/train"
        known = set(re.findall(r'"(\w+)"', (folder / "__init__.py").read_text()))
        known |= {path.stem for path in folder.glob("*.py")}
        return None if set(dotted.split(".")[2:3]) <= known else dotted
    at: Any = importlib.import_module("maxk")
    path = "maxk"
    for part in dotted.split(".")[1:]:
        path += f".{part}"
        try:
            at = getattr(at, part)
        except AttributeError:
            try:
                at = importlib.import_module(path)
            except ModuleNotFoundError as error:
                if error.name is not None and not error.name.startswith("maxk"):
                    return None  # a room that needs what is not installed here, such as verl
                return path
    return None


@pytest.mark.parametrize("page", CURRENT)
def test_dotted_names_exist(page):
    names = {name for name in DOTTED.findall(text_of(page)) if name not in TOML_KEYS}
    assert sorted(name for name in names if missing(name)) == []


TOML_KEYS = {"maxk.k", "maxk.masking", "maxk.clamp_delta"}  # of `algorithm.maxk` in verl's table


@pytest.mark.parametrize("page", CURRENT)
def test_paths_of_the_repository_exist(page):
    paths = set(REPOSITORY_PATH.findall(text_of(page)))
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", CURRENT)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(TARGET.findall(code_of(text_of(page))))
    assert sorted(named - targets) == []


def test_every_page_of_docs_is_linked_from_the_readme_or_contributing():
    linked = {
        (ROOT / link.partition("#")[0]).resolve()
        for page in ("README.md", "CONTRIBUTING.md")
        for link in LINK.findall(text_of(page))
    }
    pages = {path.resolve() for path in (ROOT / "docs").glob("*.md")}
    assert sorted(path.name for path in pages - linked) == []


def test_the_settings_of_a_method_are_all_explained():
    names = {field.name for field in dataclasses.fields(MethodSettings)}
    assert sorted(name for name in names if name not in (MethodSettings.__doc__ or "")) == []


def test_the_figure_of_the_architecture_has_the_layers_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (rooms,) = [each for each in contracts["contracts"] if each.get("containers") == ["maxk"]]
    drawn = runpy.run_path(str(ROOT / "examples/architecture.py"))
    assert [set(floor) for floor in drawn["LAYERS"]] == [
        set(floor.split(" | ")) for floor in rooms["layers"]
    ]
    assert (ROOT / "docs/images/architecture.svg").read_text() == drawn["drawing"]()


def test_what_does_not_exist_is_found(tmp_path):
    assert unknown_commands("    maxk solev --n 3\n`maxk runs jion A`\n") == [
        "maxk solev",
        "maxk runs jion",
    ]
    page = "    maxk evaluate runs/a --jsn out.json    # all numbers\n\n```sh\nmaxk doctor\n```\n"
    right, wrong = command_lines(page)
    assert refusal(right) == "" != refusal(wrong)
    assert actions_of("data") == {"list", "show", "check", "verify"}
    assert missing("maxk.estimators.wieghts") == "maxk.estimators.wieghts"
    assert missing("maxk.train.MaxKTrainr") == "maxk.train.MaxKTrainr"
    assert missing("maxk.nonsense.Thing") == "maxk.nonsense"
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, with commas\n[here](#a-title-with-commas) [gone](gone.md) [x](#y)\n"
    )
    assert anchors_of(page) == {"a-title-with-commas"}
    assert broken_links(str(page)) == ["gone.md", "#y"]
