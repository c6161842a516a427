"""The paper's equations as matrices: the n x n coefficients w_ij written out, one row per best j.

What its Listings 2 and 3 compute, for rewards sorted in ascending order: O(n^2) memory, per prompt
in the off-policy case. The estimators of maxk are measured against this, and a test shows that
Listing 3 as printed is not the equation above it.
"""

import torch
from torch import Tensor


def share(n: int, k: int, taken: int) -> Tensor:
    """C(j-t, k-t) / C(n, k) for j = 1 ... n: subsets of the first j that hold t given samples."""
    j = torch.arange(1, n + 1, dtype=torch.float64)
    if k < taken:
        return torch.zeros_like(j)

    def log_choose(a: Tensor, b: int) -> Tensor:
        return (a + 1).lgamma() - torch.lgamma(torch.tensor(b + 1.0)) - (a - b + 1).lgamma()

    possible = j >= k
    chosen = log_choose(torch.where(possible, j - taken, k - taken + 0.0), k - taken)
    whole = log_choose(torch.tensor(float(n), dtype=torch.float64), k)
    return torch.where(possible, (chosen - whole).exp(), 0.0)


def below_diagonal(rows: Tensor) -> Tensor:
    """Matrix with rows[j] at every (j, i) with i < j."""
    return rows[..., :, None].expand(*rows.shape, rows.shape[-1]).tril(-1)


def on_policy(rewards: Tensor, k: int) -> Tensor:
    """Equation 8: w_ii = C(i-1, k-1), w_ij = C(j-2, k-2)."""
    n = rewards.shape[-1]
    coefficients = below_diagonal(share(n, k, 2)) + share(n, k, 1).diag()
    return rewards @ coefficients.to(rewards.dtype)


def first_order(rewards: Tensor, deltas: Tensor, k: int, *, as_printed: bool = False) -> Tensor:
    """Appendix E: w'_ii and w'_ij with the deltas of the other members of the subset.

    as_printed repeats the slip of Listing 3, which adds the diagonal C(i-1, k-1) as a vector, and
    so to every row of the matrix.
    """
    n = rewards.shape[-1]
    top, pair, triple = (share(n, k, t).to(rewards.dtype) for t in (1, 2, 3))
    earlier = deltas.cumsum(-1) - deltas
    pairs = below_diagonal(pair)
    base = pairs + (top if as_printed else top.diag())
    together = pairs * (deltas[..., :, None] + deltas[..., None, :])
    others = below_diagonal(triple) * (earlier[..., :, None] - deltas[..., None, :])
    diagonal = (top * deltas + pair * earlier).diag_embed()
    coefficients = base + together + others + diagonal
    return (rewards[..., None, :] @ coefficients).squeeze(-2)
