"""Two real processes (gloo): groups split over ranks get the weights of whole groups."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.test_trainer import bounded, logps

ROOT = Path(__file__).parents[2]
SPLITS: dict[str, dict[str, Any]] = {
    "a group over both ranks": {"per_device_train_batch_size": 2, "num_iterations": 3},
    "whole groups on each rank": {"per_device_train_batch_size": 4, "num_iterations": 3},
    "and over micro-batches": {
        "per_device_train_batch_size": 1,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "num_iterations": 2,
        "max_steps": 6,
    },
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    script = str(Path(__file__).with_name("two_processes.py"))
    launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    done = subprocess.run(
        [sys.executable, *launch, script, str(folder), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a group over both ranks", marks=pytest.mark.slow),  # test_accelerate has one
        "and over micro-batches",
        pytest.param("whole groups on each rank", marks=pytest.mark.slow),  # as on one
    ],
)
def test_weights_are_those_of_whole_groups(tmp_path, name):
    ranks = run(tmp_path, {"method": "off-policy-exact", **SPLITS[name]})
    states = ranks[0]["states"]
    for step, state in ranks[1]["states"].items():
        for key, value in state.items():
            torch.testing.assert_close(value, states[step][key], atol=0, rtol=0)
    drift, split = 0.0, False
    for rank in ranks:
        for seen in rank["seen"]:
            number = next(
                i for i, b in enumerate(rank["batches"]) if b["step"] == seen["batch"]["step"]
            )
            halves = [other["batches"][number] for other in ranks]
            rewards = halves[0]["rewards"]
            torch.testing.assert_close(rewards, halves[1]["rewards"], atol=0, rtol=0)
            now, then = (states[step] for step in (seen["step"], halves[0]["step"]))
            change = [logps(now, half) - logps(then, half) for half in halves]
            ratios = torch.cat(change).view_as(rewards)
            drift = max(drift, float(ratios.abs().max()))
            split |= len(change[0]) % rewards.shape[1] != 0
            due = bounded("off-policy-exact", rewards, ratios)
            torch.testing.assert_close(
                seen["weights"], due.flatten()[seen["row"]], atol=1e-5, rtol=1e-4
            )
    assert drift > 0.02, "nothing moved: stale ratios would pass"
    assert split == (name == "a group over both ranks")


def test_what_says_nothing_on_one_process_does_not_keep_the_other_waiting(tmp_path):
    given = {"per_device_train_batch_size": 8, "num_iterations": 2, "max_steps": 4}
    ranks = run(tmp_path, {"method": "off-policy-exact", "skip_zero_variance": True, **given})
    first, last = (ranks[0]["states"][step] for step in (0, 3))
    assert any((first[key] != last[key]).any() for key in first)
    for key, value in last.items():
        assert torch.equal(ranks[1]["states"][3][key], value)
    for rank, telling in enumerate((False, True)):
        assert all(seen["weights"].any() == telling for seen in ranks[rank]["seen"])
