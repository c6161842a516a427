"""Rows in the exact published schemas, and the ways to write them to disk."""

import base64
import gzip
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Fields = dict[str, Any]


def write_jsonl(path: Path, rows: list[Fields]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_json(path: Path, rows: list[Fields]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def write_parquet(path: Path, rows: list[Fields]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def packed(tests: Any) -> str:
    """Tests as LiveCodeBench packs its private ones."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def code_contests(name: str = "1000_A. Sum", **changes: Any) -> Fields:
    return {
        "name": name,
        "description": "Add two numbers.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["2 2\n"], "output": ["4\n"]},
        "generated_tests": {"input": ["5 5\n", "6 1\n"], "output": ["10\n", "7\n"]},
        "source": 2,
        "difficulty": 7,
        "solutions": {
            "language": [2, 1, 3, 3],
            "solution": ["int main", "print 1", "print(sum(map(int, input().split())))", "later"],
        },
        "incorrect_solutions": {"language": [3], "solution": ["print(0)"]},
        "cf_contest_id": 1000,
        "cf_index": "A",
        "cf_points": 500.0,
        "cf_rating": 800,
        "cf_tags": ["math"],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256_000_000,
        "input_file": "",
        "output_file": "",
        **changes,
    }


def codeforces(own: str = "852/A", **changes: Any) -> Fields:
    return {
        "id": own,
        "aliases": None,
        "contest_id": own.split("/")[0],
        "contest_name": "Round",
        "contest_type": "CF",
        "contest_start": 1504535700,
        "contest_start_year": 2017,
        "index": own.split("/")[1],
        "time_limit": 2.0,
        "memory_limit": 256.0,
        "title": "Digits",
        "description": "Print the sum of the digits.",
        "input_format": "One number.",
        "output_format": "One number.",
        "interaction_format": None,
        "note": "No zeros in front.",
        "examples": [{"input": "12\n", "output": "3\n"}],
        "editorial": "Add them.",
        "rating": 800,
        "tags": ["math"],
        "testset_size": 2,
        "official_tests": [{"input": "12\n", "output": "3\n"}, {"input": "99\n", "output": "18\n"}],
        "official_tests_complete": True,
        "input_mode": "stdio",
        "generated_checker": None,
        "executable": True,
        "generated_tests": 0,
        **changes,
    }


def cure(own: int = 0, **changes: Any) -> Fields:
    return {
        "task_id": own,
        "question": "Add two numbers.",
        "example_input": ["1 2\n"],
        "example_output": ["3\n"],
        "test_input": ["2 2\n", "3 3\n"],
        "test_output": ["4\n", "6\n"],
        "test_time_limit": 1,
        "difficulty": 2,
        "solutions": ["print(sum(map(int, input().split())))"],
        **changes,
    }


STDIN_PUBLIC = [{"input": "3\n", "output": "6\n", "testtype": "stdin"}]
STDIN_PRIVATE = [{"input": "4\n", "output": "8\n", "testtype": "stdin"}]
CALL_PUBLIC = [{"input": '[1, 2]\n"ab"', "output": "[2]", "testtype": "functional"}]


def live_code_bench(own: str = "abc301_a", **changes: Any) -> Fields:
    return {
        "question_title": "Double",
        "question_content": "Print twice the number.",
        "platform": "atcoder",
        "question_id": own,
        "contest_id": "abc301",
        "contest_date": "2023-05-13T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(STDIN_PUBLIC),
        "private_test_cases": packed(STDIN_PRIVATE),
        "metadata": "{}",
        **changes,
    }


def live_bench(own: str = "a1b2", **changes: Any) -> Fields:
    question = live_code_bench()
    kept = ("question_title", "question_content", "platform", "question_id", "contest_id")
    kept += ("contest_date", "starter_code", "difficulty", "metadata")
    return {
        "question_id": own,
        "category": "coding",
        "turns": ["### Instructions: ..."],
        "question_title": "Double",
        "public_test_cases": json.dumps(STDIN_PUBLIC),
        "private_test_cases": packed(STDIN_PRIVATE),
        "original_json": {name: question[name] for name in kept},
        "release_date": None,
        "citation": "",
        "task": "LCB_generation",
        "livebench_release_date": None,
        "livebench_removal_date": None,
        "remainder": None,
        "solution": None,
        "partial_solution": None,
        **changes,
    }


def mbpp(number: int = 602, **changes: Any) -> Fields:
    return {
        "task_id": number,
        "text": "Write a function to double a number.",
        "code": "def double(x):\r\n  return 2 * x",
        "test_list": ["assert double(1) == 2", "assert double(2) == 4", "assert double(0) == 0"],
        "test_setup_code": "",
        "challenge_test_list": ["assert double(-3) == -6"],
        **changes,
    }


def humaneval(number: int = 0, **changes: Any) -> Fields:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": 'def double(x):\n    """ Twice x. """\n',
        "canonical_solution": "    return 2 * x\n",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n",
        "entry_point": "double",
        **changes,
    }


def mbpp_plus(number: int = 602, **changes: Any) -> Fields:
    return {
        "task_id": f"Mbpp/{number}",
        "prompt": '"""\nDouble a number.\nassert double(1) == 2\n"""\n',
        "entry_point": "double",
        "canonical_solution": "\ndef double(x):\n    return 2 * x\n",
        "base_input": [[1], [2]],
        "plus_input": [[0], [10]],
        "atol": 0,
        "contract": "",
        "assertion": "assert double(1) == 2",
        **changes,
    }


def leetcode(own: str = "two-sum", **changes: Any) -> Fields:
    return {
        "task_id": own,
        "question_id": 1,
        "difficulty": "Easy",
        "tags": ["Array"],
        "problem_description": "Return the sum.",
        "starter_code": "class Solution:\n    def add(self, nums: List[int]) -> int:\n        ",
        "estimated_date": "2015-08-07T00:00:00",
        "prompt": "from typing import *\n",
        "completion": "class Solution:\n    def add(self, nums: List[int]) -> int:\n"
        "        return sum(nums)\n",
        "entry_point": "Solution().add",
        "test": "def check(candidate):\n    assert candidate(nums = [1, 2]) == 3\n",
        "input_output": [{"input": "nums = [1, 2]", "output": "3"}],
        "query": "",
        "response": "",
        **changes,
    }
