"""Trainings of one method in one way, alone and sharing samples, beside the last comparison's.

What a plan of several trainings is worth says little of the method that trained them: trainings of
any method win by sharing. Here those of others share too, as many at a time, all at temperature 1.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.pairs import FINAL, SETS, methods
from experiments.grid.plan import made_of, seed_of, without_seed
from experiments.grid.planned import ROW, of_last, row_of
from experiments.grid.shared import KS, rewards_by_seed
from experiments.grid.ways import FOLDERS, SAMPLED, TOGETHER, Ways, name_of, read
from maxk.evaluate import differences, ensemble, scores

PLAIN = "plain"  # temperature 1, the weights as they were trained, no hints
OTHERS = ("grpo", "off-policy")
NUMBERS = ("one", "two", "three", "four", "five")


def trainings(data: Data, folder: str) -> str:
    """max@k of each training, and of so many that share; and over as many of other methods."""
    ways, lines = read(data, folder), []
    for sets in (SAMPLED, *((each,) for each in SETS)):
        for method, own in by_method(ways, sets).items():
            head = f"{', '.join(sets)}: {method}"
            for seed, rewards in own.items():
                found = scores(rewards, up_to(len(rewards[0])))
                lines.append([f"{head}, seed {seed}", *row_of(found)])
            for m in range(1, len(own) + 1):
                mine = sharing(own, m)
                lines += over_others(data, f"{head}, {said(m)}", mine, m, sets)
            if before := earlier(data, method, sets):
                mine = sharing(own | before, 1)
                row = f"{head}, one of all {len(own | before)} there are"
                lines += over_others(data, row, mine, 1, sets)
        lines += plans(data, ways, sets)
    lines = [row + [""] * (1 + len(KS) - len(row)) for row in lines]
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if lines else ""


def by_method(ways: Ways, sets: Sequence[str]) -> dict[str, dict[int, list[list[float]]]]:
    """By method and seed the rewards of its trainings; of methods that have several of them."""
    found: dict[str, dict[int, list[list[float]]]] = {}
    for cell in ways.about:
        rewards = ways.rewards((cell, PLAIN), "test", sets)
        if rewards is not None and made_of(without_seed(cell))[1] == 1:
            found.setdefault(name_of(cell), {})[seed_of(cell)] = rewards
    return {method: by_seed for method, by_seed in found.items() if len(by_seed) > 1}


def earlier(data: Data, method: str, sets: Sequence[str]) -> dict[int, list[list[float]]]:
    """By seed the rewards of the method's trainings in the last comparison and before a plan."""
    found = rewards_by_seed(data, methods("leetcode", FINAL)[method], sets, max(KS))
    ways = read(data, FOLDERS["ways"])
    for cell in ways.about:
        rewards = ways.rewards((cell, PLAIN), "alone", sets)
        if rewards is not None and name_of(cell) == method:
            found[seed_of(cell)] = rewards
    return found


def over_others(
    data: Data, row: str, mine: np.ndarray, m: int, sets: Sequence[str]
) -> list[list[str]]:
    """What m trainings give, and what that is over m of other methods that share."""
    lines = [[row, *row_of(mine)]]
    for other in OTHERS:
        theirs = rewards_by_seed(data, methods("leetcode", FINAL)[other], sets, max(KS))
        if len(theirs) >= m:
            gaps = differences(mine, sharing(theirs, m)[:, : mine.shape[1]])
            lines.append([f"... over {said(m)} of {other}", *map(with_interval, gaps)])
    return lines


def sharing(by_seed: dict[int, list[list[float]]], m: int) -> np.ndarray:
    """The mean over all that are m trainings: [problems, ks], ks up to what they have."""
    ks = up_to(m * min(len(rewards[0]) for rewards in by_seed.values()))
    groups = combinations(by_seed.values(), m)
    return np.mean([ensemble(list(group), ks) for group in groups], axis=0)


def up_to(n: int) -> list[int]:
    return [k for k in KS if k <= n]


def said(m: int) -> str:
    return f"{NUMBERS[m - 1]} share" if m > 1 else "one"


def plans(data: Data, ways: Ways, sets: Sequence[str]) -> list[list[str]]:
    """The plan of all over others: of one model's ways, and that of GRPO in the last comparison."""
    own = ways.by_plan(TOGETHER, sets, KS) if TOGETHER in ways.plans else None
    if own is None:
        return []
    single = read(data, FOLDERS["ways"])
    theirs = {
        f"the plan of {each}, one training": single.by_plan(each, sets, KS)
        for each in single.plans
        if each != TOGETHER
    }
    for found in of_last(data, "leetcode", FINAL, sets):
        theirs[ROW] = found
    head = f"{', '.join(sets)}: plan of {TOGETHER} over"
    return [
        [f"{head} {row}", *map(with_interval, differences(own, found))]
        for row, found in theirs.items()
        if found is not None
    ]
