"""maxk: fine-tune and evaluate language models for Best-of-N, by max@k.

Importing maxk imports neither torch nor numpy: names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxk import estimators
    from maxk.best_of_n import solve
    from maxk.estimators.metrics import max_at_k, pass_at_k

__all__ = ["estimators", "max_at_k", "pass_at_k", "solve"]
__version__ = "0.1.0"

_MODULES = {
    "max_at_k": "maxk.estimators.metrics",
    "pass_at_k": "maxk.estimators.metrics",
    "solve": "maxk.best_of_n",
}


def __getattr__(name: str) -> Any:
    if name == "estimators":
        return import_module("maxk.estimators")
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value  # found without this function from now on
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
