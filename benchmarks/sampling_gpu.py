"""Tokens a second of a real model on a GPU, with and without programs being judged beside it.

    python benchmarks/sampling_gpu.py --model FOLDER --source mbpp.jsonl --processes 2 --judges 4 0

What `maxk sample` does with MBPP test, once for every number of judges (0: nothing is judged), all
with the engines that were started for the first. A few completions come before, not counted: the
first steps of an engine are slow. sampling_gpu.jsonl has what was measured.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from maxk.cli.data import named_values
from maxk.cli.sample import Sample
from maxk.data import load
from maxk.records import Problem
from maxk.sample import Progress, Sampler, Sampling, sample
from maxk.store.run import Run, environment
from maxk.verify import Limits, VerifierSettings

WARM_UP = 8  # problems


def measure(
    problems: list[Problem],
    sampler: Sampler,
    n: int,
    settings: Sampling,
    grading: VerifierSettings | None,
) -> dict[str, Any]:
    """Sample and judge into a folder that is not kept."""
    found: dict[str, Any] = {}
    begun = time.monotonic()

    def seen(state: Progress) -> None:
        if state.done == state.total and "sampled" not in found:
            found["sampled"], found["judged_by_then"] = time.monotonic() - begun, state.graded

    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(Path(folder) / "run", "sample", {"n": n})
        state = sample(problems, sampler, run, n, settings, grading=grading, progress=seen)
    seconds = time.monotonic() - begun
    return {
        "completions": state.new,
        "tokens": state.tokens,
        "seconds_sampling": round(found["sampled"], 2),
        "tokens_per_second_sampling": round((state.tokens or 0) / found["sampled"]),
        "judged_by_then": found["judged_by_then"],
        "last_verdict_later": round(seconds - found["sampled"], 2),
        "tokens_per_second": round((state.tokens or 0) / seconds),
        "mean_reward": round(state.reward / state.graded, 4) if state.graded else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="tokens a second on a GPU, with streaming verification"
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", type=Path, help="mbpp.jsonl; default: the hub")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--judges", type=int, nargs="+", default=[0], help="0: not judged")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a test of a program")
    parser.add_argument("--engine", nargs="*", default=[], help="as for maxk sample")
    parser.add_argument("--json", type=Path, help="append a line a measurement to this file")
    given = parser.parse_args()
    problems = load("mbpp", "test", given.source)[: given.problems]
    options = named_values(tuple(given.engine), "--engine")
    begun = time.monotonic()
    command = Sample(given.model, "mbpp", Path(), processes=given.processes)
    sampler = command.sampler(options, given.backend)
    started = time.monotonic() - begun
    settings = Sampling(max_tokens=given.tokens)
    measure(problems[:WARM_UP], sampler, given.n, settings, None)
    machine = environment()
    print(f"{', '.join(machine['gpus']) or 'no GPU'}; started in {started:.0f} s", flush=True)
    for judges in given.judges:
        limits = Limits(cpu_seconds=given.seconds, after_timeout=0.1)
        judging = VerifierSettings(judges, limits) if judges else None
        found = measure(problems, sampler, given.n, settings, judging)
        about = {"backend": given.backend, "processes": given.processes, "judges": judges}
        print(json.dumps(about | found), flush=True)
        if given.json is not None:
            asked = about | {"engine": options, "n": given.n, "limits": asdict(limits)}
            line = asked | found | {"started": round(started, 1), "environment": machine}
            with given.json.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
