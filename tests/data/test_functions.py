"""MBPP, HumanEval, LeetCode: entry points, what is shown, and checks that really run."""

from pathlib import Path

import pytest

from maxk.data import load, load_with_account
from maxk.grade import program_for
from maxk.prompts import messages
from maxk.records import AssertTest, Problem
from maxk.verify import Verifier
from tests.data import published


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as started:
        yield started


def one(tmp_path: Path, name: str, row: published.Fields, split: str = "train") -> Problem:
    [problem] = load(name, split, published.write_jsonl(tmp_path / f"{name}.jsonl", [row]))
    return problem


def fractions(verifier: Verifier, problem: Problem, *programs: str) -> list[float]:
    verdicts = verifier.judge([(program, problem.tests) for program in programs])
    return [verdict.fraction for verdict in verdicts]


# --- MBPP ----------------------------------------------------------------------------------------


def test_mbpp_shows_test_list_and_never_the_challenge_tests(tmp_path):
    problem = one(tmp_path, "mbpp", published.mbpp())
    assert problem.examples == (
        AssertTest("assert double(1) == 2", "double"),
        AssertTest("assert double(2) == 4", "double"),
        AssertTest("assert double(0) == 0", "double"),
    )
    hidden = AssertTest("assert double(-3) == -6", "double")
    assert problem.tests == (*problem.examples, hidden)


def test_mbpp_grades_by_what_it_does_not_show_if_asked_to(tmp_path):
    source = published.write_jsonl(tmp_path / "mbpp.jsonl", [published.mbpp()])
    [problem] = load("mbpp", "train", source, shown=1)
    assert problem.examples == (AssertTest("assert double(1) == 2", "double"),)
    graded = ("assert double(2) == 4", "assert double(0) == 0", "assert double(-3) == -6")
    assert problem.tests == tuple(AssertTest(code, "double") for code in graded)
    prompt = messages(problem)[0]["content"]
    assert "assert double(1) == 2" in prompt
    assert not any(code in prompt for code in graded)
    [unaided] = load("mbpp", "train", source, shown=0)
    assert (unaided.examples, len(unaided.tests)) == ((), 4)
    none, account = load_with_account("mbpp", "train", source, shown=4)
    assert (none, account.dropped.total()) == ([], 1)


def test_mbpp_reference_has_plain_line_ends(tmp_path):
    problem = one(tmp_path, "mbpp", published.mbpp())
    assert problem.reference == "def double(x):\n  return 2 * x"


def test_mbpp_setup_code_runs_before_each_assert(tmp_path, verifier):
    row = published.mbpp(
        code="class Node:\n  def __init__(self, x): self.x = x\ndef value(node):\n  return node.x",
        test_setup_code="node = Node(7)\r\n",
        test_list=["assert value(node) == 7"] * 3,
        challenge_test_list=[],
    )
    problem = one(tmp_path, "mbpp", row)
    assert problem.entry_point == "value"
    assert fractions(verifier, problem, problem.reference or "") == [1.0]


def test_sanitized_mbpp_has_its_own_names(tmp_path, verifier):
    row = {
        "source_file": "Benchmark.ipynb",
        "task_id": 20,
        "prompt": "Write a root.",
        "code": "def root(x):\n  return x ** 0.5",
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(root(9), 3)"],
    }
    path = published.write_json(tmp_path / "sanitized-mbpp.json", [row])
    [problem] = load("mbpp", "test", path)
    assert (problem.statement, problem.entry_point) == ("Write a root.", "root")
    assert problem.tests == (AssertTest("import math\nassert math.isclose(root(9), 3)", "root"),)
    assert fractions(verifier, problem, problem.reference or "") == [1.0]


@pytest.mark.parametrize(
    ("number", "split"),
    [
        *[(1, "prompt"), (10, "prompt"), (11, "test"), (510, "test"), (511, "validation")],
        *[(600, "validation"), (601, "train"), (974, "train")],
    ],
)
def test_mbpp_splits_go_by_number(tmp_path, number, split):
    path = published.write_jsonl(tmp_path / "mbpp.jsonl", [published.mbpp(number)])
    sizes = {s: len(load("mbpp", s, path)) for s in ("prompt", "test", "validation", "train")}
    assert sizes == {"prompt": 0, "test": 0, "validation": 0, "train": 0, split: 1}


@pytest.mark.parametrize(
    ("line", "code", "function"),
    [
        ("assert set(pick([1])) == {1}", "def pick(x): return x", "pick"),
        ("assert sum(3, 4) == 7", "def sum(a, b): return a + b", "sum"),
        ("assert (tall(0)) == 3", "def helper(): 0\ndef tall(x): return 3", "tall"),
        ("assert not small(5)", "def small(x): return x < 5", "small"),
        ("assert str(show(5)) == '5'", "print 'old'", "show"),
    ],
)
def test_the_entry_point_is_read_from_the_assert(tmp_path, line, code, function):
    row = published.mbpp(test_list=[line], code=code, challenge_test_list=[])
    assert one(tmp_path, "mbpp", row).entry_point == function


def test_a_program_named_like_a_builtin_is_what_is_tested(tmp_path, verifier):
    code = "def sum(a, b):\n    return a * b"
    row = published.mbpp(test_list=["assert sum(3, 4) == 12"], code=code, challenge_test_list=[])
    problem = one(tmp_path, "mbpp", row)
    wrong = "def sum(a, b):\n    return a + b"
    assert fractions(verifier, problem, code, wrong) == [1.0, 0.0]


def test_an_assert_that_is_no_python_names_file_line_and_field(tmp_path):
    row = published.mbpp(test_list=["assert double(1 == 2"])
    with pytest.raises(ValueError, match=r"mbpp\.jsonl, line 1, field test_list: .* not Python"):
        one(tmp_path, "mbpp", row)


