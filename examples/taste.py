"""What maxk does, in twenty seconds: programs judged, samples weighed, two stored runs compared.

    python examples/taste.py --out out/taste

Nothing is trained and nothing is downloaded. The stored runs are 256 samples of each HumanEval
problem, from Qwen2.5-Coder-0.5B-Instruct before and after one GRPO training on LeetCode.
"""

import argparse
from pathlib import Path

import torch

from experiments.grid.results import unpack_set
from experiments.results.compact import GRID, RESULTS, joined, read
from maxk.estimators import advantages
from maxk.evaluate import curve
from maxk.evaluate.read import Stored, read_run
from maxk.records import StdinTest
from maxk.report import Findings, gather, page
from maxk.verify import Limits, Verifier

STORED = {"base": "base-final-s1", "grpo": "leetcode-grpo-final-s1"}
DOUBLE = [StdinTest("1", "2"), StdinTest("7", "14")]
PROGRAMS = {
    "right": "print(int(input()) * 2)",
    "right for one input": "print(2)",
    "does not compile": "print(int(input()) * 2",
    "never ends": "while True: pass",
    "opens a connection": "import socket; socket.socket().connect(('192.0.2.1', 80))",
    "leaves before its test ends": "import os; os._exit(0)",
}


def judged() -> None:
    """Six programs that are to print twice their input."""
    with Verifier(limits=Limits(cpu_seconds=0.5)) as verifier:
        verdicts = verifier.judge([(program, DOUBLE) for program in PROGRAMS.values()])
    for name, verdict in zip(PROGRAMS, verdicts, strict=True):
        found = ", ".join(result.status.value for result in verdict.tests)
        print(f"  {name:28} reward {verdict.fraction:.1f}   {found}")


def weighed() -> None:
    """One group of eight samples under three methods, k = 4."""
    rewards = torch.tensor([[1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]])
    log_ratios = torch.tensor([[0.0, -0.7, 0.7, 0.0, 0.7, 0.0, -0.7, 0.0]])  # some updates later
    found = {
        "rewards": rewards,
        "grpo": advantages("grpo", rewards),
        "bon-centered": advantages("bon-centered", rewards, 4),
        "off-policy-normalized": advantages("off-policy-normalized", rewards, 4, log_ratios),
    }
    for name, values in found.items():
        print(f"  {name:24}", *(f"{value:+6.2f}" for value in values[0].tolist()))


def compared(runs: dict[str, Stored]) -> None:
    """max@k with intervals over problems."""
    for name, run in runs.items():
        found = curve(run.rows, ks=[1, 16, 256])
        cells = [f"max@{p.k} {p.value:.3f} ({p.low:.3f} to {p.high:.3f})" for p in found.points]
        print(f"  {name:8}", "   ".join(cells))
    print("  Intervals are over problems. One run each says nothing about another run.")


def stored(out: Path) -> dict[str, Path]:
    """Two runs of the experiments, as folders that maxk reads."""
    folders = {name: out / name for name in STORED}
    for name, result in STORED.items():
        if not (folders[name] / "config.toml").exists():
            about = read().runs(GRID)[result]["sets"]["humaneval"]
            rows = [*joined(RESULTS, study=GRID, run=result, set="humaneval")]
            unpack_set(rows, about["config"], folders[name])
    return folders


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/taste"))
    out: Path = parser.parse_args().out
    print("Six programs, judged by two tests in a sandbox:")
    judged()
    print("\nWeights of one group of eight samples, for k = 4:")
    weighed()
    folders = stored(out)
    print("\nHumanEval, 256 samples of each problem, before and after GRPO:")
    compared({name: read_run(folder, name=name) for name, folder in folders.items()})
    report = out / "report.html"
    report.write_text(page(Findings(gather(list(folders.values())))))
    print(f"\nThe report of the two: {report.resolve()}")


if __name__ == "__main__":
    main()
