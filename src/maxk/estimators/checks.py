"""The one check that both the numpy and the torch functions need; it imports neither."""

import operator
from typing import Any


def check_k(k: Any, n: int | None = None, name: str = "k") -> int:
    """k as a plain int with 1 <= k <= n, or ValueError; n=None: k has no upper end."""
    try:
        k = operator.index(k)
    except TypeError:
        raise ValueError(
            f"{name}={k!r} is not an integer; pass a whole number of samples"
        ) from None
    if k < 1:
        raise ValueError(f"{name}={k} is below 1; the best of k samples needs k >= 1")
    if n is not None and k > n:
        raise ValueError(
            f"k={k} is larger than n={n}, the number of samples per prompt (last axis of "
            f"rewards); draw at least {k} samples or use k <= {n}"
        )
    return k
