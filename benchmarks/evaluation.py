"""Time and memory of `maxk evaluate` and `maxk compare` on 500 problems x 256 stored completions.

    python benchmarks/evaluation.py      # about a minute

The completions are programs of the small world, right and wrong, with rewards at random; the
commands run as a user types them, in processes of their own.
"""

import re
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from maxk.pocket import examples
from maxk.store.run import Run

PROBLEMS, N, PART = 500, 256, 1024
MEASURED = """
import re, sys
from maxk.cli import main
sys.argv = ["maxk", *sys.argv[1:]]
try:
    main()
finally:
    print("VmHWM", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def write_run(folder: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    settings = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256, "seed": 0, "chat": True}
    data = {"name": "made up", "split": "test"}
    run = Run.start(folder, "sample", {"model": "m", "n": N, "data": data, "settings": settings})
    ids = [f"made up/{i}" for i in range(PROBLEMS)]
    level = [("easy", "medium", "hard")[i % 3] for i in range(PROBLEMS)]
    run.write(
        "problems",
        "0000",
        pa.table({"id": ids, "difficulty": level, "entry_point": [""] * PROBLEMS}),
    )
    programs = [program for _, program in islice(examples(seed), PROBLEMS * N)]
    rate = random.beta(0.3, 1, PROBLEMS)
    rewards = random.binomial(10, np.repeat(rate, N)) / 10
    for part in range(PROBLEMS * N // PART):
        rows = range(part * PART, (part + 1) * PART)
        owner = {"problem": [ids[i // N] for i in rows], "sample": [i % N for i in rows]}
        texts = {"completion": [f"```python\n{programs[i]}\n```" for i in rows]}
        extra = {"tokens": [60] * PART, "entropy": random.random(PART).tolist()}
        run.write("completions", f"{part:05d}", pa.table({**owner, **texts, **extra}))
        values = rewards[part * PART : (part + 1) * PART]
        status = ["passed" if value == 1 else "wrong answer" for value in values]
        verdicts = {**owner, "reward": values, "status": status}
        run.write("verdicts", f"{part:05d}", pa.table(verdicts))


def measure(*command: str) -> None:
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - begun
    peak = re.search(r"VmHWM (\d+)", done.stdout)
    if done.returncode or peak is None:
        raise RuntimeError(done.stderr)
    shown = " ".join(word for word in command if "/" not in word)
    print(f"maxk {shown:<32}{seconds:6.1f} s   {int(peak[1]) / 1024:6.0f} MB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder, f"run{i}") for i in range(3)]
        for seed, run in enumerate(runs):
            write_run(run, seed)
        measure("evaluate", str(runs[0]))
        measure("evaluate", "--no-diversity", str(runs[0]))
        measure("compare", *map(str, runs))
        measure("forecast", str(runs[0]))


if __name__ == "__main__":
    main()
