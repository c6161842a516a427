"""One's own problems: every fault is found, with its line and field."""

import gzip
import json
from dataclasses import replace

import pytest

from maxk.data import DATASETS, Fault, check, load
from maxk.prompts import messages
from maxk.records import CallTest, Problem, StdinTest
from maxk.store.codec import dict_of_test
from maxk.verify import Verifier

GOOD = {"id": "a", "statement": "Double.", "tests": [{"input": "1", "output": "2"}]}
CALL = {"function": "f", "args": [1], "expected": 2}


def written(tmp_path, *lines, name="own.jsonl"):
    path = tmp_path / name
    data = b"\n".join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_all_fields_arrive(tmp_path):
    row = {
        "id": "a",
        "statement": "x\r\ny",
        "tests": [{"input": "1\r\n", "output": "2\r\n"}, {"input": "3", "output": "6"}, CALL],
        "shown": 2,
        "entry_point": "f",
        "reference": "print(1)",
        "difficulty": "easy",
        "tags": ["t"],
        "starter": "def f(x):",
        "time_limit": 3,
        "verbatim": True,
    }
    tests = [StdinTest("1\n", "2\n"), StdinTest("3", "6"), CallTest("f", (1,), 2)]
    assert load("jsonl", "all", written(tmp_path, row)) == [
        Problem(
            *("a", "x\ny", tests, "f", "print(1)", "easy", "jsonl", tuple(tests[:2])),
            starter="def f(x):",
            time_limit=3.0,
            tags=("t",),
            verbatim=True,
        )
    ]


def test_nothing_is_shown_unless_it_is_said(tmp_path):
    [problem] = load("jsonl", "all", written(tmp_path, GOOD))
    assert problem.examples == ()


def test_optional_fields_may_be_null(tmp_path):
    row = GOOD | dict.fromkeys(["shown", "entry_point", "reference", "tags", "time_limit"])
    assert check(written(tmp_path, row)) == []
    assert len(load("jsonl", "all", written(tmp_path, row))) == 1


def test_a_compressed_file_with_empty_lines_is_read(tmp_path):
    path = written(tmp_path, GOOD, b"", GOOD | {"id": "b"}, name="own.jsonl.gz")
    assert [problem.id for problem in load("jsonl", "all", path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"id": None}, "id", "is missing"),
        ({"id": 7}, "id", "is an integer; use text"),
        ({"id": " "}, "id", "is empty"),
        ({"statement": None}, "statement", "is missing"),
        ({"statement": ""}, "statement", "is empty"),
        ({"tests": None}, "tests", "is missing"),
        ({"tests": []}, "tests", "is empty"),
        ({"tests": {}}, "tests", "is an object; use a list"),
        ({"tests": [{"input": "1"}]}, "tests", "test 1 has input and no output"),
        ({"tests": [{"input": "1", "output": 2}]}, "tests", "test 1.output is a int"),
        ({"tests": [CALL]}, "entry_point", "is missing"),
        ({"tests": [{"assert": "assert f(1)"}]}, "entry_point", "is missing"),
        ({"shown": 2}, "shown", "is 2, and there are 1 tests"),
        ({"shown": -1}, "shown", "is -1; use a whole number"),
        ({"shown": True}, "shown", "is True; use a whole number"),
        ({"shown": "1"}, "shown", "is '1'; use a whole number"),
        ({"entry_point": 1}, "entry_point", "is an integer; use text"),
        ({"reference": "def f(:"}, "reference", "is not Python"),
        ({"reference": "a = '\0'"}, "reference", "is not Python"),
        ({"reference": ["x"]}, "reference", "is a list; use text"),
        ({"tags": "x"}, "tags", "is not a list of text"),
        ({"tags": [1]}, "tags", "is not a list of text"),
        ({"time_limit": "1"}, "time_limit", "is '1'; use a number"),
        ({"time_limit": 0}, "time_limit", "is 0; use a number"),
        ({"time_limit": True}, "time_limit", "is True; use a number"),
        ({"verbatim": "yes"}, "verbatim", "is 'yes'; use true or false"),
        ({"solution": "x"}, "solution", "is unknown; a problem has id, statement, tests"),
    ],
)
def test_a_fault_has_its_line_and_field(tmp_path, change, field, message):
    [fault] = check(written(tmp_path, GOOD | {"id": "first"}, GOOD | change))
    assert (fault.line, fault.field) == (2, field)
    assert message in fault.message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("assert f(2) == helper(2)", "uses helper, and neither it nor Python defines that"),
        ("assert f(lambda x: x)", "gives the program a lambda, which cannot leave its process"),
        ("def g(x): return x\nassert f(g)", "gives the program the function g, which"),
    ],
)
def test_a_test_that_cannot_be_judged_is_a_fault(tmp_path, code, message):
    row = GOOD | {"tests": [{"assert": code, "function": "f"}], "entry_point": "f"}
    [fault] = check(written(tmp_path, row))
    assert (fault.line, fault.field) == (1, "tests")
    assert message in fault.message


