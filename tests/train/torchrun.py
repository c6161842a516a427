"""Two processes of `accelerate launch` (gloo) that make one scenario after the other.

TRL is imported once for all of them, which takes longer than most scenarios. They meet in a folder:
task 0, 1, ... comes as a file, and what each process saw goes into a file of its own.
"""

import importlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TwoProcesses:
    """Started when they are first asked, and again after a scenario that failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.meeting = self.folder / f"{time.monotonic_ns()}"
        self.meeting.mkdir()
        self.tasks = 0
        launch = ["-m", "accelerate.commands.launch", "--num_machines=1", "--mixed_precision=no"]
        launch += ["--dynamo_backend=no", "--num_processes=2", "--multi_gpu"]  # several processes
        launch += [f"--main_process_port={free_port()}", "-m", "tests.train.torchrun"]
        python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with (self.meeting / "said").open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, *launch, str(self.meeting), str(os.getpid())],
                env={**os.environ, "PYTHONPATH": python_path, "OMP_NUM_THREADS": "1"},
                cwd=ROOT,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def run(self, module: str, folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """What `scenario(folder, settings)` of the module returns in each process."""
        if self.process is None:
            self.start()
        assert self.process is not None
        put(self.meeting / f"{self.tasks}.json", [module, str(folder), settings])
        files = [self.meeting / f"{self.tasks}-{rank}.pt" for rank in range(2)]
        self.tasks += 1
        deadline = time.monotonic() + 300
        while not all(file.exists() for file in files):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise AssertionError((self.meeting / "said").read_text()[-6000:])
            time.sleep(0.02)
        return [torch.load(file, weights_only=True) for file in files]

    def close(self) -> None:
        """Without the launcher its processes end by themselves."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def put(file: Path, given: Any) -> None:
    """There is never half of it."""
    file.with_suffix(".new").write_text(json.dumps(given))
    file.with_suffix(".new").rename(file)


def serve(meeting: Path, asking: int) -> None:
    """In each of the processes, until the launcher or the process that asks is gone."""
    rank, launcher = os.environ["RANK"], os.getppid()
    for number in itertools.count():
        task = meeting / f"{number}.json"
        while not task.exists():
            if os.getppid() != launcher or not Path(f"/proc/{asking}").exists():
                return
            time.sleep(0.02)
        module, folder, settings = json.loads(task.read_text())
        kept = importlib.import_module(module).scenario(Path(folder), settings)
        torch.save(kept, meeting / f"{rank}.new")
        (meeting / f"{rank}.new").rename(meeting / f"{number}-{rank}.pt")


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]), int(sys.argv[2]))
    except BaseException:
        traceback.print_exc()  # before the launcher ends the other process
        raise
