"""The published files themselves, in the folder that MAXK_REAL_DATA names."""

import ast
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from maxk.data import expected_values, livecode, load, load_with_account
from maxk.records import AssertTest
from maxk.verify import Verifier
from maxk.verify.names import declared, free_names
from maxk.verify.program import Program

FOLDER = os.environ.get("MAXK_REAL_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="MAXK_REAL_DATA is not set")
REAL = Path(FOLDER or ".")


@pytest.mark.parametrize(
    ("name", "split", "file", "kept"),
    [
        ("mbpp", "train", "mbpp/mbpp.jsonl", 374),
        ("mbpp", "validation", "mbpp/mbpp.jsonl", 90),
        ("mbpp", "test", "mbpp", 500),
        ("mbpp", "prompt", "mbpp", 10),
        ("mbpp", "train", "mbpp/sanitized-mbpp.json", 120),
        ("mbpp", "validation", "mbpp/sanitized-mbpp.json", 43),
        ("mbpp", "test", "mbpp/sanitized-mbpp.json", 257),
        ("mbpp", "prompt", "mbpp/sanitized-mbpp.json", 7),
        ("mbpp-plus", "test", "evalplus", 378),
        ("humaneval", "test", "humaneval", 164),
        ("leetcode", "train", "leetcode", 1890),
        ("leetcode", "test", "leetcode", 200),
        ("code-contests", "train", "codecontests/codecontests_subset.jsonl.gz", 390),
    ],
)
def test_every_problem_is_kept(name, split, file, kept):
    problems, account = load_with_account(name, split, REAL / file, keep_broken=True)
    assert (len(problems), account.kept) == (kept, kept)
    assert not account.dropped
    assert all(problem.statement.strip() for problem in problems)


def test_the_code_contests_subset_has_all_its_tests():
    file = REAL / "codecontests/codecontests_subset.jsonl.gz"
    problems = load("code-contests", "train", file, keep_broken=True)
    assert sum(len(problem.tests) for problem in problems) == 17_727


@pytest.mark.parametrize(
    ("name", "split", "file"),
    [
        ("humaneval", "test", "humaneval"),
        ("mbpp", "validation", "mbpp"),
        ("leetcode", "test", "leetcode"),
    ],
)
def test_references_pass_their_tests(name, split, file):
    problems = load(name, split, REAL / file, keep_broken=True)
    with Verifier(workers=2) as verifier:
        verdicts = verifier.judge([(p.reference or "", p.tests) for p in problems])
    assert [p.id for p, v in zip(problems, verdicts, strict=True) if not v.passed] == []


def test_evalplus_references_pass_the_tests_made_of_them():
    numbers = {2, 7, 63, 75, 88, 106, 115, 124, 250, 252, 259, 278, 307, 558, 580, 581, 722, 737}
    problems = [
        p for p in load("mbpp-plus", "test", REAL / "evalplus") if int(p.id[10:]) in numbers
    ]
    with Verifier(workers=2) as verifier:
        kept, account = expected_values(problems, verifier)
        verdicts = verifier.judge([(p.reference or "", p.tests) for p in kept])
    assert len(kept) == len(problems) > 10
    assert not account.noted
    assert [p.id for p, v in zip(kept, verdicts, strict=True) if not v.passed] == []


def test_live_code_bench_blobs_of_another_kind_are_refused_after_decompression():
    """These samples hold a pickled dict instead of the text that LiveCodeBench itself pickles."""
    lines = (REAL / "samples/code_eval_live_code_bench_v1.jsonl").read_text().splitlines()
    assert len(lines) == 3
    for line in lines:
        with pytest.raises(ValueError, match="plain string: it has the instruction EMPTY_DICT"):
            livecode.unpacked(json.loads(line)["test"])


ASSERTED = [
    ("humaneval", "test", "humaneval"),
    ("mbpp", "train", "mbpp/mbpp.jsonl"),
    ("mbpp", "test", "mbpp/mbpp.jsonl"),
    ("leetcode", "train", "leetcode"),
    ("leetcode", "test", "leetcode"),
]


@pytest.mark.parametrize(("name", "split", "file"), ASSERTED)
def test_tests_use_no_name_that_neither_they_nor_their_data_set_define(name, split, file):
    """But for the function and the classes that a program has to provide."""
    for problem in load(name, split, REAL / file, keep_broken=True):
        for test in problem.tests:
            assert isinstance(test, AssertTest)
            own = (test.function or "").split(".")[0].removesuffix("()")
            left = free_names(f"{test.code}\n{test.nodes}", own) - {own, *test.classes}
            assert not left, (problem.id, left)
            declared(test)


@pytest.mark.parametrize(("name", "split", "file"), ASSERTED)
def test_what_a_program_is_sent_does_not_depend_on_what_is_expected(name, split, file, monkeypatch):
    """Every byte for the process of the reference, with the expected values and with others."""
    sent: list[bytes] = []
    exchange = Program.exchange

    def logged(self, request, clock):
        sent.append(request)
        return exchange(self, request, clock)

    problems = load(name, split, REAL / file, keep_broken=True)
    with_nodes = [p for p in problems if any(getattr(test, "nodes", "") for test in p.tests)]
    changed = 0
    monkeypatch.setattr(Program, "exchange", logged)
    with Verifier(workers=1) as verifier:
        for problem in [*problems[:20], *with_nodes[:20]]:
            for test in problem.tests[:2]:
                assert isinstance(test, AssertTest)
                other = replace(test, code=expecting_else(test.code))
                changed += other.code != ast.unparse(ast.parse(test.code))
                logs = []
                for each in (test, other):
                    sent.clear()
                    verifier.judge([(problem.reference or "", [each])])
                    logs.append(list(sent))
                assert logs[0] == logs[1], (problem.id, other.code)
    assert changed > 20


def expecting_else(code: str) -> str:
    """The code with other values on the right of its asserts."""

    class Other(ast.NodeTransformer):
        def visit_Assert(self, node):
            said = node.test
            if isinstance(said, ast.Compare) and isinstance(said.left, ast.Call):
                said.comparators = [ast.Constant("something else")]
            elif isinstance(said, ast.Call) and len(said.args) == 2:
                said.args[1] = ast.Constant(None)
            return node

    return ast.unparse(Other().visit(ast.parse(code)))
