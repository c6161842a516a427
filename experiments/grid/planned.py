"""A plan of a mean of trainings, what it is made of, and the same moved back.

Chosen on validation by `maxk.evaluate.allocate`, and taken to the test sets of the last comparison,
where all trainings are others.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.plan import without_seed
from experiments.grid.shared import KS, rewards_by_seed, with_parts
from maxk.evaluate import allocate, allocated, differences, scores

WAYS = ("one of its three trainings, at random", "grpo-of-3", "grpo-of-3-kept-30")
ROW = "a plan of grpo-of-3, its three and kept-30"
VALIDATION = ("mbpp-train", "mbpp-validation", "validation")


def ways_of(data: Data, kind: str, tag: str, sets: Sequence[str], k: int) -> dict[int, list[list]]:
    """By seed the rewards of each of the ways, over the problems of all sets.

    The trainings are one way: the plan is to learn how many samples they get, and not which of
    those that validation has was lucky.
    """
    mean, back = (f"{kind}-{name}{tag}" for name in WAYS[1:])
    moved = rewards_by_seed(data, back, sets, k)
    return {
        seed: [pooled(trainings), mixed, moved[seed]]
        for seed, (*trainings, mixed) in with_parts(data, mean, sets, k).items()
        if seed in moved
    }


def pooled(trainings: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    """Their samples of each problem, as if one model had drawn them.

    >>> pooled([[[1, 2]], [[3, 4]]])
    [array([1, 2, 3, 4])]
    """
    return [np.concatenate(several) for several in zip(*trainings, strict=True)]


def alike(members: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Cells with their ways: which of them differ in nothing but the seed.

    A plan is to learn how many samples such trainings get, and not which of them was lucky where it
    is chosen. So they are one way (`pooled`).

    >>> alike([("grpo-s1", "cold"), ("grpo-s1", "warm"), ("grpo-s2", "cold")])
    [[0, 2], [1]]
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for i, (cell, way) in enumerate(members):
        groups.setdefault((without_seed(cell), way), []).append(i)
    return list(groups.values())


@lru_cache(2)
def order_of(data: Data) -> list[int]:
    """The plan for max(KS) samples; none if validation is not there."""
    for ways in ways_of(data, "choose", "", VALIDATION, max(KS)).values():
        return allocate(ways, max(KS))
    return []


def of_last(data: Data, kind: str, tag: str, sets: Sequence[str]) -> list[np.ndarray]:
    """max@k by the plan on the test sets, of each seed there is: [problems, KS]."""
    if not (order := order_of(data)):
        return []
    found = ways_of(data, kind, tag, sets, max(KS)).values()
    return [allocated(each, order, KS) for each in found]


def tables(data: Data, sets: Sequence[str], others: dict[str, str], tag: str) -> str:
    """The plan, its max@k on validation, and on the test sets over other cells."""
    if not (order := order_of(data)):
        return ""
    counts = [[way, *(order[:k].count(i) for k in KS)] for i, way in enumerate(WAYS)]
    parts = [pipes(["samples among the first", *map(str, KS)], counts)]
    lines: list[list[str]] = []
    for each in ways_of(data, "choose", "", VALIDATION, max(KS)).values():
        lines.append(["validation, by the plan", *row_of(allocated(each, order, KS))])
        for way, rewards in zip(WAYS, each, strict=True):
            lines.append([f"... {way}", *row_of(scores(rewards, KS))])
    for names in (sets, *([name] for name in sets)):
        for own_PK in of_last(data, "leetcode", tag, names):
            lines.append([", ".join(names), *row_of(own_PK)])
            for row, cell in others.items():
                if (found := data.over(cell, names, KS)) is not None:
                    gaps = differences(own_PK, found)
                    lines.append([f"... over {row}", *map(with_interval, gaps)])
    return "\n\n".join([*parts, pipes(["", *(f"max@{k}" for k in KS)], lines)])


def row_of(scores_PK: np.ndarray) -> list[str]:
    return [f"{x:.3f}" for x in scores_PK.mean(0)]
