"""Shapes are part of the tests: jaxtyping + beartype check every function of the estimators.

The hook must be in place before the first import of maxk. `plain` gives the function a user sees.
"""

import gc
import inspect
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from jaxtyping import install_import_hook

HOOK = install_import_hook("maxk.estimators", "beartype.beartype")

# Derandomised: the same examples for the same code, so a red run can be repeated.
settings.register_profile("maxk", derandomize=True, deadline=None, max_examples=100)
settings.register_profile(  # tests/mutants.py wants to know that a test fails, and no more
    "no-shrinking", settings.get_profile("maxk"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("maxk")


# Given out one by one, so the long ones first: one at the end would be waited for.
LONG = [
    "tests/test_cli_examples.py",
    "tests/train/test_job.py",
    "tests/train/test_trainer.py",
    "tests/train/test_two_processes.py",
    "tests/adversarial/test_hostile.py",
    "tests/verify/test_verifier.py",
    "tests/invariant/test_pocket.py",
    "tests/sample/test_run.py",
    "tests/estimators/test_against_brute.py",
    "tests/test_bandit.py",
    "tests/adversarial/test_soak.py",
    "tests/report/test_browser.py",
]
# What asks two processes of `accelerate launch`: starting them takes longer than most tests.
TWO_PROCESSES = (
    "tests/train/test_two_processes.py",
    "tests/train/test_accelerate.py",
    "tests/train/test_job.py::test_two_processes",
)


def group_of(nodeid: str) -> str:
    """Tests of one group run in one worker: those of a file, and those of the two processes."""
    if nodeid.startswith(TWO_PROCESSES):
        return TWO_PROCESSES[0]
    file, _, test = nodeid.partition("::")
    if file == "tests/adversarial/test_hostile.py":  # a verifier for each tier
        return f"{file}::{test.partition('[')[2][:1]}"
    return file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {file: place for place, file in enumerate(LONG)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid).partition("::")[0], len(order)))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler.loadfile import LoadFileScheduling

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)


def pytest_collection_finish() -> None:
    """What was imported stays: a training collects garbage, and would look through it each time."""
    gc.collect()
    gc.freeze()


def plain(function: Callable) -> Callable:
    """The undecorated function, whose own argument errors would otherwise come second."""
    return inspect.unwrap(function)


@pytest.fixture
def graders(monkeypatch) -> list[subprocess.Popen[str]]:
    """The processes that grade, as they are started."""
    found: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            if "maxk.grade.worker" in str(self.args):
                found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)
    return found
