"""Wrong calls: a line of what was wrong, a line of what to do, no traceback, exit code 1 or 2."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from maxk.records import Completion, Problem, StdinTest
from maxk.store.run import Run
from maxk.store.tables import completions_table, write_problems
from tests import command

GOOD = {"id": "a", "statement": "Print it.", "tests": [{"input": "1", "output": "1"}]}
TOML = """
[run]
out = "runs/t"
[model]
name = "pocket"
[data]
name = "pocket"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with what the calls below name: good files, and one for each fault."""
    place = tmp_path_factory.mktemp("calls")
    lines = {
        "good": [GOOD],
        "two": [GOOD, {**GOOD, "id": "b"}],
        "empty-tests": [{**GOOD, "tests": []}],
        "unknown-field": [{**GOOD, "tsets": 1}],
        "same-id": [GOOD, {**GOOD, "statement": "Another."}],
        "no-tests": [{"program": "print(1)"}],
        "no-program": [{"tests": GOOD["tests"]}],
        "rows": [{"program": "print(1)", "tests": GOOD["tests"]}, {"program": 5}],
    }
    for name, rows in lines.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{name}.jsonl").write_text(text)
    (place / "broken.jsonl").write_text('{"id": \n')
    (place / "latin.jsonl").write_bytes(b'{"id": "\xe9"}\n')
    (place / "list.jsonl").write_text("[1]\n")
    (place / "nothing.jsonl").write_text("")
    (place / "text.txt").write_text("hello\n")
    (place / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    (place / "broken.jsonl.gz").write_bytes(b"\x1f\x8b no gzip")
    (place / "empty").mkdir()
    (place / "files").mkdir()
    (place / "files" / "mine.txt").write_text("mine\n")
    (place / "good.toml").write_text(TOML)
    (place / "broken.toml").write_text("[run\n")
    (place / "missing.toml").write_text('[run]\nout = "x"\n')
    (place / "key.toml").write_text(TOML + "[method]\nkk = 3\n")
    (place / "value.toml").write_text(TOML + '[method]\nk = "many"\n')
    (place / "method.toml").write_text(
        TOML + '[method]\nname = "bon-centered"\nclamp_delta = 0.5\n'
    )
    run_of(place / "run", graded=True)
    run_of(place / "other", graded=True, name="starter")
    run_of(place / "raw", graded=False)
    run_of(place / "short", graded=True, n=4)
    Run.start(place / "started", "sample", config(2))
    (place / "no-model").mkdir()
    (place / "no-model" / "config.json").write_text('{"model_type": "llama"}')
    (place / "odd").mkdir()
    (place / "odd" / "config.toml").write_text("x = 1\n")
    return place


def config(n: int, name: str = "jsonl") -> dict:
    settings = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 8, "seed": 0, "chat": True}
    data = {"name": name, "split": "all"}
    return {"model": "m", "backend": "transformers", "n": n, "data": data, "settings": settings}


def run_of(place: Path, *, graded: bool, n: int = 2, name: str = "jsonl") -> None:
    """A run of two samples of one problem; n: how many it was asked for."""
    run = Run.start(place, "sample", config(n, name))
    write_problems(run, [Problem("a", "Print it.", [StdinTest("1", "1")])])
    texts = [Completion("a", i, "print(1)", 3, "stop") for i in range(2)]
    run.write("completions", "000000", completions_table(texts))
    if graded:
        rows = {"problem": ["a", "a"], "sample": np.arange(2, dtype=np.int32)}
        rows |= {"reward": [0.0, 1.0], "passed": [False, True], "status": ["x", "passed"]}
        rows |= {"program": ["print(1)"] * 2, "same_as": [None, 0], "tests": ["{}"] * 2}
        run.write("verdicts", "000000", pa.table(rows))


SAMPLE = "sample --model pocket --data pocket --out new"
SOLVE = "solve --problem starter/133 --model pocket"
USAGE = [  # (call, what is said of it, what to do)
    ("nonsense", "unknown command 'nonsense'", "maxk --help"),
    ("nonsense --help", "unknown command 'nonsense'", "maxk --help"),
    ("evalute run", "unknown command 'evalute'", "did you mean evaluate"),
    ("--nonsense", "unknown command '--nonsense'", "maxk --help"),
    ("train", "FILE must be given", "configs/pocket.toml"),
    ("train a.toml b.toml", "too many arguments: b.toml", "maxk train --help"),
    ("train --key", "unknown option --key", "use --keys"),
    ("merge", "MODELS and --out must be given", "maxk merge --help"),
    ("merge a --out x", "a soup needs two models or more", "given: a"),
    ("merge a b --out x --alpha much", "--alpha 'much' is not a number", "maxk merge --help"),
    ("merge a b --out x --alpha 1 --weights 1", "--alpha and --weights exclude", "leave one out"),
    ("merge a b c --out x --alpha 0.3", "--alpha takes exactly two models", "given: a b c"),
    ("merge a b --out x --weights 1", "--weights has 1 number", "one for each"),
    ("solve", "--problem and --model must be given", "maxk solve --help"),
    ("solve --problem", "--problem has no value", "maxk solve --help"),
    ("solve --problem x --model pocket", "--problem 'x' is neither", "--data"),
    ("solve --problem nonsense/1 --model pocket", "neither the id of a problem", "--data"),
    (f"{SOLVE} --n many", "--n 'many' is not a whole number", "maxk solve --help"),
    (f"{SOLVE} -n 0", "--n 0 is below 1", "use 1 or more"),
    (f"{SOLVE} --temprature 1", "unknown option --temprature", "use --temperature"),
    (f"{SOLVE} --temperature -1", "temperature=-1.0 must be 0 or more", ""),
    (f"{SOLVE} --top-p 2", "top_p=2.0 must be above 0", ""),
    (f"{SOLVE} --max-tokens 0", "max_tokens=0 must be at least 1", ""),
    (f"{SOLVE} --seed x", "--seed 'x' is not a whole number", ""),
    (f"{SOLVE} --limits.cpu-seconds x", "--limits.cpu-seconds 'x' is not a number", ""),
    (f"{SOLVE} --backend gpu", "--backend 'gpu' is unknown", "use auto or vllm"),
    (f"{SOLVE} --backend openai", "--backend openai needs --base-url", "such as http"),
    (f"{SOLVE} --backend vllm --base-url http://x", "goes with --backend openai", ""),
    (f"{SOLVE} --engine fast", "--engine 'fast' is not name=value", "use one such as"),
    (f"{SOLVE} --out no/such/file.py", "the folder no/such is missing", "make it first"),
    (f"{SOLVE} --split dev", "--split 'dev' is unknown", "starter has all"),
    ("sample", "--model and --data and --out must be given", "maxk sample --help"),
    (f"{SAMPLE} -n 0", "--n 0 is below 1", "use 1 or more"),
    (f"{SAMPLE} --limit 0", "--limit 0 is below 1", "use 1 or more"),
    (f"{SAMPLE} --batch 0", "--batch 0 is below 1", "use 1 or more"),
    (f"{SAMPLE} --processes 0", "--processes 0 is below 1", "use 1 or more"),
    (f"{SAMPLE} --isolate all", "--isolate 'all' is unknown", "use program or test"),
    (f"{SAMPLE} --data-options shown", "--data-options 'shown' is not name=value", ""),
    (f"{SAMPLE} --data-options shwn=1", "pocket has no option 'shwn'", "leave it out"),
    ("sample --model pocket --data pockt --out new", "data set 'pockt' is unknown", "use pocket"),
    ("verify", "FILE must be given", "maxk verify --help"),
    ("verify good.jsonl --table x", "--table x is for the folder of a run", "use --out"),
    ("verify run --data mbpp", "--data mbpp is for a file of completions", "leave it out"),
    ("evaluate", "FOLDER must be given", "maxk evaluate --help"),
    ("evaluate run other", "too many arguments: other", "maxk evaluate --help"),
    ("evaluate run --k two", "--k 'two' is not a whole number", "maxk evaluate --help"),
    ("compare", "RUNS must be given", "maxk compare --help"),
    ("compare run --metric best", "--metric 'best' is unknown", "use max or pass"),
    ("compare run run", "two runs are called 'run'", "NAME=FOLDER"),
    ("allocate run", "1 runs are given", "two sampling configurations"),
    ("allocate run raw --out no/order.json", "--out: the folder no is missing", "make it first"),
    ("report run --out no/report.html", "--out: the folder no is missing", "make it first"),
    ("report run --out empty", "--out empty is a folder", "give a file"),
    ("verify rows.jsonl --out no/verdicts.jsonl", "--out: the folder no is missing", "make it"),
    ("report run --samples few", "--samples 'few' is not a whole number", "or all"),
    ("data", "no action is given", "use one of list, show, check, verify"),
    ("data lst", "maxk data has no action 'lst'", "use one of list"),
    ("data list --all", "unknown option --all", "maxk data list --help"),
    ("data show", "NAME and --id must be given", "maxk data show --help"),
    ("data show starter --id 1 --tests -1", "--tests -1 is below 0", "use 0 or more"),
    ("data show nonsense --id 1", "the data set 'nonsense' is unknown", "`maxk data list`"),
    ("data show mbpp --id 1 --split dev", "--split 'dev' is unknown", "mbpp has train"),
    ("data verify starter --workers 0", "--workers 0 is below 1", "use 1 or more"),
    ("runs", "no action is given", "use one of show, join, convert"),
    ("runs join", "OUT and RUNS must be given", "maxk runs join --help"),
    ("doctor now", "too many arguments: now", "maxk doctor --help"),
]
FAILURES = [
    ("train no.toml", "no.toml is missing", "give a TOML file"),
    ("train files", "files is a folder", "give a TOML file"),
    ("train broken.toml", "broken.toml is not TOML", "mend that line"),
    ("train missing.toml", "model is missing", "maxk train --keys"),
    ("train key.toml", "method.kk is unknown; did you mean k?", "maxk train --keys"),
    ("train value.toml", "method.k='many'", "maxk train --keys"),
    ("train method.toml", "clamp_delta=0.5 is for the off-policy methods", "maxk train --keys"),
    ("train good.toml --method.k", "--method.k has no value", "write one"),
    ("train good.toml --metod.k 3", "metod is unknown; did you mean method?", "--keys"),
    ("train good.toml --run.out.x 3", "out is no table of keys", "--keys"),
    ("merge no/such other --out x", "no/such is not a folder", "maxk train"),
    ("merge run other --out x", "run is a run of `maxk sample`", "give a run of `maxk train`"),
    ("solve --problem no.jsonl --model pocket", "no.jsonl is missing", "or the id of a problem"),
    ("solve --problem two.jsonl --model pocket", "two.jsonl has 2 problems", "--problem ID"),
    ("solve --problem starter/999 --model pocket", "starter has no problem", "there are starter/"),
    ("solve --problem starter/001 --model pocket", "tokens, and pocket has 256", "starter/133"),
    ("solve --problem empty-tests.jsonl --model pocket", "tests: is empty", "--skip"),
    (f"{SOLVE.replace('pocket', 'no/such/model')}", "no/such/model is missing", "pocket"),
    (
        f"{SOLVE.replace('pocket', 'pockt')}",
        "the model 'pockt' cannot be had",
        "did you mean pocket",
    ),
    (f"{SOLVE.replace('pocket', 'no-model')}", "the model in no-model cannot be loaded", "give a"),
    ("solve --problem mbpp/11 --model pocket", "google-research-datasets/mbpp", "--source PATH"),
    (SAMPLE.replace("new", "files"), "files holds files and no run", "another --out"),
    (SAMPLE.replace("new", "text.txt"), "text.txt is a file", "another --out"),
    (SAMPLE.replace("new", "run"), "run holds a run with other settings", "--restart"),
    (SAMPLE.replace("new", "odd"), "odd/config.toml is not that of a run", ""),
    (f"{SAMPLE} --shard 3/2", "shard='3/2' is not NUMBER/COUNT", "use 1/2"),
    (SAMPLE.replace("pocket --out", "starter --out"), "prompts are too long", "--skip"),
    (SAMPLE.replace("pocket --out", "humaneval --out"), "openai/openai_humaneval", "--source PATH"),
    (f"{SAMPLE.replace('data pocket', 'data jsonl')}", "no published files", "--source"),
    ("verify no.jsonl", "no.jsonl is missing", "give a file"),
    ("verify text.txt", "text.txt, line 1: not JSON", "--skip"),
    ("verify broken.jsonl", "broken.jsonl, line 1: not JSON", "--skip"),
    ("verify latin.jsonl", "latin.jsonl, line 1: not UTF-8", "--skip"),
    ("verify list.jsonl", "list.jsonl, line 1 is a list", "use an object"),
    ("verify no-tests.jsonl", "line 1 has no tests, and no problem", "--data"),
    ("verify no-program.jsonl", "line 1 has no text in the field completion", "--skip"),
    ("verify broken.parquet", "broken.parquet: not a readable parquet file", ""),
    ("verify broken.jsonl.gz", "broken.jsonl.gz: broken gzip file", ""),
    ("verify empty", "empty is not a run", "give the folder of a run"),
    ("evaluate no/run", "no/run is missing", "give the folder of a run"),
    ("evaluate files", "files is not a run", "give the folder of a run"),
    ("evaluate text.txt", "text.txt is a file", "give the folder of a run"),
    ("evaluate started", "started has no", "maxk sample"),
    ("evaluate raw", "raw has completions without verdicts", "maxk verify raw"),
    ("evaluate short", "fewer than 4 completions of 1 of 1 problems", "repeat its `maxk sample`"),
    ("evaluate run --k 0", "k=0 is below 1", ""),
    ("evaluate run --k 3", "k=3 is larger than n=2", "draw at least 3 samples"),
    ("evaluate run --verdicts other", "without other", "maxk verify run"),
    ("evaluate run --json no/such/file.json", "no/such/file.json is missing", ""),
    ("compare run other", "", ""),
    ("compare run --against no", "runs holds", "two or more"),
    ("forecast empty", "empty is not a run", "give the folder of a run"),
    ("allocate run raw", "raw has completions without verdicts", "maxk verify raw"),
    ("report no/run", "no/run is missing", "give the folder of a run"),
    ("report files", "files is not a run", "give the folder of a run"),
    ("data show starter --id starter/999", "starter has no problem 'starter/999'", "there are"),
    ("data show mbpp --id 1 --source no/file", "no/file is missing", "check the path"),
    ("data check no.jsonl", "no.jsonl is missing", "check the path"),
    ("data check text.csv", "text.csv is missing", "check the path"),
    ("data verify jsonl --source broken.jsonl", "line 1: not JSON", "--skip"),
    ("data verify jsonl --source same-id.jsonl", "'a' is the id of line 1 too", "--skip"),
    ("data verify jsonl --source unknown-field.jsonl", "tsets: is unknown", "--skip"),
    ("data verify jsonl --source text.txt", "text.txt is not a .jsonl", "give one that is"),
    ("data verify jsonl --source empty", "nothing for the split 'test'", "Name the file"),
    ("runs show no/run", "no/run is missing", "give the folder of a run"),
    ("runs show started", "started has no problems", "maxk sample"),
    ("runs join new run", "run is not a shard of a sampling run", ""),
    ("runs convert files", "files is not a run", "give the folder of a run"),
]


@pytest.fixture(scope="module", autouse=True)
def no_hub(monkeypatch_module):
    monkeypatch_module.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # refuses at once


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize(("call", "what", "fix"), USAGE, ids=[call for call, *_ in USAGE])
def test_arguments_that_cannot_be_end_with_2(folder, call, what, fix):
    refused(folder, call, what, fix, 2)


@pytest.mark.parametrize(("call", "what", "fix"), FAILURES, ids=[call for call, *_ in FAILURES])
def test_what_cannot_be_done_ends_with_1(folder, call, what, fix):
    refused(folder, call, what, fix, 1)


def refused(folder: Path, call: str, what: str, fix: str, code: int) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = command.maxk(*call.split(), cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    first, *rest = done.stderr.splitlines()
    assert first.startswith("maxk")
    assert len(rest) >= 1, first
    assert what in done.stderr
    assert fix in rest[-1]
    assert "class '" not in done.stderr
    assert not re.search(r"==SUPPRESS==|\bNoneType\b", done.stderr)
    written = {path for path in folder.rglob("*") if path not in before}
    assert {path.name for path in written} <= {".lock"}


def test_there_are_enough_of_them():
    assert len(USAGE) + len(FAILURES) >= 60
