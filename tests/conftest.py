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


# By the time they take, as they are given out one by one: a long one at the end is waited for.
LONG = [
    "tests/test_cli_examples.py",
    "tests/train/test_job.py",
    "tests/train/test_trainer.py",
    "tests/invariant/test_pocket.py",
    "tests/adversarial/test_hostile.py",
    "tests/train/test_two_processes.py",
    "tests/sample/test_run.py",
    "tests/verify/test_verifier.py",
    "tests/estimators/test_against_brute.py",
    "tests/adversarial/test_soak.py",
    "tests/report/test_browser.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {file: place for place, file in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


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
