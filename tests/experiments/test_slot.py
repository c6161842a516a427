"""slot.sh: what it starts, and with how many judges."""

import os
import subprocess
import time
from pathlib import Path

from experiments.grid.plan import HERE


def started(tmp_path: Path, **environment: str) -> dict[str, list[str]]:
    """The words of each command that slot.sh gives to python3, by module."""
    bin_, said = tmp_path / "bin", tmp_path / "said"
    bin_.mkdir()
    said.mkdir()
    (bin_ / "python3").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}/.$2; mv {said}/.$2 {said}/$2\n'
    )
    (bin_ / "nvidia-cuda-mps-control").write_text("#!/bin/sh\nexit 1\n")
    for file in bin_.iterdir():
        file.chmod(0o755)
    places = {"MODEL": "model", "DATA": "data", "WORK": str(tmp_path / "work")}
    path = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", HERE / "slot.sh", "60", "base", "mbpp-grpo"],
        env=dict(os.environ) | places | path | environment,
        check=True,
        capture_output=True,
        timeout=30,
    )
    names = ("experiments.grid.judge", "experiments.grid.run")
    for _ in range(100):  # the judge is started beside the other
        if all((said / name).exists() for name in names):
            break
        time.sleep(0.1)
    return {name: (said / name).read_text().splitlines() for name in names}


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_judges_are_as_many_as_the_cores_allow_whatever_torch_is_told(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    words = started(tmp_path, OMP_NUM_THREADS="1", OMP_THREAD_LIMIT="1")
    assert int(after(words["experiments.grid.run"], "--judges")) == max(cores // 4, 1)
    assert int(after(words["experiments.grid.judge"], "--judges")) == max(cores * 3 // 4, 1)


def test_cells_budget_and_places_are_handed_on(tmp_path: Path) -> None:
    words = started(tmp_path)["experiments.grid.run"]
    assert words[-2:] == ["base", "mbpp-grpo"]
    assert [after(words, each) for each in ("--budget", "--model", "--data-dir", "--work")] == [
        "60",
        "model",
        "data",
        str(tmp_path / "work"),
    ]
