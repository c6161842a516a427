"""Whatever the README and the pages for users name exists: links, commands, names, files, targets.

The archive is a log in older words, so there only the links are followed. What the site makes when
it is built is tested by `test_site.py`.
"""

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import itertools
import re
import runpy
import shlex
import tarfile
import tomllib
import typing
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from pydantic import BaseModel

from maxk.cli import COMMANDS, parsed
from maxk.config import TrainConfig
from maxk.estimators import MethodSettings
from maxk.store.schemas import METRICS
from maxk.verify import Limits, VerifierSettings
from tests.test_readme import flat, results

ROOT = Path(__file__).parent.parent
PATTERNS = ("*.md", "docs/**/*.md", "experiments/*.md", "experiments/*/*.md")
FOUND = sorted(
    path.relative_to(ROOT).as_posix() for pattern in PATTERNS for path in ROOT.glob(pattern)
)
# The protocol may not be changed but for its deviations, which say where its results went.
MOVED = {"experiments/registered/PROTOCOL.md": {"experiments/grid/results/"}}
LOGS = [page for page in FOUND if page.startswith("experiments/archive/")]
PAGES = [page for page in FOUND if page not in LOGS]
SITE = [page for page in PAGES if page.startswith("docs/")]
CURRENT = [page for page in PAGES if page != "CHANGELOG.md"]  # which names what is no more

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"^```\{include\} (\S+)", re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
TERM = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+?)>?`")
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


MADE = {"docs/reference/cli.md": [f"maxk {name}" for name in COMMANDS]}  # when the site is built


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = page.read_text()
    text += "".join((page.parent / included).read_text() for included in INCLUDED.findall(text))
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    headings += next((each for made, each in MADE.items() if page.resolve() == ROOT / made), [])
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
    opened = [block.partition("\n") for block in FENCED.findall(text)]
    blocks = [body for first, _, body in opened if first in ("```", "```sh")]
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
        source = (ROOT / "src/maxk/train/__init__.py").read_text()
        named = dotted.split(".")[2:3]
        return None if set(named) <= set(re.findall(r'"(\w+)"', source)) else dotted
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
    gone = MOVED.get(page, set())
    assert sorted(path for path in paths if not (ROOT / path).exists()) == sorted(gone & paths)


@pytest.mark.parametrize("page", CURRENT)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(TARGET.findall(code_of(text_of(page))))
    assert sorted(named - targets) == []


def listed(page: str) -> set[str]:
    """The pages that the tables of contents of a page name, by name or by a glob."""
    folder = (ROOT / page).parent
    lines = [line for block in TOCTREE.findall(text_of(page)) for line in block.splitlines()]
    names = [line for line in lines if line and not line.startswith(":")]
    return {
        path.relative_to(ROOT).as_posix() for name in names for path in folder.glob(f"{name}.md")
    }


def test_every_page_of_the_site_is_in_its_table_of_contents():
    reached, new = set(), {"docs/index.md"}
    while new:
        reached |= new
        new = set().union(*(listed(page) for page in new)) - reached
    assert sorted(set(SITE) - reached) == []


@pytest.mark.parametrize("page", SITE)
def test_a_page_of_the_site_begins_with_what_the_reader_can_do_after_it(page):
    title, _, rest = text_of(page).partition("\n")
    assert title.startswith("# ")
    assert re.match(r"After (this|each) page ", rest.strip())


def test_terms_are_in_the_glossary():
    glossary = re.findall(r"^(\S.*)\n  \S", text_of("docs/glossary.md"), re.MULTILINE)
    known = {term.lower() for term in glossary}
    used = {(page, term.lower()) for page in SITE for term in TERM.findall(text_of(page))}
    assert len(known) > 40  # or the glossary is read wrong
    assert len(used) > 20
    assert sorted(each for each in used if each[1] not in known) == []


# Those of the README and the tutorials have tests of their own.
WITH_PYTHON = [
    page
    for page in SITE
    if page.startswith(("docs/index", "docs/explanation", "docs/reference"))
    and PYTHON.search(text_of(page))
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_of_a_page_runs_and_results_in_comments_are_true(page):
    for code in PYTHON.findall(text_of(page)):
        names: dict[str, Any] = {}
        exec(code, names)
        for expression, shown in results(code):
            assert flat(eval(expression, names)) == pytest.approx(flat(shown), abs=1e-3)


def models_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """A model of the configuration and those inside it."""
    kinds = (field.annotation for field in model.model_fields.values())
    inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return [model, *(each for kind in inner for each in models_of(kind))]


def documented(kind: type) -> set[str]:
    """The fields of a dataclass that have a text under them."""
    [body] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    pairs = itertools.pairwise(body.body)
    return {
        field.target.id
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
    }


def test_every_key_of_a_configuration_has_a_meaning():
    views = {"method": MethodSettings, "limits": Limits, "reward": VerifierSettings}
    known = {name for kind in views.values() for name in documented(kind)} | {"name"}
    inner = [model for model in models_of(TrainConfig) if model is not TrainConfig]
    assert len(inner) == 6
    said = [(model, key, field) for model in inner for key, field in model.model_fields.items()]
    own = [
        key for model, key, field in said if not (field.description or key in known or key in views)
    ]
    assert own == []
    fields = {field.name for kind in views.values() for field in dataclasses.fields(kind)}
    assert sorted(fields - known - {"limits"}) == []


def test_the_metrics_that_the_site_lists_are_those_that_are_logged():
    """By the source, since importing the trainer takes as long as all tests of this file."""
    source = "".join(path.read_text() for path in (ROOT / "src/maxk/train").glob("*.py"))
    logged = set(re.findall(r'note\(f?"((?:[\w/-]|\{[^}]*\})+)"', source))
    logged |= set(re.findall(r'f?"([a-z_]+/[\w{}]+)": ', source))
    shapes = {re.sub(r"\{[^}]*\}", ".+", name) for name in logged}
    assert len(shapes) > 8
    assert sorted(s for s in shapes if not any(re.fullmatch(s, each) for each in METRICS)) == []
    assert [name for name in METRICS if not any(re.fullmatch(s, name) for s in shapes)] == []


@pytest.mark.parametrize(
    ("builder", "most", "tops"),
    [
        (SdistBuilder, 4.0, {"src", "configs", "examples"}),
        (WheelBuilder, 3.0, {"maxk"}),
    ],
)
def test_a_distribution_is_small_and_holds_the_package_alone(builder, most, tops, tmp_path):
    (made,) = builder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    assert Path(made).stat().st_size <= most * 2**20
    if made.endswith(".whl"):
        with zipfile.ZipFile(made) as archive:
            names = archive.namelist()
    else:
        with tarfile.open(made) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
    assert any(name.endswith("maxk/cli/__init__.py") for name in names)
    assert any(name.endswith("maxk/pocket/weights/model.safetensors") for name in names)
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == tops


def test_the_page_of_results_stays_short():
    assert len(text_of("docs/results/index.md").split()) <= 3000


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
