"""`grade_run` in several processes: the verdicts of one, and an end to all when one ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from maxk.grade.parallel import grade_run, shares_of
from maxk.sample import sample
from maxk.store.run import Run
from maxk.store.tables import pairs_of
from maxk.verify import Limits, VerifierSettings
from tests.sample.test_run import DOUBLE, SETTINGS, Fixed, problems, rows, start

TWO = VerifierSettings(workers=8, limits=Limits(cpu_seconds=1.0, wall_seconds=5.0))
TEXTS = {
    0: DOUBLE,
    1: "```python\nn = int(input())\nprint(n * 2 if n < 2 else 7)\n```",
    2: "```python\nprint(\n```",
    3: "",
    4: "```python\nraise SystemExit(1)\n```",
}


def sampled(folder: Path, texts: dict[int, str] = TEXTS) -> Run:
    run = start(folder)
    sample(problems(3), Fixed(texts), run, 5, SETTINGS, part_rows=2)
    return run


def without_times(run: Run, table: str) -> list[dict[str, Any]]:
    made = rows(run, table)
    for row in made:
        tests = [(status, reason) for status, reason, _ in json.loads(row["tests"])["tests"]]
        row["tests"] = tests
    return made


def test_several_processes_give_the_verdicts_of_one(tmp_path, graders):
    run = sampled(tmp_path / "run")
    told: list[tuple[int, float]] = []
    assert grade_run(run, TWO, on_graded=lambda *judged: told.append(judged)) == 15
    assert len(graders) == 2
    assert all(judge.returncode is not None for judge in graders)
    assert [row["reward"] for row in rows(run, "verdicts")] == [1.0, 0.5, 0.0, 0.0, 0.0] * 3
    assert sum(count for count, _ in told) == 15
    assert sum(reward for _, reward in told) == pytest.approx(4.5)
    assert grade_run(run, VerifierSettings(1, TWO.limits), "alone") == 15
    assert len(graders) == 2  # of the first call
    assert without_times(run, "alone") == without_times(run, "verdicts")
    assert grade_run(run, TWO) == 0


def test_a_process_that_dies_ends_the_others_and_the_next_call_makes_up_for_it(tmp_path, graders):
    slow = "```python\nimport time\ntime.sleep({})\nprint(int(input()) * 2)\n```"
    run = sampled(tmp_path / "run", {i: slow.format(0.2 + i / 100) for i in range(5)})

    def kill(completions: int, reward: float) -> None:
        graders[0].kill()

    with pytest.raises(RuntimeError, match="the process that grades ended before"):
        grade_run(run, TWO, on_graded=kill)
    assert all(judge.returncode is not None for judge in graders)
    left = 15 - len(pairs_of(run, "verdicts"))
    assert left > 0
    assert grade_run(run, VerifierSettings(4, TWO.limits)) == left
    assert {row["reward"] for row in rows(run, "verdicts")} == {1.0}


def test_a_fault_of_who_is_told_ends_all(tmp_path, graders):
    run = sampled(tmp_path / "run")

    def fail(completions: int, reward: float) -> None:
        raise OSError("the screen is gone")

    with pytest.raises(OSError, match="the screen is gone"):
        grade_run(run, TWO, on_graded=fail)
    assert all(judge.returncode is not None for judge in graders)


@pytest.mark.parametrize(
    ("workers", "parts", "expected"),
    [
        (1, 9, [1]),
        (7, 9, [7]),
        (8, 9, [4, 4]),
        (32, 9, [4] * 8),
        (32, 3, [11, 11, 10]),
        (8, 0, [8]),
    ],
)
def test_jails_are_shared_between_processes(workers, parts, expected):
    assert [share.workers for share in shares_of(VerifierSettings(workers), parts)] == expected
