"""Shapes are part of the tests: jaxtyping + beartype check every function of the estimators.

The hook must be in place before the first import of maxk. `plain` gives the function a user sees.
"""

import inspect
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

HOOK = install_import_hook("maxk.estimators", "beartype.beartype")

# Derandomised: the same examples for the same code, so a red run can be repeated.
settings.register_profile("maxk", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("maxk")


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
