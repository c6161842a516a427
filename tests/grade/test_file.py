"""`maxk verify`: stored completions judged, stopped, resumed; nothing twice and nothing lost."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from maxk.grade.file import grade_file, verdicts_path
from maxk.verify import Limits, Verifier
from tests.command import maxk

TESTS = [{"input": str(i), "output": str(2 * i)} for i in range(4)]
DOUBLE = "Sure:\n```python\nprint(int(input()) * 2)\n```\n"
HALF = "```python\nn = int(input()); print(n * 2 if n < 2 else 0)\n```"
MAXK = Path(sys.executable).with_name("maxk")


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2, limits=Limits(cpu_seconds=1, wall_seconds=5)) as running:
        yield running


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def fractions(path: Path) -> list[float]:
    found = {line["row"]: line["fraction"] for line in lines(path)[1:]}
    assert len(found) == len(lines(path)) - 1, "a row has two verdicts"
    return [found[i] for i in range(len(found))]


def jsonl(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_jsonl_gz_and_parquet_give_the_same_verdicts(verifier, tmp_path):
    rows = [{"completion": text, "tests": TESTS} for text in (DOUBLE, HALF, "", "x = =")]
    plain = jsonl(tmp_path / "plain.jsonl", rows)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    table = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    for file in (plain, packed, table):
        summary = grade_file(file, verifier)
        assert fractions(verdicts_path(file)) == [1.0, 0.5, 0.0, 0.0]
        assert (summary.rows, summary.judged, summary.passed, summary.reward) == (4, 4, 1, 1.5)
        head = lines(verdicts_path(file))[0]
        assert (head["maxk_verdicts"], head["of"]) == (1, file.name)  # docs/reference/files.md


def test_tests_and_preamble_by_problem(tmp_path):
    problem = {"id": "root", "statement": "?", "tests": [{"input": "9", "output": "3.0"}]}
    problems = jsonl(tmp_path / "problems.jsonl", [{**problem, "preamble": "from math import *"}])
    rows = [{"program": "print(sqrt(int(input())))", "problem": "root"}]
    file = jsonl(tmp_path / "a.jsonl", rows)
    given = ["--data", "jsonl", "--split", "all", "--source", problems]
    run = maxk("verify", file, *given)
    assert run.returncode == 0, run.stderr
    assert fractions(verdicts_path(file)) == [1.0]
    assert lines(verdicts_path(file))[1]["problem"] == "root"


def test_the_first_line_says_how_the_verdicts_were_made(verifier, tmp_path):
    file = jsonl(tmp_path / "a.jsonl", [{"completion": DOUBLE, "tests": TESTS}])
    grade_file(file, verifier)
    first, second = lines(verdicts_path(file))
    assert first["of"] == "a.jsonl"
    assert first["limits"]["cpu_seconds"] == 1
    assert second["tests"][0][0] == "passed"
    assert second["tier"] == verifier.tier


def test_only_what_has_no_verdict_is_judged(verifier, tmp_path):
    rows = [{"completion": DOUBLE, "tests": TESTS} for _ in range(6)]
    file = jsonl(tmp_path / "a.jsonl", rows[:4])
    grade_file(file, verifier)
    out = verdicts_path(file)
    kept = out.read_bytes().splitlines(keepends=True)
    # As after a power cut: a line is missing, another was cut off in the middle.
    out.write_bytes(b"".join([kept[0], kept[1], kept[3], kept[4][:40]]))
    jsonl(file, rows)
    summary = grade_file(file, verifier)
    assert (summary.rows, summary.judged) == (6, 4)
    assert fractions(out) == [1.0] * 6
    assert grade_file(file, verifier).judged == 0


def test_verdicts_of_other_programs_or_limits_are_not_taken_for_these(verifier, tmp_path):
    file = jsonl(tmp_path / "a.jsonl", [{"completion": DOUBLE, "tests": TESTS}] * 2)
    grade_file(file, verifier)
    with (
        Verifier(workers=1, limits=Limits(cpu_seconds=2)) as other,
        pytest.raises(ValueError, match=r"was made with limits=.*'cpu_seconds': 1"),
    ):
        grade_file(file, other)
    jsonl(file, [{"completion": DOUBLE, "tests": TESTS}, {"completion": HALF, "tests": TESTS}])
    with pytest.raises(ValueError, match="line 2: program or tests are not those"):
        grade_file(file, verifier)
    jsonl(file, [{"completion": DOUBLE, "tests": TESTS}])
    with pytest.raises(
        ValueError, match=r"verdicts of 1 rows that .* does not have, the first with row 1;"
    ):
        grade_file(file, verifier)
    with pytest.raises(ValueError, match="is no file of verdicts"):
        grade_file(file, verifier, out=jsonl(tmp_path / "b.jsonl", [{"a": 1}]))
    notes = tmp_path / "notes.txt"
    for text in ("a line\nno end of the line", "[1]", "{}"):
        notes.write_text(text)
        with pytest.raises(ValueError, match="is no file of verdicts"):
            grade_file(file, verifier, out=notes)
        assert notes.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"completion": "x", "tests": [{"assert": "1"}]}\n\n{"completion"', "a.jsonl, line 3: "),
        ('{"tests": [{"assert": "f()"}]}', "a.jsonl, line 1 has no text in the field completion"),
        ('{"completion": "x", "tests": []}', "line 1, field tests: there are none"),
        ('{"completion": "x"}', "a.jsonl, line 1 has no tests, and no problem"),
        ('{"completion": "x", "problem": ["q"]}', "line 1, field problem is a list; use text"),
        ('{"completion": "x", "problem": 3, "tests": []}', "field problem is a int; use text"),
        ('{"completion": "x", "problem": "q"}', "problem 'q' is not among the problems"),
        ('{"completion": "x", "tests": [{}]}', "line 1, field tests: test 1 has the fields none"),
        (
            '{"completion": "x", "tests": [{"assert": "f(g())"}]}',
            "line 1, field tests: test 1: the code of a test uses f, g",
        ),
        ("[1]", "a.jsonl, line 1 is a list; use an object"),
        ("", "a.jsonl is empty; give a file with completions"),
        ("\n\n", "a.jsonl is empty"),
    ],
)
def test_a_bad_row_is_named(verifier, tmp_path, text, message):
    file = tmp_path / "a.jsonl"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        grade_file(file, verifier)


def test_rows_that_cannot_be_graded_are_named_and_the_rest_is_graded(tmp_path):
    good = {"completion": DOUBLE, "tests": TESTS}
    wrong = {"input": "1", "output": 2}
    rows = [good, {**good, "problem": ["p"]}, {**good, "tests": [wrong]}, {**good, "tests": []}]
    file = jsonl(tmp_path / "a.jsonl", [*rows, good])
    for more, code in ([], 1), (["--skip"], 0):
        run = maxk("verify", file, *more)
        assert run.returncode == code
        assert "Traceback" not in run.stderr
        said = " ".join((run.stdout + run.stderr).split())
        assert "a.jsonl, line 2, field problem is a list; use text, an id" in said
        assert "a.jsonl, line 3, field tests: test 1.output is a int; use a str" in said
        assert "a.jsonl, line 4, field tests: there are none" in said
        assert ("3 rows could not be graded" in said) == (code == 1)
        found = {line["row"]: line["fraction"] for line in lines(verdicts_path(file))[1:]}
        assert found == {0: 1.0, 4: 1.0}


def test_the_command_shows_a_summary_and_names_the_file(tmp_path):
    file = jsonl(tmp_path / "a.jsonl", [{"completion": t, "tests": TESTS} for t in (DOUBLE, HALF)])
    run = maxk("verify", file)
    assert run.returncode == 0, run.stderr
    said = " ".join(run.stdout.split())
    assert "completions 2, of which 2 graded now" in said
    assert "passed all tests 50.00%" in said
    assert "mean reward 0.7500" in said
    assert "tests: wrong answer 25.00%" in said
    assert str(tmp_path / "a.verdicts.jsonl") in run.stdout.replace("\n", "")


def test_the_command_fails_with_one_line_and_no_traceback(tmp_path):
    run = maxk("verify", tmp_path / "no.jsonl")
    assert run.returncode == 1
    assert run.stderr.startswith("maxk verify: ")
    assert "Traceback" not in run.stderr
    assert "no.jsonl" in run.stderr


def test_ctrl_c_stops_at_once_leaves_no_process_and_the_same_command_goes_on(tmp_path):
    # The first program never ends by itself; it must not hold up the end.
    sleeper = {"completion": "```python\nimport time\nwhile True: time.sleep(1)\n```"}
    quick = {"completion": DOUBLE}
    rows = [{**row, "tests": TESTS} for row in [quick] * 30 + [sleeper] + [quick] * 30]
    file = jsonl(tmp_path / "a.jsonl", rows)
    out = verdicts_path(file)
    limits = ["--limits.wall-seconds", "60", "--workers", "2"]
    run = subprocess.Popen(
        [MAXK, "verify", file, *limits],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        # A suite that runs in the background of a shell has Ctrl-C switched off, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not out.exists() or len(lines_of(out)) < 61:  # all but the sleeper's, with the header
        assert time.monotonic() < deadline
        time.sleep(0.05)
    below = descendants(run.pid)
    assert len(below) >= 2
    stopped = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: the whole group
    said, _ = run.communicate(timeout=20)
    assert time.monotonic() - stopped < 10
    assert run.returncode == 130
    assert "repeat the command to go on" in said
    assert eventually(lambda: not any(map(alive, below)))
    assert len(lines_of(out)) == 61
    rows[30] = {**quick, "tests": TESTS}  # the program that never ends would take a minute
    jsonl(file, rows)
    again = maxk("verify", file, *limits)
    assert "completions 61, of which 1 graded now" in " ".join(again.stdout.split())
    assert fractions(out) == [1.0] * 61


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
