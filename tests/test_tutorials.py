"""The tutorials work as printed: every block runs, and prints what the page shows.

Trainings make fewer steps than on the page. Numbers are compared where no model had a part in them.
"""

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from maxk.data import load
from maxk.records import Completion
from maxk.sample import Sampling, sample
from maxk.store.run import Run
from maxk.verify import VerifierSettings
from tests.pages import ROOT, Reader, missing

FOLDER = "docs/tutorials"
pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def short(command: str) -> str:
    return f"{command} --trl.max_steps 1" if command.startswith("maxk train") else command


def same_words(language: str, shown: str, seen: str) -> None:
    """Where a command sampled or trained, only what is not a number."""
    assert missing(shown, seen, numbers=language == "python") == [], seen


def same(language: str, shown: str, seen: str) -> None:
    assert missing(shown, seen) == [], seen


class Drawn:
    """Stands for the models of the demo: a problem's reference, or a program that fails."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.right = {problem.id: problem.reference for problem in load("pocket", "test")}

    def sample(self, requests, settings):
        for request in requests:
            for i in request.samples:
                text = self.right[request.problem] if self.draw.random() < 0.5 else "print(1)"
                yield Completion(request.problem, i, str(text), tokens=9, finish="stop")


def test_the_first_run():
    problems, n, settings = load("pocket", "test")[:5], 8, Sampling()
    for seed, name in enumerate(("base", "grpo", "maxk")):
        data = {"name": "pocket", "split": "test", "limit": len(problems)}
        about = {"model": name, "backend": "none", "n": n, "data": data}
        run = Run.start(f"out/demo/{name}", "sample", {**about, "settings": asdict(settings)})
        sample(problems, Drawn(seed), run, n, settings, grading=VerifierSettings(workers=2))
    Reader().read(f"{FOLDER}/first-run.md", same_words)
    assert Path("out/demo/report.html").stat().st_size > 10_000


def test_the_demo_makes_the_folders_that_the_first_run_reads():
    demo = (ROOT / "examples/demo.py").read_text()
    assert all(f'"{name}"' in demo for name in ("base", "grpo", "maxk"))
    assert "train-" in demo
    assert "report.html" in demo


def test_a_reward(monkeypatch):
    from maxk.train import MaxKConfig

    def config(**given: Any) -> MaxKConfig:
        assert given["max_steps"] // given["logging_steps"] == 4  # lines that the page shows
        few = {"max_steps": 4, "logging_steps": 1, "per_device_train_batch_size": 8}
        return MaxKConfig(**(given | few))

    monkeypatch.setattr("maxk.train.MaxKConfig", config)
    reader = Reader()
    reader.read(f"{FOLDER}/reward.md", same_words)
    trainer = reader.names["trainer"]
    assert trainer.state.global_step == 4
    assert "rewards/short_and_right/mean" in trainer.state.log_history[0]


def test_problems():
    Reader(short).read(f"{FOLDER}/problems.md", same_words)
    assert Path("runs/mine/model").is_dir()


def test_a_curve():
    Reader().read(f"{FOLDER}/curve.md", same)


def test_the_index_lists_every_page():
    for folder in (FOLDER, "docs/how-to"):
        index = (ROOT / folder / "index.md").read_text()
        pages = {path.stem for path in (ROOT / folder).glob("*.md")} - {"index"}
        toctree = index.split("```{toctree}")[1].replace(":hidden:", "")
        assert set(toctree.replace("```", "").split()) == pages
        assert all(f"({page}.md)" in index for page in pages)


def test_an_output_that_is_not_printed_is_found():
    with pytest.raises(AssertionError):
        same("sh", "mean reward 0.203\n", "mean reward 0.204\n")
    with pytest.raises(AssertionError):
        same_words("sh", "192 completions of\n", "64 completions in\n")
    same_words("sh", "192 completions in\n", "64 completions in\n")
