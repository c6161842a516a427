"""The k of each optimiser step: the same throughout, or going from one to another.

A large k first and a small one later explores and then sharpens; the other way round keeps a policy
diverse that would otherwise collapse. The paper leaves both to future work.
"""

from typing import Literal, get_args

Schedule = Literal["constant", "linear", "step"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def k_at(
    step: int, steps: int, start: int, end: int, schedule: Schedule, switch: float = 0.5
) -> int:
    """k for optimiser step `step` (from 0) of `steps`.

    "linear" goes from start at the first step to end at the last, rounded to whole numbers; "step"
    is start before the share `switch` of all steps and end from there on.

    >>> [k_at(step, 8, 8, 1, "linear") for step in range(8)]
    [8, 7, 6, 5, 4, 3, 2, 1]
    >>> [k_at(step, 4, 1, 8, "step") for step in range(4)]
    [1, 1, 8, 8]
    """
    if schedule == "constant":
        return start
    if schedule == "step":
        return start if step < switch * steps else end
    share = min(step / max(steps - 1, 1), 1.0)
    return int(start + share * (end - start) + 0.5)
