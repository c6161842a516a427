"""EvalPlus: expected results come from the jail, and each task's own rule holds."""

import ast
import json
from pathlib import Path

import pytest

from maxk.data import expected_values, load
from maxk.data.plus_rules import digit_distance, pyramid_area, restored
from maxk.records import AssertTest, CallTest
from maxk.verify import Limits, Verifier
from tests.data import published


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1, limits=Limits(cpu_seconds=1.0)) as started:
        yield started


def answered(tmp_path, verifier, *rows, name="mbpp-plus"):
    path = published.write_jsonl(tmp_path / "x.jsonl.gz", list(rows))
    return expected_values(load(name, "test", path), verifier)


def test_expected_results_are_those_of_the_reference(tmp_path, verifier):
    [problem], account = answered(tmp_path, verifier, published.mbpp_plus())
    assert list(problem.tests) == [
        CallTest("double", (n,), expected, 0.0, "evalplus")
        for n, expected in ((1, 2), (2, 4), (0, 0), (10, 20))
    ]
    assert (problem.examples, account.kept) == ((), 1)


def test_the_tests_answer_alone_when_first_used(tmp_path):
    [problem] = load(
        "mbpp-plus", "test", published.write_jsonl(tmp_path / "x.jsonl", [published.mbpp_plus()])
    )
    assert problem.tests[3] == CallTest("double", (10,), 20, 0.0, "evalplus")


def test_loading_runs_no_reference(tmp_path):
    row = published.mbpp_plus(canonical_solution=f"open({str(tmp_path / 'ran')!r}, 'w')")
    load("mbpp-plus", "test", published.write_jsonl(tmp_path / "x.jsonl", [row]))
    assert not (tmp_path / "ran").exists()


def test_atol_is_the_tolerance(tmp_path, verifier):
    [problem], _ = answered(tmp_path, verifier, published.mbpp_plus(atol=0.0001))
    assert problem.tests[0] == CallTest("double", (1,), 2, 0.0001, "evalplus")


def test_results_of_all_plain_types_arrive(tmp_path, verifier):
    code = "def double(x):\n    return {'a': (x, {x}), 'b': [None, 1.5, True, frozenset([2])]}"
    row = published.mbpp_plus(canonical_solution=code, plus_input={})
    [problem], _ = answered(tmp_path, verifier, row)
    expected = {"a": (1, {1}), "b": [None, 1.5, True, frozenset([2])]}
    assert problem.tests[0] == CallTest("double", (1,), expected, 0.0, "evalplus")
    assert len(problem.tests) == 2


def test_inputs_that_the_reference_fails_on_are_left_out_and_noted(tmp_path, verifier):
    code = (
        "def double(x):\n    while x == 0: pass\n    if x == 1: raise ValueError\n"
        "    return 2 * x if x != 10 else object()"
    )
    [problem], account = answered(tmp_path, verifier, published.mbpp_plus(canonical_solution=code))
    assert list(problem.tests) == [CallTest("double", (2,), 4, 0.0, "evalplus")]
    assert account.noted == {
        "inputs left out, reference: runtime error": 1,
        "inputs left out, reference: timeout": 1,
        "inputs left out, reference: result too large or not plain": 1,
    }


def test_a_problem_whose_reference_always_fails_is_dropped(tmp_path, verifier):
    rows = [published.mbpp_plus(1, canonical_solution="def double(x:"), published.mbpp_plus(3)]
    problems, account = answered(tmp_path, verifier, *rows)
    assert [problem.id for problem in problems] == ["mbpp-plus/3"]
    assert account.dropped == {"reference fails on all inputs": 1}


@pytest.mark.parametrize(
    ("number", "reference", "args", "right", "wrong"),
    [
        (2, "tuple(x)", [[1, 2]], ["[2, 1, 1]", "(1, 2)"], ["[1]"]),
        (88, "__import__('collections').Counter(x)", [[5, 5]], ["{5: 2}"], ["{5: 1}"]),
        (
            737,
            "__import__('re').match('a', x)",
            ["ab"],
            ["True", "__import__('re').match('a', x)"],
            ["False", "None"],
        ),
        (164, "x", [1], ["1", "None", "[0]"], ["1 / 0"]),
        (295, "x", [6], ["6", "0"], ["1"]),
        (558, "9", [1, 256], ["9", "12"], ["10"]),
        (581, "33", [3, 4], ["33", "35"], ["34"]),
    ],
)
def test_a_task_with_a_rule_accepts_what_evalplus_accepts(
    tmp_path, verifier, number, reference, args, right, wrong
):
    program = "def f(x, *y):\n    return {}\n".format
    row = published.mbpp_plus(
        number,
        entry_point="f",
        canonical_solution=program(reference),
        base_input=[args],
        plus_input=[],
    )
    [problem], _ = answered(tmp_path, verifier, row)
    judged = verifier.judge([(program(body), problem.tests) for body in (*right, *wrong)])
    assert [verdict.passed for verdict in judged] == [True] * len(right) + [False] * len(wrong)


