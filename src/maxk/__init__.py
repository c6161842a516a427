"""maxk: fine-tune and evaluate language models for Best-of-N, by max@k.

Importing maxk does not import torch.
"""

from maxk import estimators
from maxk.estimators.metrics import max_at_k, pass_at_k

__all__ = ["estimators", "max_at_k", "pass_at_k"]
__version__ = "0.1.0"