def test_mbpp_without_tests_is_dropped(tmp_path):
    row = published.mbpp(test_list=[], challenge_test_list=[])
    path = published.write_jsonl(tmp_path / "mbpp.jsonl", [row])
    problems, account = load_with_account("mbpp", "train", path)
    assert (problems, account.dropped) == ([], {"no tests": 1})


# --- HumanEval -----------------------------------------------------------------------------------


def test_humaneval_completes_its_prompt(tmp_path):
    problem = one(tmp_path, "humaneval", published.humaneval(7), "test")
    assert problem.id == "humaneval/7"
    assert problem.statement == problem.starter == published.humaneval()["prompt"]
    assert problem.reference == published.humaneval()["prompt"] + "    return 2 * x\n"
    assert problem.examples == ()


def test_humaneval_check_passes_the_reference_and_fails_a_wrong_program(tmp_path, verifier):
    problem = one(tmp_path, "humaneval", published.humaneval(), "test")
    wrong = "def double(x):\n    return x * x + 1"
    cheat = "def check(candidate): pass\ndef double(x): return 0"
    assert len(problem.tests) == 1
    assert fractions(verifier, problem, problem.reference or "", wrong, cheat) == [1.0, 0.0, 0.0]


def test_humaneval_grants_every_solution_what_its_prompt_has_before_the_function(
    tmp_path, verifier
):
    prompt = "from typing import List\n\n\ndef one():\n    return 1\n\n\ndef double(x):\n"
    problem = one(tmp_path, "humaneval", published.humaneval(prompt=prompt), "test")
    assert problem.preamble == "from typing import List\n\n\ndef one():\n    return 1"
    answer = "```python\ndef double(x: List[int]):\n    return 2 * x * one()\n```"
    assert fractions(verifier, problem, program_for(problem, answer)) == [1.0]
    assert one(tmp_path, "humaneval", published.humaneval(), "test").preamble is None


# --- LeetCode ------------------------------------------------------------------------------------

LISTS = """from typing import *
from collections import *
class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next
def list_node(values: list):
    queue = deque(values)
    head = node = ListNode()
    while queue:
        node.next = ListNode(queue.popleft())
        node = node.next
    return head.next
def is_same_list(a, b):
    if a is None or b is None:
        return a is b
    return a.val == b.val and is_same_list(a.next, b.next)
"""


def test_leetcode_check_passes_the_reference_and_fails_a_wrong_program(tmp_path, verifier):
    problem = one(tmp_path, "leetcode", published.leetcode())
    assert (problem.entry_point, problem.difficulty) == ("Solution().add", "Easy")
    assert problem.starter == published.leetcode()["starter_code"]
    wrong = "class Solution:\n    def add(self, nums):\n        return 0"
    assert fractions(verifier, problem, problem.reference or "", wrong) == [1.0, 0.0]


def test_leetcode_version_0_2_has_its_fields_in_meta(tmp_path):
    row = published.leetcode()
    for name in ("problem_description", "starter_code", "difficulty", "tags"):
        del row[name]
    row["meta"] = {"difficulty": "Hard", "question_title": "Add.", "lang_code": "class Solution:"}
    problem = one(tmp_path, "leetcode", row)
    assert (problem.statement, problem.difficulty) == ("Add.", "Hard")
    assert problem.starter == "class Solution:"


EXAMPLES = """Return the sum.

Example 1:

Input: nums = [1, 2]
Output: 3
Explanation: 1 + 2.
Example 2:
Input: nums = [4]
Output: 4

Constraints:

1 <= nums.length"""


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        (EXAMPLES, "Return the sum.\n\n\nConstraints:\n\n1 <= nums.length"),
        ("Add.\nExample:\n Input: 1 Output: 2\nNote:\nx", "Add.\n\nNote:\nx"),
        ("Add.\nExample1:\n Input: 1\n Output: 2", "Add.\n"),
        ("Return the example: the Input.", "Return the example: the Input."),
    ],
)
def test_leetcode_leaves_its_examples_out_if_asked_to(tmp_path, statement, left):
    row = published.leetcode(problem_description=statement)
    source = published.write_jsonl(tmp_path / "leetcode.jsonl", [row])
    [whole], [problem] = (
        load("leetcode", "train", source),
        load("leetcode", "train", source, shown=0),
    )
    assert (whole.statement, problem.statement) == (statement, left)
    assert problem.tests == whole.tests
    with pytest.raises(ValueError, match="shown=1 is not for leetcode"):
        load("leetcode", "train", source, shown=1)


def test_leetcode_whose_examples_stay_is_dropped(tmp_path):
    row = published.leetcode(problem_description="Add. Input: 1 Output: 2")
    source = published.write_jsonl(tmp_path / "leetcode.jsonl", [row])
    found, account = load_with_account("leetcode", "train", source, shown=0)
    assert not found
    assert account.dropped == {"its examples cannot be told from its statement": 1}


def test_leetcode_lists_are_compared_by_the_test_and_not_by_the_program(tmp_path, verifier):
    method = "class Solution:\n    def add(self, head):\n        return {}\n"
    row = published.leetcode(
        prompt=LISTS,
        completion=method.format("head.next"),
        test="def check(candidate):\n"
        "    assert is_same_list(candidate(head = list_node([1, 2, 3])), list_node([2, 3]))\n",
    )
    problem = one(tmp_path, "leetcode", row)
    wrong = LISTS + method.format("head")
    cheat = wrong + "def is_same_list(a, b):\n    return True\n"
    assert fractions(verifier, problem, problem.reference or "", wrong, cheat) == [1.0, 0.0, 0.0]
    assert (problem.starter or "").startswith("class ListNode:")
