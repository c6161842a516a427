"""Several cells at a time, each in a process of its own: `run --jobs`.

Half a billion weights leave a GPU idle most of the time, whether they sample a batch, wait for its
verdicts or are updated; other cells fill the gaps. The processes know nothing of each other.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from experiments.grid.results import pack

_PASSED_ON = (
    *("later", "work", "results", "have", "data_dir", "model", "engine", "n", "limit"),
    *("judges", "tag", "note", "grid"),
)
_POLL, _PACK = 0.5, 10.0  # seconds


def command_of(given: argparse.Namespace, name: str, seed: int, left: float) -> list[str]:
    """That runs one cell as these arguments say."""
    words = [name, "--seeds", str(seed), "--budget", str(left), "--beside", str(given.jobs - 1)]
    for key in _PASSED_ON:
        if (value := getattr(given, key)) is not None:
            words.append(f"--{key.replace('_', '-')}={value}")
    for option in given.engine_option:
        words += ["--engine-option", *option]
    words += ["--sets", *given.sets] if given.sets else []
    words += ["--judge-later"] if given.judge_later else []
    words += ["--", *given.overrides]
    return [sys.executable, "-m", "experiments.grid.run", *words]


def carry_out_all(
    given: argparse.Namespace, cells: Sequence[tuple[str, int]], deadline: float
) -> list[str]:
    """Every cell for which there is time; gives those that went wrong."""
    waiting, failed = list(cells), []
    running: dict[str, subprocess.Popen[bytes]] = {}
    packed = 0.0
    try:
        while waiting or running:
            while waiting and len(running) < given.jobs and time.monotonic() < deadline:
                name, seed = waiting.pop(0)
                command = command_of(given, name, seed, deadline - time.monotonic())
                running[f"{name}{given.tag}-s{seed}"] = subprocess.Popen(command)
            time.sleep(_POLL)
            if time.monotonic() >= deadline:
                waiting.clear()
            for name in [name for name, process in running.items() if process.poll() is not None]:
                if running.pop(name).returncode not in (0, 3):  # 3: its time was over
                    failed.append(name)
            if given.pack is not None and time.monotonic() - packed > _PACK:
                packed = time.monotonic()
                pack(given.results, given.pack)
    finally:  # they save what they have, as at the end of a budget
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        if given.pack is not None:
            pack(given.results, given.pack)
    return failed
