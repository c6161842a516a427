"""Time, memory and size of `maxk report` on two runs of 500 problems x 256 stored completions.

    python benchmarks/report.py              # about a minute
    python benchmarks/report.py --keep DIR   # leave the runs and the report there

No model is run. A completion is the solution of a bundled problem, rewritten as models vary theirs:
other names, comments, helpers, constants and detours, some 400 characters of which about 70 % are
unlike those of any other sample. Real programs of one problem share at least as much.
"""

import argparse
import json
import keyword
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from maxk.data import load
from maxk.records import Problem, Status, TestResult, Verdict
from maxk.store.run import Run
from maxk.store.tables import COMPLETIONS, PROBLEMS, VERDICTS, row_of_problem, verdict_row

PROBLEMS_WANTED, N, PART, TESTS = 500, 256, 4096, 10
WORDS = "read parse the first line input values then compute result loop over each item and keep "
WORDS += "track of best total count print answer handle edge case when empty return early sort"
NAMES = ["n", "m", "x", "y", "a", "b", "arr", "nums", "values", "data", "res", "result", "ans"]
NAMES += ["total", "count", "cur", "best", "i", "j", "k", "line", "s", "text", "words", "tmp"]
DETOURS = [
    "if not {0}:\n    {0} = 0",
    "{0} = {0} if {0} else None",
    "while False:\n    {0} -= {2}",
    "for {1} in range({2}):\n    pass",
    "{0}_{1} = [{2}] * {3}",
    "try:\n    {0} = int({0})\nexcept Exception:\n    pass",
    "assert {2} <= {3}",
    "def helper({0}, {1}={2}):\n    return {0} + {1}",
    "print_{0} = lambda {1}: {1} * {3}",
]


def rewritten(program: str, chance: random.Random) -> str:
    """The program as another sample of the same model might have it; not necessarily right."""
    own = sorted(
        set(re.findall(r"\b[a-z_]\w*\b", program)) - set(keyword.kwlist) - set(dir(__builtins__))
    )
    names = {name: chance.choice(NAMES) for name in own if len(name) < 7 and chance.random() < 0.5}
    lines = re.sub(r"\b[a-z_]\w*\b", lambda m: names.get(m[0], m[0]), program).split("\n")
    out = []
    for line in lines:
        if chance.random() < 0.3:
            indent = line[: len(line) - len(line.lstrip())]
            out.append(indent + "# " + " ".join(chance.sample(WORDS.split(), chance.randint(3, 8))))
        out.append(line)
    while len("\n".join(out)) < chance.gauss(400, 120):
        detour = chance.choice(DETOURS).format(
            *chance.sample(NAMES, 2), chance.randint(0, 9), chance.randint(10, 99)
        )
        tops = [i for i, line in enumerate(out) if line[:1].strip()]
        at = chance.choice([*tops, len(out)])
        out[at:at] = detour.split("\n")
    return "\n".join(out)


def write_run(folder: Path, seed: int, lift: float) -> None:
    chance = random.Random(seed)
    settings = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256, "seed": 0, "chat": True}
    data = {"name": "made up", "split": "test"}
    run = Run.start(folder, "sample", {"model": "m", "n": N, "data": data, "settings": settings})
    starter = load("starter", "all")
    problems = [
        Problem(
            **{
                **{name: getattr(old, name) for name in ("entry_point", "reference", "examples")},
                "id": f"made up/{i:03d}",
                "statement": old.statement
                + "\n\n"
                + " ".join(chance.choices(WORDS.split(), k=120)),
                "tests": (list(old.tests) * TESTS)[:TESTS],
                "difficulty": ("easy", "medium", "hard")[i % 3],
            }
        )
        for i, old in enumerate((starter * 4)[:PROBLEMS_WANTED])
    ]
    rows = [row_of_problem(problem) for problem in problems]
    run.write("problems", "0000", pa.Table.from_pylist(rows, PROBLEMS))
    rate_P = np.random.default_rng(0).beta(0.4, 1.2, len(problems)) * (1 - lift) + lift
    completions, verdicts = [], []
    for problem, rate in zip(problems, rate_P, strict=True):
        common = [rewritten(problem.reference or "", chance) for _ in range(8)]
        for sample in range(N):
            unlike = chance.random() < 0.7
            text = rewritten(problem.reference or "", chance) if unlike else chance.choice(common)
            results = [_fate(chance, rate) for _ in range(TESTS)]
            completions.append(
                {
                    "problem": problem.id,
                    "sample": sample,
                    "completion": f"```python\n{text}\n```",
                    "tokens": len(text) // 3,
                    "finish": "stop",
                    "entropy": chance.gammavariate(2, 0.1 - 0.04 * lift),
                }
            )
            verdicts.append(verdict_row(problem.id, sample, Verdict(tuple(results), "A"), "A"))
    for part, start in enumerate(range(0, len(completions), PART)):
        some = slice(start, start + PART)
        run.write(
            "completions", f"{part:06d}", pa.Table.from_pylist(completions[some], COMPLETIONS)
        )
        run.write("verdicts", f"{part:06d}", pa.Table.from_pylist(verdicts[some], VERDICTS))


def _fate(chance: random.Random, rate: float) -> TestResult:
    if chance.random() < rate ** (1 / 4):
        return TestResult(Status.PASSED, "", 0.001)
    if chance.random() < 0.1:
        return TestResult(
            Status.RUNTIME_ERROR, f"ValueError at line {chance.randint(1, 20)}", 0.001
        )
    return TestResult(Status.WRONG_ANSWER, f"got {chance.randint(-99, 999)}", 0.001)


MEASURED = """
import json, re, sys
from maxk.cli import main
sys.argv = ["maxk", *sys.argv[1:]]
try:
    main()
finally:
    print("VmHWM", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def measure(out: Path, *command: str) -> None:
    begun = time.perf_counter()
    given = [sys.executable, "-c", MEASURED, "report", *command, "--out", str(out)]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    peak = re.search(r"VmHWM (\d+)", done.stdout)
    if done.returncode or peak is None:
        raise RuntimeError(done.stdout + done.stderr)
    shown = {"seconds": round(seconds, 1), "MB of memory": int(peak[1]) // 1024}
    shown["MB of page"] = round(out.stat().st_size / 1e6, 2)
    print(" ".join(word for word in command if "/" not in word) or "default", json.dumps(shown))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        runs = [folder / "before", folder / "after"]
        for seed, run in enumerate(runs):
            if not run.exists():
                write_run(run, seed, lift=0.15 * seed)
        measure(folder / "one.html", str(runs[0]))
        measure(folder / "two.html", *map(str, runs))
        measure(folder / "all.html", *map(str, runs), "--samples", "all")


if __name__ == "__main__":
    main()
