"""`accelerate launch` with two processes (gloo): the same updates as one process makes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.test_two_processes import ROOT, free_port

SPLIT = "off-policy, a group over both ranks"
SETTINGS: dict[str, dict[str, Any]] = {
    SPLIT: {
        "method": "off-policy-exact",
        "per_device_train_batch_size": 4,
        "num_iterations": 3,
    },
    "on-policy": {"method": "bon-mean", "per_device_train_batch_size": 8},
}


def launched(folder: Path, processes: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What every process saw. --multi_gpu is accelerate's word for several processes."""
    folder.mkdir()
    launch = ["-m", "accelerate.commands.launch", "--num_machines=1", "--mixed_precision=no"]
    launch += ["--dynamo_backend=no", f"--num_processes={processes}"]
    launch += ["--multi_gpu", f"--main_process_port={free_port()}"] if processes > 1 else ["--cpu"]
    device = settings["per_device_train_batch_size"] // processes
    given = json.dumps(settings | {"per_device_train_batch_size": device, "max_steps": 6})
    done = subprocess.run(
        [sys.executable, *launch, "-m", "tests.train.deterministic", str(folder), given],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    files = [folder / f"rank{rank}.pt" for rank in range(processes)]
    return [torch.load(file, weights_only=True) for file in files]


@pytest.mark.parametrize(
    "name", [SPLIT, pytest.param("on-policy", marks=pytest.mark.slow)], ids=["split", "on-policy"]
)
def test_two_processes_make_the_updates_of_one(tmp_path, name):
    [one] = launched(tmp_path / "one", 1, SETTINGS[name])
    two = launched(tmp_path / "two", 2, SETTINGS[name])
    assert [rank["processes"] for rank in (one, *two)] == [1, 2, 2]
    moved = 0.0
    for number, whole in enumerate(one["batches"]):
        halves = [rank["batches"][number] for rank in two]
        ids = torch.cat([half["completion_ids"] for half in halves])
        assert torch.equal(ids, whole["completion_ids"]), "other completions: nothing to compare"
        torch.testing.assert_close(halves[0]["rewards"], whole["rewards"])
    for key, value in one["last"].items():
        for rank in two:
            torch.testing.assert_close(rank["last"][key], value, atol=1e-6, rtol=1e-5)
        moved = max(moved, float((value - one["states"][0][key]).abs().max()))
    assert moved > 1e-3, "nothing was trained: any update would pass"


def test_every_key_of_the_fsdp_configuration_is_one_that_accelerate_knows():
    """FSDP itself needs GPUs: without one accelerate trains with DDP and says nothing."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    file = str(ROOT / "configs" / "fsdp.yaml")
    config: Any = load_config_from_file(file)  # refuses unknown keys at the top
    assert (config.distributed_type.value, config.num_processes) == ("FSDP", 16)
    known = {action.dest for action in launch_command_parser()._actions}
    assert config.fsdp_config.keys() <= known
