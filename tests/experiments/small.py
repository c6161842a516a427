"""A data folder with a few tasks in the published forms, for the model that comes with maxk."""

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

NAMES = ("one", "two", "ten", "sum", "low")


def mbpp(number: int) -> dict[str, Any]:
    name = NAMES[number % len(NAMES)]
    return {
        "task_id": number,
        "text": f"Add {number}.",
        "code": f"def {name}(x):\n    return x + {number}",
        "test_list": [f"assert {name}(1) == {number + 1}", f"assert {name}(2) > 0"],
        "test_setup_code": "",
        "challenge_test_list": [],
    }


def mbpp_plus(number: int, name: str) -> dict[str, Any]:
    return {
        "task_id": f"Mbpp/{number}",
        "prompt": f"Add {number}.",
        "entry_point": name,
        "canonical_solution": f"def {name}(x):\n    return x + {number}",
        "base_input": [[1]],
        "plus_input": [[2], [3]],
        "atol": 0,
    }


def humaneval(number: int) -> dict[str, Any]:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "test": "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2)\n",
    }


def write_data(folder: Path) -> Path:
    """The folder with 12 tasks to train on and 3 to measure on, two of which are in MBPP+."""
    tasks = [mbpp(i) for i in (*range(11, 14), *range(511, 513), *range(601, 611))]
    files = {
        "mbpp/mbpp.jsonl": tasks,
        "evalplus/MbppPlus.jsonl.gz": [
            mbpp_plus(11, NAMES[1]),
            mbpp_plus(12, NAMES[2]),
            mbpp_plus(13, "other"),  # not the function that the samples define
            mbpp_plus(601, NAMES[1]),  # not sampled
        ],
        "humaneval/HumanEval.jsonl.gz": [humaneval(i) for i in range(2)],
    }
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def write_grid(file: Path, **more: int) -> Path:
    """grid.toml for it: fewer and shorter samples of fewer sets. more: sets, with their sizes."""
    whole = tomllib.loads((Path("experiments/grid") / "grid.toml").read_text())
    whole |= {"n": 4, "entropy_samples": 2}
    whole["settings"]["max_tokens"] = 12
    sizes = {"mbpp": 3, "mbpp-plus": 2, "humaneval": 2, **more}
    whole["sets"] = {k: {**v, "problems": sizes[k]} for k, v in whole["sets"].items() if k in sizes}
    whole["plans"] = {plan: list(sizes) for plan in whole["plans"]}
    whole["cost"] = {"start": 1, "batch": 0.1, "update": 0.1, "begin": 1, "judging": 1}
    whole["cost"]["tokens_per_second"] = 1000
    file.write_text(tomli_w.dumps(whole))
    return file
