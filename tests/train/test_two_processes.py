"""Two real processes (gloo): groups split over ranks get the weights of whole groups."""

from typing import Any

import pytest
import torch

from tests.train.test_trainer import bounded, logps

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


SCENARIO = "tests.train.two_processes"


@pytest.mark.parametrize("name", SPLITS)
def test_weights_are_those_of_whole_groups(two_processes, tmp_path, name):
    ranks = two_processes.run(SCENARIO, tmp_path, {"method": "off-policy-exact", **SPLITS[name]})
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


def test_what_says_nothing_on_one_process_does_not_keep_the_other_waiting(two_processes, tmp_path):
    given: dict[str, Any] = {"per_device_train_batch_size": 8, "num_iterations": 2, "max_steps": 4}
    ranks = two_processes.run(
        SCENARIO, tmp_path, {"method": "off-policy-exact", "skip_zero_variance": True, **given}
    )
    first, last = (ranks[0]["states"][step] for step in (0, 3))
    assert any((first[key] != last[key]).any() for key in first)
    for key, value in last.items():
        assert torch.equal(ranks[1]["states"][3][key], value)
    for rank, telling in enumerate((False, True)):
        assert all(seen["weights"].any() == telling for seen in ranks[rank]["seen"])
