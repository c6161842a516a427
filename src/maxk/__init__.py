"""maxk: fine-tune and evaluate language models for Best-of-N, by max@k.

Importing maxk does not import torch.
"""

from typing import TYPE_CHECKING, Any

from maxk import estimators
from maxk.estimators.metrics import max_at_k, pass_at_k

if TYPE_CHECKING:
    from maxk.best_of_n import solve

__all__ = ["estimators", "max_at_k", "pass_at_k", "solve"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "solve":  # brings the verifier and the samplers, which the metrics do not need
        from maxk.best_of_n import solve

        return solve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
