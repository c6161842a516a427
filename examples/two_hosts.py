"""Two hosts train together, one is lost in mid-run, and the same command goes on.

    sudo python examples/two_hosts.py --out out/two_hosts --lose-after 4

The hosts are network namespaces of this machine, joined by one virtual cable, with a shared disk.
Each runs `accelerate launch` as it would on a machine of its own. Losing a host cuts the cable and
kills all its processes at once, so that the other hears nothing more of it and waits. As the
scheduler of a cluster does, this script then ends the job on the other host and starts it again.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PORT = 29500
SETTINGS = [  # a run of the pocket model that is short and loses little when it is broken
    *("--trl.max_steps=8", "--trl.save_steps=2", "--trl.per_device_train_batch_size=16"),
    *("--trl.num_iterations=2", "--method.name=off-policy-exact", "--trl.learning_rate=1e-4"),
    *("--trl.disable_tqdm=true", "--reward.workers=1"),
]


@dataclass(frozen=True)
class Host:
    """A namespace with one end of the cable in it."""

    rank: int
    name: str
    cable: str
    address: str

    def run(self, *command: str) -> None:
        subprocess.run(["ip", "-n", self.name, *command], check=True)

    def launch(self, main: str, out: Path, settings: Sequence[str]) -> subprocess.Popen:
        """The command of docs/how-to/several-nodes.md, in this host."""
        launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=2"]
        launch += ["--num_processes=2", f"--machine_rank={self.rank}", "--mixed_precision=no"]
        launch += [f"--main_process_ip={main}", f"--main_process_port={PORT}"]
        launch += ["--dynamo_backend=no", "-m", "maxk", "train", str(ROOT / "configs/pocket.toml")]
        command = ["ip", "netns", "exec", self.name, sys.executable, *launch, f"--run.out={out}"]
        environment = {"GLOO_SOCKET_IFNAME": self.cable, "OMP_NUM_THREADS": "1"}
        with (out.parent / f"{out.name}.host{self.rank}.log").open("a") as log:
            return subprocess.Popen(
                [*command, *settings], env=os.environ | environment, stdout=log, stderr=log
            )

    def lose(self) -> None:
        """Cut the cable, then kill everything that runs here."""
        self.run("link", "set", self.cable, "down")
        self.kill()

    def kill(self) -> None:
        listed = subprocess.run(
            ["ip", "netns", "pids", self.name], check=False, capture_output=True, text=True
        )
        for process in listed.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def mend(self) -> None:
        self.run("link", "set", self.cable, "up")


@contextlib.contextmanager
def two_hosts() -> Iterator[list[Host]]:
    """Two namespaces and the cable between them, gone afterwards."""
    tag = f"{os.getpid()}"
    hosts = [Host(i, f"maxk-{tag}-{i}", f"mk{tag}.{i}"[-15:], f"10.77.0.{i + 1}") for i in range(2)]
    try:
        for host in hosts:
            subprocess.run(["ip", "netns", "add", host.name], check=True)
        a, b = hosts
        ends = [*("name", a.cable, "netns", a.name), *("type", "veth", "peer", "name", b.cable)]
        subprocess.run(["ip", "link", "add", *ends, "netns", b.name], check=True)
        for host in hosts:
            host.run("address", "add", f"{host.address}/24", "dev", host.cable)
            host.run("link", "set", host.cable, "up")
            host.run("link", "set", "lo", "up")
        yield hosts
    finally:
        for host in hosts:
            host.kill()
            subprocess.run(["ip", "netns", "delete", host.name], check=False, capture_output=True)


def steps(out: Path) -> int:
    """Optimiser steps that have been logged."""
    file = out / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def train(hosts: list[Host], out: Path, settings: Sequence[str], lose_after: int | None) -> bool:
    """One launch on both hosts; whether the run was finished."""
    jobs = [host.launch(hosts[0].address, out, settings) for host in hosts]
    try:
        while any(job.poll() is None for job in jobs):
            time.sleep(0.1)
            if lose_after is not None and steps(out) >= lose_after:
                hosts[1].lose()
                print(f"host 1 lost after step {steps(out)}", flush=True)
                lose_after = None
            if any(job.poll() for job in jobs):  # one has failed: the others wait for it in vain
                break
    finally:
        for host, job in zip(hosts, jobs, strict=True):
            host.kill()
            job.wait()
    return all(job.returncode == 0 for job in jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/two_hosts"))
    parser.add_argument("--lose-after", type=int, help="optimiser steps until host 1 is lost")
    options, more = parser.parse_known_args()
    if os.geteuid() != 0:
        parser.error("network namespaces need root")
    out: Path = options.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with two_hosts() as hosts:
        finished = train(hosts, out, [*SETTINGS, *more], options.lose_after)
        if not finished and options.lose_after is not None:
            print("both hosts are down; the same command again", flush=True)
            hosts[1].mend()
            finished = train(hosts, out, [*SETTINGS, *more], None)
    print(f"{'finished' if finished else 'failed'} at step {steps(out)}: {out}")
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main())
