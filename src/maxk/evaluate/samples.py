"""Rewards as evaluation takes them: one row of samples per problem, rows of any length."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from maxk.estimators import max_at_k, pass_at_k
from maxk.estimators.checks import check_k
from maxk.estimators.metrics import what_is_wrong

Metric = Literal["max", "pass"]
Rewards = np.ndarray | Sequence[Any]  # [problems, samples], or one row per problem


class Block(NamedTuple):
    """Problems with equally many samples, so that they fit one rectangle."""

    problems: np.ndarray  # their positions among all problems
    rewards: np.ndarray  # [problems, samples]


def blocks(rewards: Rewards) -> list[Block]:
    """The rewards as rectangles of equal n, or ValueError naming the first bad problem."""
    rows = [row_of(row, problem) for problem, row in enumerate(rewards)]
    if not rows:
        raise ValueError("rewards is empty; pass one row of samples per problem")
    for problem, row in enumerate(rows):
        if row.ndim != 1 or row.size == 0:
            raise ValueError(
                f"rewards[{problem}] has shape {row.shape}; each problem is one row of n >= 1 "
                "numbers"
            )
        if not np.isfinite(row).all():
            raise ValueError(
                f"rewards[{problem}] holds {row[~np.isfinite(row)][0]}; every entry must be "
                "finite: score a sample that could not be judged 0, or drop its problem"
            )
    sizes = np.array([row.size for row in rows])
    return [
        Block(chosen, np.stack([rows[problem] for problem in chosen]))
        for chosen in (np.flatnonzero(sizes == n) for n in np.unique(sizes))
    ]


def row_of(row: Any, problem: int) -> np.ndarray:
    """The samples of one problem as float64, or ValueError naming the first that is no number."""
    try:
        found = np.asarray(row)
    except ValueError:  # rows of different lengths
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "fiub":
        raise ValueError(what_is_wrong(row, (problem,)))
    return found.astype(np.float64)


def fewest(parts: Iterable[Block]) -> int:
    """The smallest n of any problem: the largest k that all of them allow."""
    return min(block.rewards.shape[1] for block in parts)


def check_ks(ks: Sequence[int] | None, n: int) -> list[int]:
    """ks as given, each within 1 ... n; or 1, 2, 4 ... up to n, and n itself."""
    if ks is None:
        return sorted({*(2**power for power in range(n.bit_length())), n})
    if len(ks) == 0:
        raise ValueError("ks=[] asks for nothing; pass at least one k, or None for 1, 2, 4 ... n")
    return [check_k(k, n) for k in ks]


def check_metric(metric: str) -> None:
    if metric not in ("max", "pass"):
        raise ValueError(f"metric={metric!r} is unknown; use 'max' or 'pass'")


def scores(
    rewards: Rewards, ks: Sequence[int], metric: Metric = "max", threshold: float = 1.0
) -> np.ndarray:
    """max@k or pass@k of every problem for every k: an array [problems, ks].

    >>> scores([[0.0, 1.0], [0.5, 0.0, 1.0]], ks=[1, 2])
    array([[0.5       , 1.        ],
           [0.5       , 0.83333333]])
    """
    check_metric(metric)
    parts = blocks(rewards)
    ks = check_ks(ks, fewest(parts))
    out_PK = np.empty((sum(len(block.problems) for block in parts), len(ks)))
    for block in parts:
        out_PK[block.problems] = (
            max_at_k(block.rewards, ks)
            if metric == "max"
            else pass_at_k(block.rewards, ks, threshold)
        )
    return out_PK
