"""CodeContests, Codeforces and the CURE form: what is shown, graded, dropped."""

from pathlib import Path

import pytest

from maxk.data import load, load_with_account
from maxk.records import StdinTest
from tests.data import published


def contest(tmp_path: Path, **changes):
    path = published.write_parquet(tmp_path / "x.parquet", [published.code_contests(**changes)])
    return load("code-contests", "train", path)


def forces(tmp_path: Path, *rows, **options):
    path = published.write_jsonl(tmp_path / "x.jsonl", list(rows))
    return load_with_account("codeforces", "test", path, **options)


# --- CodeContests --------------------------------------------------------------------------------


def test_public_tests_are_shown_and_all_are_graded(tmp_path):
    [problem] = contest(tmp_path)
    assert problem.examples == (StdinTest("1 2\n", "3\n"),)
    assert [test.input for test in problem.tests if isinstance(test, StdinTest)] == [
        *("1 2\n", "2 2\n", "5 5\n", "6 1\n")
    ]


def test_the_reference_is_the_first_python_3_solution(tmp_path):
    [problem] = contest(tmp_path)
    assert problem.reference == "print(sum(map(int, input().split())))"


def test_without_a_python_3_solution_there_is_no_reference(tmp_path):
    solutions = {"language": [1, 2], "solution": ["print 1", "int main"]}
    [problem] = contest(tmp_path, solutions=solutions)
    assert problem.reference is None


def test_the_source_tells_equal_names_apart(tmp_path):
    rows = [published.code_contests(source=source) for source in (1, 2)]
    path = published.write_parquet(tmp_path / "x.parquet", rows)
    ids = [problem.id for problem in load("code-contests", "train", path)]
    assert ids == ["code-contests/codechef/1000_A. Sum", "code-contests/codeforces/1000_A. Sum"]


def test_time_limit_difficulty_and_tags(tmp_path):
    [problem] = contest(tmp_path)
    assert (problem.time_limit, problem.difficulty, problem.tags) == (1.5, "A", ("math",))


@pytest.mark.parametrize("limit", [None, {"seconds": None, "nanos": None}])
def test_a_missing_time_limit_is_none(tmp_path, limit):
    path = published.write_jsonl(tmp_path / "x.jsonl", [published.code_contests(time_limit=limit)])
    [problem] = load("code-contests", "train", path)
    assert problem.time_limit is None


@pytest.mark.parametrize("field", ["input_file", "output_file"])
def test_a_problem_with_files_is_dropped(tmp_path, field):
    rows = [published.code_contests(**{field: "a.txt"}), published.code_contests("other")]
    path = published.write_parquet(tmp_path / "x.parquet", rows)
    problems, account = load_with_account("code-contests", "train", path)
    assert len(problems) == 1
    assert account.dropped == {"reads or writes a file": 1}


def test_carriage_returns_leave_statement_and_tests(tmp_path):
    crlf = {"input": ["1\r\n2\r\n"], "output": ["3\r\n"]}
    [problem] = contest(tmp_path, description="a\r\nb", private_tests=crlf, public_tests=crlf)
    assert problem.statement == "a\nb"
    assert problem.examples == (StdinTest("1\n2\n", "3\n"),)
    assert problem.tests[1] == StdinTest("1\n2\n", "3\n")


def test_inputs_without_outputs_name_file_row_and_field(tmp_path):
    with pytest.raises(ValueError, match=r"x\.parquet, row 1, field private_tests: 1 inputs and 2"):
        contest(tmp_path, private_tests={"input": ["1"], "output": ["1", "2"]})


def test_a_40_mb_input_arrives_whole(tmp_path):
    large = "7 " * 20_000_000
    [problem] = contest(tmp_path, private_tests={"input": [large], "output": ["0"]})
    test = problem.tests[1]
    assert isinstance(test, StdinTest)
    assert test.input == large


