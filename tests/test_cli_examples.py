"""Every example of the help works as printed, from a clone of the repository."""

import json
import shlex
from pathlib import Path

import pytest

from maxk.cli.table import EXAMPLES
from tests.command import maxk

ROOT = Path(__file__).parent.parent
SAID = {  # what each is about to say, at the least
    "train": "finished at step 5",
    "merge": "0.3 of pocket, 0.7 of runs/bon",
    "solve": "passes all the tests",
    "sample": "160 completions in runs/base",
    "verify": "160 graded now",
    "evaluate": "pass@k",
    "compare": "base - tuned",
    "power": "8 runs a side",
    "forecast": "gain over n",
    "allocate": "allocation, cross-validated",
    "report": "report.html",
    "data": "pocket\n  train 1600",
    "data list": "pocket\n  train 1600",
    "data show": "--- the reference ---",
    "data check": "no faults",
    "data verify": "0 fail",
    "runs": "160 of 160 verdicts",
    "runs show": "160 of 160 verdicts",
    "runs join": "2 shards in runs/whole",
    "runs convert": "has format 2 already",
    "doctor": "tier ",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A folder in which the lines run one after another, as whoever tries them out does it."""
    folder = tmp_path_factory.mktemp("a clone")
    (folder / "configs").symlink_to(ROOT / "configs")
    return folder


SAMPLE = "sample --model pocket --data pocket --max-tokens 20 --no-verify"
TRAIN = {"train", "merge"}  # examples of what a training gives
done: dict[str, str] = {}  # the lines that have run, and what they said


def said(line: str, clone: Path) -> str:
    if line not in done:
        if line.startswith("echo "):
            text, _, file = line.removeprefix("echo ").rpartition(" >")
            (clone / file).write_text(shlex.split(text)[0] + "\n")
            done[line] = ""
        else:
            ran = maxk(*shlex.split(line)[1:], cwd=clone)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            done[line] = ran.stdout
    return done[line]


def short(line: str) -> str:
    """A step in place of five, for examples of what comes after; not if five were made."""
    training = line.startswith("maxk train") and line not in done
    return line.replace("--trl.max_steps 5", "--trl.max_steps 1") if training else line


@pytest.mark.filterwarnings("default")  # of TRL and its libraries
@pytest.mark.parametrize(
    "name",
    # Tests of their own hold what the slow ones do.
    [pytest.param(n, marks=[pytest.mark.slow] * (n in TRAIN | {"runs join"})) for n in EXAMPLES],
)
def test_the_example_works_and_says_something_useful(name, clone):
    lines = EXAMPLES[name] if name in TRAIN else [*map(short, EXAMPLES[name])]
    *_, last = [said(line, clone) for line in lines]
    assert SAID[name] in last


def test_the_problem_that_solve_begins_with_is_solved_in_the_first_wave(clone):
    assert "8 samples" in said(EXAMPLES["solve"][0], clone)


def test_a_larger_n_adds_samples_and_a_smaller_one_is_refused(clone):
    line = f"{SAMPLE} --limit 3 --out runs/more -n"
    assert "6 of them new" in maxk(*line.split(), 2, cwd=clone).stdout
    assert "3 of them new" in maxk(*line.split(), 3, cwd=clone).stdout
    again = maxk(*line.split(), 2, cwd=clone)
    assert again.returncode == 1
    assert again.stderr.splitlines()[1:] == [
        "  n: 3 there, 2 asked",
        "choose another --out, or delete the run that is there with --restart",
    ]
    assert "of them new" not in maxk(*line.split(), 3, cwd=clone).stdout
    assert "6 of them new" in maxk(*line.split(), 2, "--restart", cwd=clone).stdout


def test_what_was_begun_without_samples_is_no_run(clone):
    line = f"{SAMPLE} --limit 2 -n 2 --out runs/begun"
    ran = maxk(*line.replace("pocket --data", "no/such/model --data").split(), cwd=clone)
    assert ran.returncode == 1
    assert not (clone / "runs/begun").exists()
    assert maxk(*line.split(), cwd=clone).returncode == 0
    for part in (clone / "runs/begun/completions").iterdir():
        part.unlink()  # as if it had been killed before the first sample
    line = line.replace("--limit 2", "--limit 3")
    assert "6 of them new" in maxk(*line.split(), cwd=clone).stdout


def test_a_bad_problem_is_named_counted_and_left_out(clone):
    good = {"id": "a", "statement": "Print 2 times the number plus 17.", "verbatim": True}
    good["tests"] = [{"input": "1", "output": "19"}]
    long = {**good, "id": "long", "statement": "Print it. " * 40}
    rows = [json.dumps(good), "{", json.dumps({**good, "id": "b", "tests": []}), json.dumps(long)]
    (clone / "some.jsonl").write_text("\n".join(rows) + "\n")
    line = "sample --model pocket --data jsonl --source some.jsonl -n 2 --out runs/some"
    ran = maxk(*line.split(), cwd=clone)
    assert ran.returncode == 1
    assert "--skip" in ran.stderr.splitlines()[-1]
    assert not (clone / "runs/some").exists()
    ran = maxk(*line.split(), "--skip", cwd=clone)
    assert ran.returncode == 0, ran.stderr
    for each in ("line 2: not JSON", "line 3, tests: is empty", "long: its prompt has"):
        assert each in ran.stdout
    assert ran.stdout.count("left out: ") == 3
    assert "2 completions in runs/some" in ran.stdout


def test_rows_that_cannot_be_graded_are_named_counted_and_left_out(clone):
    tests = [{"input": "1", "output": "1"}]
    rows = [{"program": "print(1)", "tests": tests}, {"program": 5, "tests": tests}]
    text = "".join(json.dumps(row) + "\n" for row in rows) + "{\n"
    (clone / "rows.jsonl").write_text(text)
    ran = maxk("verify", "rows.jsonl", "--skip", cwd=clone)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("left out: rows.jsonl, ") == 2
    assert "completions 1, of which 1 graded now" in " ".join(ran.stdout.split())


def test_integers_of_thousands_of_digits_stop_nothing(clone):
    """As in HumanEval+, where the release has inputs and the reference says what is right."""
    rows = [humaneval_plus(1, "10 ** (3 * n)"), humaneval_plus(2, "open('no such file')")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (clone / "HumanEvalPlus.jsonl").write_text(text)
    which = "--source HumanEvalPlus.jsonl"
    ran = maxk(*f"data show humaneval-plus --id 1 {which}".split(), cwd=clone)
    assert '"expected_python": "0x' in ran.stdout
    ran = maxk(*f"data verify humaneval-plus {which} --skip".split(), cwd=clone)
    assert ran.returncode == 0, ran.stderr
    assert "2 with a reference, 0 fail" not in ran.stdout
    assert "humaneval-plus/2: the reference fails on all inputs" in ran.stdout
    line = f"sample --model pocket --data humaneval-plus {which} -n 2 --max-tokens 5 --out runs/he"
    ran = maxk(*line.split(), cwd=clone)
    assert "humaneval-plus/2: the reference fails on all inputs" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "leave them out with --skip"
    ran = maxk(*line.split(), "--skip", cwd=clone)
    assert ran.returncode == 0, ran.stderr
    assert "2 completions in runs/he" in ran.stdout
    right = {"problem": "humaneval-plus/1", "program": "def f(n): return 1000 ** n"}
    wrong = {"problem": "humaneval-plus/1", "program": "def f(n): return 10 ** n"}
    text = "".join(json.dumps(row) + "\n" for row in (right, wrong))
    (clone / "programs.jsonl").write_text(text)
    line = f"verify programs.jsonl --data humaneval-plus {which} --skip"
    ran = maxk(*line.split(), cwd=clone)
    assert "passed all tests 50.00%" in " ".join(ran.stdout.split())


def humaneval_plus(number: int, result: str) -> dict[str, object]:
    prompt = "def f(n):\n"
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": prompt,
        "entry_point": "f",
        "canonical_solution": f"    return {result}\n",
        "base_input": [[1]],
        "plus_input": [[2000]],
        "atol": 0,
        "contract": "",
    }
