"""`accelerate launch` with two processes (gloo): the same updates as one process makes."""

from typing import Any

import pytest
import torch

from tests.train import deterministic
from tests.train.torchrun import ROOT

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

SPLIT = "off-policy, a group over both ranks"
SETTINGS: dict[str, dict[str, Any]] = {
    SPLIT: {
        "method": "off-policy-exact",
        "per_device_train_batch_size": 4,
        "num_iterations": 3,
    },
    "on-policy": {"method": "bon-mean", "per_device_train_batch_size": 8},
}


@pytest.mark.parametrize("name", SETTINGS, ids=["split", "on-policy"])
def test_two_processes_make_the_updates_of_one(two_processes, tmp_path, name):
    given = SETTINGS[name] | {"max_steps": 6}
    half = given["per_device_train_batch_size"] // 2
    one = deterministic.scenario(tmp_path / "one", given)
    split = given | {"per_device_train_batch_size": half}
    two = two_processes.run(deterministic.__name__, tmp_path / "two", split)
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
