"""docs/how-to/several-nodes.md between two network namespaces, and a host that is lost."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from examples.two_hosts import SETTINGS, Host, steps, train, two_hosts

WEIGHTS = 1_000_000  # of the pocket model, at least


def namespaces() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"maxk-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    return made


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not namespaces(), reason="network namespaces need root and iproute2"),
]


def metrics(out: Path) -> list[dict[str, Any]]:
    """What was logged of every step, but how long it took."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timed = ("seconds", "step_time", "train_", "num_tokens")
    return [
        {name: value for name, value in line.items() if not name.startswith(timed)}
        for line in lines
        if "loss" in line
    ]


def received(host: Host) -> int:
    """Bytes that came through the cable."""
    shown = subprocess.run(
        ["ip", "-n", host.name, "-s", "-j", "link", "show", host.cable],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"]


def test_a_run_that_lost_a_host_ends_as_if_it_had_not(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with two_hosts() as hosts:
        assert train(hosts, whole, SETTINGS, lose_after=None)
        assert min(map(received, hosts)) > 8 * 4 * WEIGHTS, "the hosts did not train together"
        assert not train(hosts, broken, SETTINGS, lose_after=5)
        assert 5 <= steps(broken) < 8
        assert not (broken / "model").exists()
        hosts[1].mend()
        assert train(hosts, broken, SETTINGS, lose_after=None)
    assert [line["step"] for line in metrics(broken)] == list(range(1, 9))
    assert metrics(broken) == metrics(whole)
    ends = [load_file(out / "model" / "model.safetensors") for out in (whole, broken)]
    assert all((ends[0][name] == ends[1][name]).all() for name in ends[0])
