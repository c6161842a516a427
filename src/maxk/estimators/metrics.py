"""max@k and pass@k of n samples: what Best-of-k is worth, without ever picking k samples.

    max@k  = mean over k-subsets of the best reward = sum_j C(j-1, k-1)/C(n, k) r_(j)
    pass@k = the same of 1[r >= threshold]          = 1 - C(n-c, k)/C(n, k),  c samples pass

Lists and numpy arrays need no torch; torch tensors stay on their device and keep their gradient.
"""

import numbers
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk.estimators.checks import check_k

if TYPE_CHECKING:
    from torch import Tensor


def max_at_k(rewards: Any, k: int | Sequence[int]) -> Any:
    r"""Unbiased estimate of the expected best reward of k samples, from n >= k samples.

    .. math:: \text{max@}k = \binom{n}{k}^{-1} \sum_{|I| = k} \max_{i \in I} r_i
              = \sum_{j=k}^{n} \binom{j-1}{k-1} \binom{n}{k}^{-1} r_{(j)}

    rewards: [..., n], one row of n samples per problem: list, numpy array or torch tensor; the
    result is of the same kind. k: an int gives [...], a list of ints gives [..., len(k)].
    Computed in float64 and returned in the dtype of floating-point input.

    >>> max_at_k([0.0, 1.0, 0.5, 0.0], k=2)  # (3 * 1.0 + 2 * 0.5 + 1 * 0.0) / 6 pairs
    0.6666666666666666
    >>> max_at_k([[0.0, 1.0], [0.25, 0.75]], k=[1, 2])
    [[0.5, 1.0], [0.5, 0.75]]

    Bagirov et al. 2025 (arXiv 2510.23393), appendix C.1 and Listing 1.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(rewards, torch.Tensor):
        return _of_tensor(rewards, k)
    r, kind = _as_array(rewards)
    ks = _as_ks(k, r.shape[-1])
    out = np.sort(r, axis=-1) @ np.stack([top_shares(r.shape[-1], each) for each in ks], -1)
    return _as_kind(out if _is_list(k) else out[..., 0], kind)


def pass_at_k(rewards: Any, k: int | Sequence[int], threshold: float = 1.0) -> Any:
    r"""Unbiased estimate of the chance that at least one of k samples reaches the threshold.

    .. math:: \text{pass@}k = 1 - \binom{n-c}{k} \binom{n}{k}^{-1}, \quad
              c = \sum_i 1[r_i \ge \text{threshold}]

    Arguments and result as in `max_at_k`; a sample passes if its reward is >= threshold.

    >>> pass_at_k([0.0, 1.0, 0.5, 0.0], k=2)
    0.5
    >>> pass_at_k([0.0, 1.0, 0.5, 0.0], k=2, threshold=0.5)
    0.8333333333333333

    Chen et al. 2021 (arXiv 2107.03374).
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(rewards, torch.Tensor):
        from maxk.estimators.tensors import check_rewards, result_dtype

        passed = check_rewards(rewards) >= threshold
        return _of_tensor(passed.to(result_dtype(rewards)), k)
    r, kind = _as_array(rewards)
    return _as_kind(max_at_k((r >= threshold).astype(np.float64), k), kind)


def _of_tensor(rewards: "Tensor", k: Any) -> "Tensor":
    import torch

    from maxk.estimators.subsets import shares
    from maxk.estimators.tensors import check_rewards, result_dtype

    r = check_rewards(rewards)
    n = r.shape[-1]
    top = torch.stack([shares(n, each, r.device).top for each in _as_ks(k, n)], -1)
    out = r.sort(dim=-1).values @ top
    return (out if _is_list(k) else out[..., 0]).to(result_dtype(rewards))


def top_shares(n: int, k: int) -> np.ndarray:
    """C(j-1, k-1) / C(n, k) for j = 1 ... n, as a running product down from k/n at j = n."""
    j = np.arange(1, n + 1)
    steps = np.maximum(j - k + 1, 0) / j
    steps[-1] = k / n
    return np.cumprod(steps[::-1])[::-1]


def _as_array(rewards: Any) -> tuple[np.ndarray, Any]:
    """Rewards as a float64 array, and the kind to return: a dtype, or `list`."""
    try:
        r = np.asarray(rewards)
    except ValueError:
        r = np.empty(0, dtype=object)
    if r.dtype.kind not in "fiub":
        raise ValueError(what_is_wrong(rewards))
    if r.ndim == 0 or r.shape[-1] == 0:
        raise ValueError(
            f"rewards has shape {r.shape}; the last axis must hold the n >= 1 samples of a problem"
        )
    if not np.isfinite(r).all():
        where = np.argwhere(~np.isfinite(r))[0].tolist()
        raise ValueError(
            f"rewards{where} is {r[tuple(where)]}; every entry must be finite: score a sample that "
            "could not be judged 0, or drop its problem"
        )
    kind = r.dtype if r.dtype.kind == "f" else np.dtype(np.float64)
    return r.astype(np.float64), kind if isinstance(rewards, np.ndarray) else list


def what_is_wrong(rewards: Any, where: tuple[int, ...] = ()) -> str:
    """What is said of rewards that are no rectangle of numbers: the first entry that is none.

    where: the place of these rewards among others.
    """
    for at, entry in _entries(rewards, where):
        if isinstance(entry, bool | int | float | np.number | np.bool_):
            continue
        fix = "score a sample that could not be judged 0, or drop its problem"
        if isinstance(entry, str):
            fix = "pass numbers, for example float(reward)"
        elif isinstance(entry, numbers.Real | Decimal):
            fix = "pass float(reward)"
        elif isinstance(entry, complex | np.complexfloating):
            fix = "rewards must be real"
        elif entry is not None:
            fix = "pass numbers"
        place = "".join(f"[{i}]" for i in at)
        name = "" if entry is None else f", a {type(entry).__name__}"
        return f"rewards{place} is {entry!r:.60}{name}; {fix}"
    return (
        "rewards has rows of different lengths; give every problem the same number of samples, or "
        "call once per problem"
    )


def _entries(rewards: Any, where: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The entries of nested rows, with their places."""
    if isinstance(rewards, np.ndarray) and rewards.ndim:
        rewards = list(rewards)
    if not isinstance(rewards, list | tuple):
        yield where, rewards
        return
    for i, each in enumerate(rewards):
        yield from _entries(each, (*where, i))


def _as_kind(out: Any, kind: Any) -> Any:
    return np.asarray(out).tolist() if kind is list else np.asarray(out).astype(kind)[()]


def _is_list(k: Any) -> bool:
    return isinstance(k, (Sequence, np.ndarray)) and not isinstance(k, str)


def _as_ks(k: Any, n: int) -> list[int]:
    """k as a list of ints within 1 ... n, or ValueError."""
    if isinstance(k, Set | Mapping | Iterator):
        raise ValueError(f"k={k!r:.60} has no order; pass an int or a list of ints, such as [1, 2]")
    ks = [check_k(each, n) for each in (k if _is_list(k) else [k])]
    if not ks:
        raise ValueError("k=[] asks for nothing; pass an int or a list of ints")
    return ks
