"""The README's code runs and gives what its comments say; the page stays one page."""

import ast
import re
from pathlib import Path

import pytest

import maxk

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


TRL, LOOP, METRICS, JUDGE = BLOCKS


@pytest.mark.parametrize("code", [LOOP, METRICS, JUDGE])
def test_python_blocks_run_and_results_in_comments_are_true(code):
    names: dict = {}
    exec(code, names)
    for expression, shown in results(code):
        assert flat(eval(expression, names)) == pytest.approx(flat(shown), abs=1e-3)


def results(code: str) -> list[tuple[str, object]]:
    """The lines that are an expression with a literal as their comment: `f(x)  # 0.5`."""
    found = []
    for statement in ast.parse(code).body:
        line = code.splitlines()[statement.lineno - 1]
        expression, _, comment = line.partition("  # ")
        if isinstance(statement, ast.Expr) and comment:
            found.append((expression, ast.literal_eval(comment)))
    return found


def flat(x) -> list[float]:
    return [y for part in x for y in flat(part)] if isinstance(x, list) else [x]


def test_the_readme_shows_results_of_metrics_and_the_verifier():
    assert [len(results(code)) for code in BLOCKS] == [0, 0, 2, 1]


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
def test_the_script_for_trl_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert TRL.count("max_steps=20") == TRL.count("per_device_train_batch_size=32") == 1
    shorter = TRL.replace("max_steps=20", "max_steps=1, report_to=[]")
    names: dict = {}
    exec(shorter.replace("train_batch_size=32", "train_batch_size=8"), names)
    assert (tmp_path / "out" / "trl").is_dir()
    assert sum(line.count(".train()") for line in TRL.splitlines()) == 1


def test_the_loop_of_the_readme_raises_the_log_probability_of_the_better_samples():
    names: dict = {}
    exec(LOOP, names)
    names["loss"].backward()
    uphill = -names["logps"].grad
    rewards = names["rewards"]
    best, worst = rewards.argmax(-1, keepdim=True), rewards.argmin(-1, keepdim=True)
    assert (uphill.gather(-1, best) > 0).all()
    assert (uphill.gather(-1, worst) < 0).all()


def test_every_method_is_in_the_readme_and_in_the_paper_map():
    readme, papers = ((ROOT / f).read_text() for f in ("README.md", "docs/reference/papers.md"))
    for name in maxk.estimators.METHODS:
        assert f"`{name}`" in readme
        assert name in papers


def test_the_readme_stays_one_page():
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 900
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) <= 500
    assert len((ROOT / "docs" / "architecture.md").read_text().split()) <= 800


def test_contributing_names_every_room_of_the_package_and_no_other():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("## The rooms") : text.index("## Where")]
    named = set(re.findall(r"^\| `([\w/.]+)`", table, re.MULTILINE))
    package = ROOT / "src" / "maxk"
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in package.iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    }
    assert named == there