def test_old_escapes_in_a_reference_are_no_fault(tmp_path):
    assert check(written(tmp_path, GOOD | {"reference": "x = '\\d'"})) == []


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_a_fault(tmp_path, text):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    assert check(path) == [Fault(1, "", "the file is empty; a line is a problem")]
    with pytest.raises(ValueError, match=r"x\.jsonl, line 1: the file is empty"):
        load("jsonl", "all", path)
    with pytest.raises(ValueError, match="has no rows; give a file that has some"):
        load("mbpp", "train", path)


def test_all_faults_of_a_file_are_found(tmp_path):
    bad_tests = [{"input": "1"}, {"input": "1", "output": "1"}, {"output": "1"}]
    path = written(
        tmp_path,
        b"{broken",
        b'{"id": "\xff"}',
        b"[1]",
        GOOD,
        GOOD | {"tests": bad_tests, "shown": 9, "extra": 1},
    )
    faults = [(fault.line, fault.field) for fault in check(path)]
    assert faults == [
        *[(1, ""), (2, ""), (3, "")],
        *[(5, "extra"), (5, "shown"), (5, "tests"), (5, "tests"), (5, "id")],
    ]


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    path = written(tmp_path, GOOD, b'{"id": "\xff"}')
    assert check(path) == [Fault(2, "", "not UTF-8: byte 9 is 0xff")]


def test_a_second_use_of_an_id_names_both_lines(tmp_path):
    path = written(tmp_path, GOOD, GOOD | {"id": "b"}, GOOD)
    assert check(path) == [Fault(3, "id", "'a' is the id of line 1 too")]


def test_load_lists_the_first_faults_and_their_number(tmp_path):
    path = written(tmp_path, *[{"id": f"{i}"} for i in range(4)])
    with pytest.raises(ValueError, match="8 faults in the problems") as error:
        load("jsonl", "all", path)
    lines = str(error.value).splitlines()
    assert lines[1].strip() == "own.jsonl, line 1, statement: is missing"
    assert lines[-2].strip().startswith("and 3 more")
    assert "--skip" in lines[-1]


def test_jsonl_needs_a_source():
    with pytest.raises(ValueError, match="jsonl has no published files; give --source PATH"):
        load("jsonl", "all")


def test_a_folder_of_own_problems_goes_by_split(tmp_path):
    written(tmp_path, GOOD, name="train.jsonl")
    written(tmp_path, GOOD | {"id": "b"}, name="test.jsonl")
    ids = {s: [p.id for p in load("jsonl", s, tmp_path)] for s in ("train", "test", "all")}
    assert ids == {"train": ["a"], "test": ["b"], "all": ["b", "a"]}


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"not a \.jsonl or \.jsonl\.gz file"):
        load("jsonl", "all", written(tmp_path, GOOD, name="own.json"))


def test_starter_has_no_faults_and_as_many_problems_as_the_table_says():
    bundled = DATASETS["starter"].bundled
    assert bundled is not None
    assert check(bundled) == []
    problems = load("starter", "all")
    assert f"all {len(problems)}" == DATASETS["starter"].size
    assert all(problem.reference for problem in problems)


def test_problems_of_the_small_world_come_back_with_the_same_prompt_tests_and_verdict(tmp_path):
    told = ("id", "statement", "reference", "difficulty", "verbatim")
    made = load("pocket", "test")[:20]
    rows = [
        {name: getattr(problem, name) for name in told}
        | {"tags": list(problem.tags), "tests": [dict_of_test(test) for test in problem.tests]}
        for problem in made
    ]
    back = load("jsonl", "all", written(tmp_path, *rows))
    assert [
        replace(problem, origin="pocket", tests=tuple(problem.tests)) for problem in back
    ] == made
    assert [messages(problem) for problem in back] == [messages(problem) for problem in made]
    with Verifier(2) as verifier:
        assert all(v.passed for v in verifier.judge([(p.reference or "", p.tests) for p in back]))
