"""How far max@k of n samples would move if the n samples were drawn again.

max@k of one problem is the U-statistic U = sum_j c_j r_(j), c_j = C(j-1, k-1) / C(n, k), over the
sorted rewards. Its variance is E[U^2] - theta^2 with theta the true max@k.

n >= 2k: the mean of max_I * max_J over disjoint k-subsets I, J has expectation theta^2. If the
better of the two is sample j and the other's best is i < j, then I has its k-1 others among the
first i-1, and J its k-1 others among the j-1-k left below j. So

    variance = U^2 - 2 sum_{i<j} c_i d_j r_(i) r_(j),   d_j = C(j-1-k, k-1) / C(n-k, k)

without bias, in O(n). A single problem's estimate may be negative; sums over problems settle.

n < 2k: no unbiased estimate exists, as two disjoint subsets do not fit. The Efron-Stein inequality
bounds the variance by what leaving out single samples does, in expectation:

    k < n: the jackknife, (n-1)/n sum_i (U - U_without_i)^2,  U_without_i = (U - w_i) n / (n-k),
           w_i = c_i r_(i) + sum_{j>i} c_j (k-1)/(j-1) r_(j)
    k = n: (r_(n) - r_(n-1))^2, for pass@k simply the number of problems solved exactly once

These err on the large side: in simulated benchmarks, the standard error at k = n comes out up to
1.5 times too large.
"""

from collections.abc import Sequence

import numpy as np

from maxk.estimators.metrics import top_shares


def sampling_variance(rewards_PN: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Estimated variance of max@k given the problem: [problems, ks]. For pass@k, pass 0s and 1s.

    0 where n = 1, which tells nothing about a variance.

    >>> sampling_variance([[0.0, 1.0, 0.0, 1.0]], ks=[1, 2, 4]).round(4)  # k=1: s^2 / n
    array([[0.0833, 0.0278, 0.    ]])
    """
    r_PN = np.sort(np.asarray(rewards_PN, dtype=np.float64), axis=1)
    r_PN -= r_PN[:, :1]  # a shift leaves the variance alone, and spares the squares their digits
    return np.stack([_of_sorted(r_PN, k) for k in ks], axis=1)


def _of_sorted(r_PN: np.ndarray, k: int) -> np.ndarray:
    n = r_PN.shape[1]
    if n == 1:
        return np.zeros(len(r_PN))
    if k == n:
        return (r_PN[:, -1] - r_PN[:, -2]) ** 2
    c_N = top_shares(n, k)
    u_P = r_PN @ c_N
    if n >= 2 * k:
        d_N = np.concatenate([np.zeros(k), top_shares(n - k, k)])
        below_PN = np.cumsum(r_PN * c_N, axis=1) - r_PN * c_N
        return u_P**2 - 2 * (r_PN * below_PN) @ d_N
    pair_N = c_N * (k - 1) / np.maximum(np.arange(n), 1)
    own_PN = r_PN * pair_N
    above_PN = own_PN.sum(1, keepdims=True) - np.cumsum(own_PN, axis=1)
    w_PN = r_PN * c_N + above_PN
    moved_PN = (k * u_P[:, None] - n * w_PN) / (n - k)  # U_without_i - U
    return (n - 1) / n * (moved_PN**2).sum(1)
