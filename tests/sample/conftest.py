"""What tests of sampling share."""

import subprocess
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """The models are tiny, and several threads on a busy machine wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def judges(monkeypatch) -> list[subprocess.Popen[str]]:
    """The processes that judge, as they are started."""
    found: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            if "maxk.sample" in str(self.args):
                found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)
    return found
