"""Runs as `maxk sample` and `maxk train` leave them, with every reward and text given."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from maxk.records import Problem, Status, StdinTest, Test, TestResult, Verdict
from maxk.store.codec import dict_of_verdict
from maxk.store.run import Run
from maxk.store.tables import COMPLETIONS, PROBLEMS, VERDICTS, row_of_problem, verdict_row

TESTS = (StdinTest("3", "6"), StdinTest("-1", "-2"), StdinTest("20", "40"), StdinTest("7", "14"))


def problem(name: str, statement: str = "Double it.", tests: Sequence[Test] = TESTS) -> Problem:
    level = ("easy", "hard")[len(name) % 2]
    return Problem(name, statement, tests, reference="print(2 * int(input()))", difficulty=level)


def verdict(passed: int, total: int = 4, got: str = "got 5") -> Verdict:
    """The first `passed` of the tests pass."""
    right, wrong = TestResult(Status.PASSED, "", 0.25), TestResult(Status.WRONG_ANSWER, got, 0.25)
    return Verdict((right,) * passed + (wrong,) * (total - passed), "A")


def sampled(
    folder: Path,
    passes: Mapping[str, Sequence[int]],
    text: Any = None,
    problems: Mapping[str, Problem] | None = None,
    entropy: float | None = 0.5,
    got: str = "got 5",
    prompt_variants: Sequence[str] = (),
    **settings: Any,
) -> Path:
    """A sampling run. passes[problem][sample] is how many of the four tests pass."""
    n = min(map(len, passes.values()))
    config = {
        "model": folder.name,
        "backend": "transformers",
        "n": n,
        "data": {"name": "made up", "split": "test"},
        "settings": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256, "seed": 0} | settings,
        **({"prompt_variants": list(prompt_variants)} if prompt_variants else {}),
    }
    run = Run.start(folder, "sample", config)
    known = problems or {name: problem(name) for name in passes}
    rows = [row_of_problem(known[name]) for name in passes]
    run.write("problems", "0000", pa.Table.from_pylist(rows, PROBLEMS))
    completions, verdicts = [], []
    for name, counts in passes.items():
        for sample, count in enumerate(counts):
            completions.append(
                {
                    "problem": name,
                    "sample": sample,
                    "completion": text(name, sample) if text else f"print({count})  # {sample}",
                    "tokens": 10 + sample,
                    "finish": "length" if sample == 0 else "stop",
                    "entropy": None if entropy is None else entropy + sample / 100,
                }
            )
            verdicts.append(verdict_row(name, sample, verdict(count, got=got), "A"))
    # Samples come in whatever order they are done.
    run.write("completions", "000000", pa.Table.from_pylist(completions[::-1], COMPLETIONS))
    run.write("verdicts", "000000", pa.Table.from_pylist(verdicts[::-1], VERDICTS))
    return folder


def trained(folder: Path, steps: int = 6, n: int = 4, finished: bool = True) -> Path:
    """A training run of two problems a step; the share of full rewards grows with the step."""
    config = {
        "model": {"name": "tiny"},
        "method": {"name": "off-policy-exact", "k": 2},
        "run": {"out": str(folder)},
    }
    run = Run.start(folder, "train", config)
    for step in range(steps):
        add_step(run, step, n)
    if finished:
        (folder / "model").mkdir()
    return folder


def add_step(run: Run, step: int, n: int = 4) -> None:
    rows = []
    for group in range(2):
        for sample in range(n):
            passed = 4 if sample <= step // 2 else group
            prompt = [{"role": "user", "content": f"Statement {group} <b>"}]
            rows.append(
                {
                    "step": step,
                    "group": group,
                    "sample": sample,
                    "problem": f"train/{group}",
                    "prompt": json.dumps(prompt),
                    "completion": f"print({step}, {sample})",
                    "reward": passed / 4,
                    "verdict": json.dumps(dict_of_verdict(verdict(passed))),
                    "weights": [0.25, -0.125],
                    "log_ratios": [0.0, 0.5],
                }
            )
    run.write("rollouts", f"step-{step:07d}", pa.Table.from_pylist(rows))
    rewards = [row["reward"] for row in rows]
    run.log(
        {
            "step": step + 1,
            "reward": sum(rewards) / len(rewards),
            "max_at/1": sum(rewards) / len(rewards),
            "max_at/4": 1.0,
            "entropy": 0.5 - step / 100,
            "policy_lag/iteration_1/mean": 0.0,
            "policy_lag/iteration_2/mean": 0.1 * step,
            "policy_lag/iteration_2/max": 0.2 * step,
            "groups/zero_variance": 0.25,
            "groups/all_correct": 0.0,
            "seconds/sampling": 2.0,
            "seconds/verifying": 1.0,
            "seconds/pre-pass": 0.0,
            "seconds/update": 3.0,
        }
    )
