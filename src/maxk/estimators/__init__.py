"""Estimators of max@k and its policy gradient: pure functions, no state, nothing of maxk imported.

The metrics work on lists and numpy arrays, and the settings, without torch; the rest is loaded on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxk.estimators.metrics import max_at_k, pass_at_k
from maxk.estimators.objectives import Objective
from maxk.estimators.settings import FACTS, MethodFacts, MethodSettings

if TYPE_CHECKING:
    from maxk.estimators.clipping import mask_sequences
    from maxk.estimators.gradient import subset_max, weights
    from maxk.estimators.methods import METHODS, advantages

__all__ = [
    "FACTS",
    "METHODS",
    "MethodFacts",
    "MethodSettings",
    "Objective",
    "advantages",
    "mask_sequences",
    "max_at_k",
    "pass_at_k",
    "subset_max",
    "weights",
]

_NEEDS_TORCH = {
    "METHODS": "methods",
    "advantages": "methods",
    "mask_sequences": "clipping",
    "subset_max": "gradient",
    "weights": "gradient",
}


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_NEEDS_TORCH[name]}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"maxk.estimators.{name} needs PyTorch: pip install torch (or 'maxk[train]')",
            name="torch",
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
