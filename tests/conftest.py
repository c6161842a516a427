"""Shapes are part of the tests: jaxtyping + beartype check every function of the estimators.

The hook must be in place before the first import of maxk. `plain` gives the function a user sees.
"""

import gc
import inspect
from collections.abc import Callable

from hypothesis import settings
from jaxtyping import install_import_hook

HOOK = install_import_hook("maxk.estimators", "beartype.beartype")

# Derandomised: the same examples for the same code, so a red run can be repeated.
settings.register_profile("maxk", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("maxk")


def pytest_collection_finish() -> None:
    """What was imported stays: a training collects garbage, and would look through it each time."""
    gc.collect()
    gc.freeze()


def plain(function: Callable) -> Callable:
    """The undecorated function, whose own argument errors would otherwise come second."""
    return inspect.unwrap(function)
