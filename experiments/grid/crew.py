"""ProcessSampler cells at a time, each in a process of its own: `run --jobs`.

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
    *("max_tokens", "judges", "tag", "note", "grid", "profile"),
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
    """Every cell for which there is time; gives those that went wrong.

    One that went wrong is tried once more after all others, which may have been the reason.
    """
    waiting, again, failed = list(cells), set(cells), []
    running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
    packed = 0.0
    try:
        while waiting or running:
            while waiting and len(running) < given.jobs and time.monotonic() < deadline:
                cell = waiting.pop(0)
                command = command_of(given, *cell, deadline - time.monotonic())
                running[cell] = subprocess.Popen(command)
            time.sleep(_POLL)
            if time.monotonic() >= deadline:
                waiting.clear()
            for cell in [cell for cell, process in running.items() if process.poll() is not None]:
                if running.pop(cell).returncode in (0, 3):  # 3: its time was over
                    continue
                if cell in again and time.monotonic() < deadline:
                    again.remove(cell)
                    waiting.append(cell)
                else:
                    failed.append(f"{cell[0]}{given.tag}-s{cell[1]}")
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
