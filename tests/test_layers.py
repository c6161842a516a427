"""The house: what may import what, what loads torch, what touches files, and how long a file is.

`lint-imports` (in `make check`) holds the contracts of pyproject.toml. Here: that they refuse what
they should, and what they cannot see.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "maxk"

# Estimators that work on tensors. The metrics, on arrays, and the settings do without.
TENSORS = {
    f"maxk.estimators.{name}"
    for name in (
        *("clipping", "exact", "gradient", "groups", "methods", "ordered", "ranks", "subsets"),
        "tensors",
    )
}
# These rooms load a model, or train one.
WITH_TORCH = {"maxk.train", "maxk.integrations", "maxk.sample", "maxk.merge"}
SCRIPTS = {"maxk.__main__", "maxk.verify.zygote"}

LONGEST = 350
LONGER = {
    "pocket/families/lists.py",  # a table of problems
}


def modules() -> dict[str, Path]:
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def inside(module: str, rooms: set[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def test_contracts_refuse_what_they_are_for(tmp_path):
    """One import against each, in a copy of the package."""
    shutil.copytree(SOURCE, tmp_path / "maxk", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "maxk" / "attic").mkdir()
    (tmp_path / "maxk" / "attic" / "__init__.py").touch()
    for file, line in {
        "records.py": "import maxk.estimators",  # siblings
        "estimators/checks.py": "import maxk.records",
        "estimators/metrics.py": "import scipy",
        "store/run.py": "import maxk.grade",  # upwards
        "verify/wire.py": "import numpy",
        "verify/compare.py": "import maxk.store.run",
        "data/base.py": "import torch",
    }.items():
        with (tmp_path / "maxk" / file).open("a") as end:
            end.write(f"\n\n{line}\n")
    lint = "from importlinter.cli import lint_imports_command as lint; lint()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    for broken in (
        "maxk.attic",
        "maxk.records -> maxk.estimators",
        "maxk.estimators.checks -> maxk.records",
        "maxk.estimators.metrics -> scipy",
        "maxk.store.run -> maxk.grade",
        "maxk.verify.wire -> numpy",
        "maxk.verify.compare -> maxk.store.run",
        "maxk.data.base -> torch",
    ):
        assert broken in said, f"{broken} passed:\n{done.stdout}"


def test_no_room_below_training_and_sampling_loads_torch():
    """When it is imported; a function may load it when it is called."""
    names = [name for name in modules() if not inside(name, TENSORS | WITH_TORCH | SCRIPTS)]
    assert len(names) > 80
    code = f"""
import importlib, sys
for name in {names}:
    importlib.import_module(name)
    loaded = {{"torch", "trl", "transformers"}} & sys.modules.keys()
    assert not loaded, f"{{name}} loads {{loaded}}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_excepted_needs_torch():
    for name in TENSORS | {"maxk.merge"}:
        assert "torch" in imports_of(modules()[name]), f"{name} needs no exception"


def imports_of(file: Path) -> set[str]:
    """The modules that a file asks for, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


FILES = {"maxk.store", "pathlib", "os", "shutil", "glob", "tempfile", "json", "pyarrow"}


def calls_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


@pytest.mark.parametrize("file", sorted((SOURCE / "evaluate").glob("*.py")), ids=lambda f: f.stem)
def test_inside_evaluate_only_the_reader_touches_files(file):
    asked = {name for name in imports_of(file) if inside(name, FILES)}
    opened = [n for n in calls_of(file) if n == "open" or n.startswith(("read_", "write_"))]
    if file.stem == "read":
        assert asked, "the reader of runs reads none: the check is of nothing"
    else:
        assert not asked
        assert not opened


def test_no_file_is_longer_than_a_reader_takes_in_at_once():
    lengths = {
        str(file.relative_to(SOURCE)): len(file.read_text().splitlines())
        for file in modules().values()
    }
    assert {name for name, lines in lengths.items() if lines > LONGEST} == LONGER
