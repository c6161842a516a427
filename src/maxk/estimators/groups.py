"""Advantages of samples that lie in any order, as most trainers hold them.

Trainers for clusters keep one flat batch with the id of the prompt beside each sample, balanced
over processes by length. Groups may have lost members on the way: a sandbox that failed, a rollout
that was given up.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable

import torch
from torch import Tensor

from maxk.estimators import advantages
from maxk.estimators.settings import facts_of


def group_advantages(
    method: str,
    rewards_B: Tensor,
    groups: Iterable[Hashable],
    k: int | None = None,
    log_ratios_B: Tensor | int | None = None,
    *,
    member_B: Tensor | None = None,
    clamp_delta: float | None = None,
) -> Tensor:
    """`maxk.estimators.advantages` where `groups` has the prompt of every sample.

    member_B: False for rows that are no samples (padding); they get 0 and count in no group. A
    group with fewer members than the method needs, which is k + 1 for most, gets 0: it says nothing
    about max@k. If all groups are so small that nothing would be trained, that is an error.

    >>> group_advantages("dr-grpo", torch.tensor([1.0, 0.0, 0.5, 0.0]), ["a", "b", "b", "a"])
    tensor([ 0.5000, -0.2500,  0.2500, -0.5000])
    """
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        if member_B is None or bool(member_B[row]):
            rows[group].append(row)
    by_size: dict[int, list[list[int]]] = defaultdict(list)
    for members in rows.values():
        by_size[len(members)].append(members)
    needed = fewest(method, k)
    if by_size and max(by_size) < needed:
        raise ValueError(
            f"the largest group has {max(by_size)} samples and method={method!r} with k={k} needs "
            f"{needed}: sample more per prompt or lower k"
        )
    out = torch.zeros_like(rewards_B)
    for size, members in by_size.items():
        if size >= needed:
            index_PN = torch.tensor(members, device=rewards_B.device)
            ratios_PN = log_ratios_B[index_PN] if isinstance(log_ratios_B, Tensor) else log_ratios_B
            out[index_PN] = advantages(
                method, rewards_B[index_PN], k, ratios_PN, clamp_delta=clamp_delta
            ).to(out.dtype)
    return out


def fewest(method: str, k: int | None) -> int:
    """The smallest group from which a method learns anything."""
    facts = facts_of(method)
    if not facts.uses_k:
        return 2
    if k is None:
        raise ValueError(f"k=None but method={method!r} optimises max@k; give k")
    return max(2, k + facts.needs_k_below_n)
