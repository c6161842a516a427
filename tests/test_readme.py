"""The README's code runs, and shows what its comments say."""

import ast
import re
from pathlib import Path

import pytest

import maxk

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS)
def test_python_blocks_run_and_results_in_comments_are_true(code):
    names: dict = {}
    exec(code, names)
    for line in code.splitlines():
        call, _, shown = line.partition("  # ")
        if call.startswith("maxk."):
            got = eval(call, names)
            assert flat(got) == pytest.approx(flat(ast.literal_eval(shown)), abs=1e-3)


def flat(x) -> list[float]:
    return [y for part in x for y in flat(part)] if isinstance(x, list) else [x]


def test_the_readme_has_its_four_blocks():
    assert len(BLOCKS) == 4


def test_every_method_is_in_the_readme_and_in_the_paper_map():
    readme, papers = ((ROOT / f).read_text() for f in ("README.md", "docs/papers.md"))
    for name in maxk.estimators.METHODS:
        assert f"`{name}`" in readme
        assert name in papers


def test_the_tree_has_every_file_of_the_package_and_no_other():
    text = (ROOT / "README.md").read_text()
    tree = text[text.index("src/maxk/\n") : text.index("examples/\n")]
    named = set(re.findall(r"^ +([\w.]+\.(?:py|jsonl|json)) ", tree, re.MULTILINE))
    there = {
        path.name
        for path in (ROOT / "src" / "maxk").rglob("*")
        if path.suffix in (".py", ".jsonl", ".json") and path.name != "__init__.py"
    }
    assert named - {"__init__.py"} == there