def test_humaneval_32_accepts_any_root(tmp_path, verifier):
    row = published.humaneval(32, prompt="def find_zero(xs):\n", entry_point="find_zero")
    row |= {"base_input": [[[-1, 0, 1]]], "plus_input": [], "atol": 0.0001, "contract": ""}
    row["canonical_solution"] = "    return 1.0\n"
    [problem], _ = answered(tmp_path, verifier, row, name="humaneval-plus")
    assert problem.starter == "def find_zero(xs):\n"
    programs = [f"def find_zero(xs):\n    return {x}" for x in (1.0, -1.0, 1.00001, 1.01)]
    judged = verifier.judge([(program, problem.tests) for program in programs])
    assert [verdict.passed for verdict in judged] == [True, True, True, False]


def test_the_hub_form_holds_its_results_in_one_test(tmp_path, verifier):
    test = "inputs = [[1], [2]]\nresults = [2, 4]\n"
    test += "for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
    test += "    assert double(*inp) == exp\n"
    row = published.mbpp(602, prompt="Double it.", test=test, source_file="x", test_imports=[])
    path = published.write_parquet(tmp_path / "data/test-0.parquet", [row])
    [problem] = load("mbpp-plus", "test", path)
    assert problem.tests == (AssertTest(test, "double"),)
    assert (problem.id, problem.statement) == ("mbpp-plus/602", "Double it.")
    wrong = "def double(x):\n    return x + 1"
    judged = verifier.judge([(problem.reference or "", problem.tests), (wrong, problem.tests)])
    assert [verdict.passed for verdict in judged] == [True, False]


@pytest.mark.parametrize(
    ("number", "args", "expected"),
    [
        (602, [[1, [2]]], [[1, [2]]]),
        (2, [[1], [2]], [(1,), (2,)]),
        (63, [[[1, 2], [3]]], [[(1, 2), (3,)]]),
        (75, [[[6, 24]], 6], [[(6, 24)], 6]),
        (106, [[1], [2]], [[1], (2,)]),
        (250, [[1, 2], 3], [(1, 2), 3]),
        (307, [["a", []], 1, 50], [("a", []), 1, 50]),
        (259, [[[1, 3]], [[6, 7]]], [((1, 3),), ((6, 7),)]),
        (580, [[4, [5, [6]]]], [(4, (5, (6,)))]),
        (115, [[[1, 2], []]], [[{1, 2}, {}]]),
        (124, ["1.5", "1j"], [1.5, 1j]),
        (252, ["(1+2j)"], [1 + 2j]),
        (278, [[1, [2, 3]]], [(1, (2, 3))]),
        (722, [{"a": [6.2, 70]}, 6.0, 70], [{"a": (6.2, 70)}, 6.0, 70]),
    ],
)
def test_arguments_have_the_types_they_had_before_json(number, args, expected):
    assert restored(number, args) == expected


ARGUMENTS = json.loads(Path(__file__).with_name("mbpp_arguments.json").read_text())


@pytest.mark.parametrize("number", ARGUMENTS)
def test_the_arguments_of_an_assert_of_mbpp_come_back_from_json(number):
    """One assert of each task whose arguments JSON cannot hold, as MBPP itself has them."""
    args = list(ast.literal_eval(f"({ARGUMENTS[number]},)"))
    read = json.loads(json.dumps(args))
    assert repr(read) != repr(args)
    assert repr(restored(int(number), read)) == repr(args)


def test_the_other_readings():
    assert [digit_distance(1, 2), digit_distance(23, 56), digit_distance(123, 256)] == [1, 6, 7]
    assert [pyramid_area(6, 4), pyramid_area(2, 0)] == [96, 8]