def test_copies_with_flat_lists_show_nothing(tmp_path):
    row = {"id": "1000_a", "name": "A", "question": "Add.", "difficulty_raw": "8", "tags": ["x"]}
    row |= {"test_input": ["1\r\n"], "test_output": '["2"]', "solution": "print(2)"}
    [problem] = load(
        "code-contests", "train", published.write_jsonl(tmp_path / "x.jsonl.gz", [row])
    )
    assert (problem.id, problem.difficulty) == ("code-contests/1000_a", "B")
    assert problem.examples == ()
    assert list(problem.tests) == [StdinTest("1\n", "2")]


# --- Codeforces ----------------------------------------------------------------------------------


def test_examples_come_first_and_are_not_graded_twice(tmp_path):
    [problem], _ = forces(tmp_path, published.codeforces())
    assert problem.examples == (StdinTest("12\n", "3\n"),)
    assert list(problem.tests) == [StdinTest("12\n", "3\n"), StdinTest("99\n", "18\n")]


def test_the_statement_has_all_parts_in_order(tmp_path):
    [problem], _ = forces(tmp_path, published.codeforces())
    assert problem.statement == (
        "# Digits\n\nTime limit per test: 2 seconds\n\nPrint the sum of the digits.\n\n"
        "## Input\n\nOne number.\n\n## Output\n\nOne number.\n\n## Note\n\nNo zeros in front."
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interaction_format": "Ask."}, "interactive"),
        ({"input_mode": "file"}, "reads or writes a file"),
        ({"generated_checker": "import sys"}, "needs a special judge"),
        ({"executable": False}, "not executable"),
        ({"examples": [], "official_tests": []}, "no tests"),
        ({"examples": None, "official_tests": None}, "no tests"),
    ],
)
def test_what_cannot_be_judged_is_dropped_with_its_reason(tmp_path, change, reason):
    problems, account = forces(
        tmp_path, published.codeforces(**change), published.codeforces("1/B")
    )
    assert [problem.id for problem in problems] == ["codeforces/1/B"]
    assert account.dropped == {reason: 1}


def test_special_judge_keeps_problems_with_a_checker(tmp_path):
    row = published.codeforces(generated_checker="import sys")
    problems, account = forces(tmp_path, row, special_judge=True)
    assert len(problems) == 1
    assert not account.dropped


def test_incomplete_official_tests_are_kept_and_noted(tmp_path):
    [problem], account = forces(tmp_path, published.codeforces(official_tests_complete=False))
    assert problem.tags == ("math", "official tests incomplete")
    assert account.noted == {"official tests incomplete": 1}


# --- CURE ----------------------------------------------------------------------------------------


def test_cure_shows_examples_and_grades_the_others(tmp_path):
    path = published.write_json(tmp_path / "CodeContests.json", [published.cure(7)])
    [problem] = load("cure-code-contests", "test", path)
    assert problem.id == "cure-code-contests/7"
    assert problem.examples == (StdinTest("1 2\n", "3\n"),)
    assert list(problem.tests) == [StdinTest("2 2\n", "4\n"), StdinTest("3 3\n", "6\n")]
    assert (problem.difficulty, problem.time_limit) == ("MEDIUM", 1)
    assert problem.reference == "print(sum(map(int, input().split())))"


def test_cure_rows_without_ids_are_numbered(tmp_path):
    rows = [published.cure(task_id=None), published.cure(task_id=None)]
    problems = load("cure-mbpp", "test", published.write_json(tmp_path / "x.json", rows))
    assert [problem.id for problem in problems] == ["cure-mbpp/0", "cure-mbpp/1"]


def test_cure_rows_without_tests_are_dropped(tmp_path):
    rows = [published.cure(test_input=[], test_output=[])]
    _, account = load_with_account(
        "cure-live-bench", "test", published.write_json(tmp_path / "x.json", rows)
    )
    assert account.dropped == {"no tests": 1}


def test_outputs_with_a_decimal_point_are_compared_as_numbers_and_others_are_not(tmp_path):
    tests = {"input": ["1", "2", "3"], "output": ["0.333333\n", "7", "v1.5 is out"]}
    row = published.code_contests(public_tests=tests)
    [problem] = load("code-contests", "train", published.write_jsonl(tmp_path / "x.jsonl", [row]))
    shown = problem.examples
    assert [getattr(test, "tolerance", None) for test in shown] == [1e-5, None, None]
