"""How the rewards of a training run went: its first steps and its last."""

from dataclasses import dataclass

import numpy as np

from maxk.evaluate import scores
from maxk.evaluate.bootstrap import mean_interval
from maxk.report.gather import RunData, groups_by_step


@dataclass(frozen=True)
class Part:
    """max@k over the first or last tenth of a training run: groups are problems here."""

    steps: tuple[int, int]
    groups: int
    one: tuple[float, float, float]  # max@1 with its interval
    best: tuple[float, float, float]  # max@n


def group_size(run: RunData) -> int:
    """The smallest n of any group."""
    return min(len(group) for groups in groups_by_step(run).values() for group in groups)


def training_parts(run: RunData) -> tuple[Part, Part] | None:
    """The first and the last tenth of the steps that sampled, one step at least."""
    steps = list(groups_by_step(run).items())
    if not steps:
        return None
    tenth, n = max(1, len(steps) // 10), group_size(run)

    def part(chosen: list[tuple[int, list[np.ndarray]]]) -> Part:
        groups = [group for _, each in chosen for group in each]
        values_GK = scores(groups, [1, n])
        low_K, high_K = mean_interval(values_GK)
        one, best = (
            (float(value), float(low), float(high))
            for value, low, high in zip(values_GK.mean(0), low_K, high_K, strict=True)
        )
        return Part((chosen[0][0], chosen[-1][0]), len(groups), one, best)

    return part(steps[:tenth]), part(steps[-tenth:])
