"""The how-to pages: their Python blocks run, their configurations are taken, their form is one.

tests/test_docs.py reads their commands, tests/test_integrations.py runs the snippets for other
trainers, and tests/integrations/test_snippet.py the command of verl.
"""

import io
import json
import sys
import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from maxk.config import read_config
from maxk.data import DATASETS, load
from maxk.estimators import FACTS, METHODS
from tests.pages import ROOT, Reader, blocks, missing

FOLDER = "docs/how-to"
PAGES = sorted(
    f"{FOLDER}/{path.name}" for path in (ROOT / FOLDER).glob("*.md") if path.stem != "index"
)
TUTORIALS = [f"docs/tutorials/{page}.md" for page in ("first-run", "reward", "problems", "curve")]
RUN = ["choose-k", "evaluate-compare", "new-back-end", "new-data-set"]
RUN += ["new-objective", "stale-samples"]  # pages that need nothing; two more have their own tests
ELSEWHERE = {f"{FOLDER}/other-trainers.md"}  # tests/test_integrations.py


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def tables():
    """Pages add to the tables of methods and data sets."""
    known: list[dict[str, Any]] = [FACTS, METHODS, DATASETS]
    before = [(table, dict(table)) for table in known]
    yield
    for table, entries in before:
        table.clear()
        table.update(entries)


def python_alone(command: str) -> str:
    """The commands of these pages are read by tests/test_docs.py."""
    return "true"


def same(language: str, shown: str, seen: str) -> None:
    assert missing(shown, seen) == [], seen


@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run_and_print_what_is_shown(page):
    Reader(python_alone).read(f"{FOLDER}/{page}.md", same)


def test_results_of_other_tools(monkeypatch):
    with open("samples.jsonl", "w") as file:
        for problem in load("starter", "all")[:2]:
            print(json.dumps({"problem": problem.id, "program": problem.reference}), file=file)
            print(json.dumps({"problem": problem.id, "program": "1 / 0"}), file=file)
    monkeypatch.setattr(sys, "argv", ["rename.py", "mbpp-plus"])
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"task_id": "Mbpp/2", "solution": "x = 1"}\n'))
    reader = Reader()
    reader.read(f"{FOLDER}/import-results.md", same)
    by_problem = {name: sorted(rewards) for name, rewards in reader.names["rewards"].items()}
    assert by_problem == {"starter/001": [0.0, 1.0], "starter/002": [0.0, 1.0]}


def test_renamed_rows_are_rows_that_verify_reads(monkeypatch, capsys):
    (renamer, *_) = blocks(f"{FOLDER}/import-results.md", "python")
    monkeypatch.setattr(sys, "argv", ["rename.py", "mbpp-plus"])
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"task_id": "Mbpp/2", "solution": "x = 1"}\n'))
    exec(renamer, {})
    assert json.loads(capsys.readouterr().out) == {"problem": "mbpp-plus/2", "program": "x = 1"}


class Asker:
    """A client of the service."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def __call__(self, body: object) -> dict:
        with urllib.request.urlopen(self.url, json.dumps(body).encode(), timeout=60) as answer:
            return json.load(answer)

    def refusal(self, body: object) -> int:
        with pytest.raises(urllib.error.HTTPError) as caught:
            self(body)
        with caught.value as error:
            return error.code


def test_a_service():
    (code,) = blocks(f"{FOLDER}/judge-service.md", "python")
    names: dict[str, Any] = {"__name__": "service"}
    exec(code, names)
    names["Judge"].log_message = lambda *_: None
    with names["verifier"], ThreadingHTTPServer(("127.0.0.1", 0), names["Judge"]) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            ask = Asker(server.server_address[1])
            tests = [{"input": "3", "output": "6"}, {"input": "4", "output": "9"}]
            doubled = ask({"program": "print(int(input()) * 2)", "tests": tests})
            assert doubled["fraction"] == 0.5
            assert ask({"program": "1 / 0", "tests": tests})["fraction"] == 0
            assert ask.refusal({"program": "1"}) == 400
            assert ask.refusal({"program": "1", "tests": [{"input": 3}]}) == 400
            for _ in range(16):  # a refusal is sent before its place is free
                assert names["room"].acquire(timeout=30)
            assert ask.refusal({"program": "1", "tests": tests}) == 503
            names["room"].release()
            assert ask({"program": "1", "tests": tests})["fraction"] == 0
        finally:
            server.shutdown()


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")])
def test_configurations_are_taken(page):
    from maxk.train.job import trl_config

    for number, block in enumerate(blocks(page, "toml")):
        file = Path(f"{number}.toml")
        file.write_text(block)
        config = read_config(file)
        trl_config(config).method_settings.check(config.trl["num_generations"])


def test_every_page_with_python_is_run():
    here = {f"{FOLDER}/{page}.md" for page in [*RUN, "import-results", "judge-service"]}
    assert {page for page in PAGES if blocks(page, "python")} == here | ELSEWHERE


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS])
def test_a_page_says_first_what_the_reader_can_do_after_it(page):
    title, sentence, *_ = (ROOT / page).read_text().split("\n\n")
    assert title.startswith("# ")
    assert sentence.startswith("After this page you can ")
    assert sentence.count(". ") == 0


@pytest.mark.parametrize("page", PAGES)
def test_then_comes_the_command_or_the_code(page):
    _, _, then, *_ = (ROOT / page).read_text().split("\n\n")
    assert then.startswith(("```sh\n", "```python\n", "On each node, with")), then


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short(page):
    assert 300 <= len((ROOT / page).read_text().split()) <= 600
