"""Several models that share the samples of a problem, and means of their weights beside it."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.plan import made_of
from maxk.evaluate import differences, ensemble, scores

KS = (1, 2, 4, 8, 16, 32, 64, 128)
GRPO = "grpo 1, 2, 3"
TRIED = (  # who shares on validation: cells without choose-, and their seeds
    GRPO,
    "grpo 0, 1, 2, 3",
    "grpo 1, 2, 3; bon-mean 0",
    "grpo 1, 2, 3; off-policy 0",
    "grpo 1, 2, 3; grpo-of-3 1",
    "grpo 1, 2, 3; grpo-of-3-kept-30 1",
    "grpo 1, 2, 3; grpo-of-3-kept-30 1; bon-mean-kept-30 0",
    "grpo 1, 2, 3; bon-mean-kept-30 0; grpo-further-kept-30 0; grpo-kept-30 0",
    "grpo 1, 2, 3; bon-mean 0; grpo-further 0; off-policy 0; bon-centered 0",
    "grpo-of-3 1; grpo-of-3-kept-30 1",
    "grpo-of-3 1; off-policy 0",
    "grpo-of-3-kept-30 1; bon-mean-kept-30 0",
    "grpo-of-3-kept-30 1; bon-mean-kept-30 0; grpo-further-kept-30 0",
    "grpo-of-3-kept-30 1; bon-mean-kept-30 0; grpo-further-kept-30 0; grpo-kept-30 0",
    "bon-mean-kept-50 0; grpo-further-kept-50 0; grpo-kept-50 0",
    "grpo-of-3-kept-30 1; bon-mean-kept-30 0; grpo-further-kept-30 0; grpo-kept-30 0; "
    "bon-centered-kept-30 0; off-policy-exact-kept-30 0; off-policy 0",
)


def means(data: Data, sets: Sequence[str], tag: str = "") -> str:
    """What several trainings give together, over the problems of all sets, beside each of them.

    Their weights' mean, where that is a cell, and samples that they share: two at a time, all of
    them, and those that the mean is made of. Of cells that are measured on all the sets.
    """
    whole = rewards_of(data, sets, tag)
    lines: list[list[str]] = []
    for cell, by_seed in whole.items():
        if len(by_seed) < 2 or made_of(cell)[0] != cell:
            continue
        alone = {seed: scores(rewards, KS) for seed, rewards in by_seed.items()}
        for seed in sorted(alone):
            lines.append([f"{cell}, seed {seed}", *(f"{x:.3f}" for x in alone[seed].mean(0))])
        everyone = tuple(sorted(alone))
        together: dict[tuple[tuple[int, ...], int], dict[str, np.ndarray]]
        together = {(everyone, 2): {}, (everyone, len(everyone)): {}}
        for other in whole:
            name, count = made_of(other)
            for seed in whole[other] if name == cell and count > 1 else ():
                seeds = tuple(range(seed, seed + count))
                if alone.keys() >= set(seeds):
                    found = scores(whole[other][seed], KS)
                    made = together.setdefault((seeds, count), {})
                    made[f"{other}, of seeds {said(seeds)}"] = found
        for (seeds, size), made in together.items():
            who = said(seeds) if size == len(seeds) else f"{said(seeds)}, two at a time, all pairs"
            groups = [[by_seed[seed] for seed in group] for group in combinations(seeds, size)]
            shared = np.mean([ensemble(group, KS) for group in groups], axis=0)
            mean = np.mean([alone[seed] for seed in seeds], axis=0)
            for row, found in {f"samples shared by seeds {who}": shared, **made}.items():
                lines.append([row, *(f"{x:.3f}" for x in found.mean(0))])
                gaps = map(with_interval, differences(found, mean))
                lines.append(["... over the mean of these seeds", *gaps])
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if lines else ""


def halves(data: Data, sets: Sequence[str], tag: str = "") -> str:
    """Samples that a model shares with what it is on its way back, over the model alone."""
    whole, lines = rewards_of(data, sets, tag), []
    for cell, by_seed in whole.items():
        name, count = made_of(cell)
        for seed in sorted(by_seed.keys() & whole.get(name, {})) if name != cell else ():
            if count == 1:
                trained, kept = whole[name][seed], by_seed[seed]
                gaps = differences(ensemble([trained, kept], KS), scores(trained, KS))
                lines.append([f"{name} and {cell}, seed {seed}", *map(with_interval, gaps)])
    return pipes(["shared by", *(f"max@{k}" for k in KS)], lines) if lines else ""


def rewards_of(
    data: Data, sets: Sequence[str], tag: str, k: int = max(KS)
) -> dict[str, dict[int, list]]:
    """By cell and seed the rewards of the problems of all sets, where it is measured on them."""
    cells = sorted(cell for cell in data.cells if cell.endswith(tag))
    return {cell.removesuffix(tag): rewards_by_seed(data, cell, sets, k) for cell in cells}


def rewards_by_seed(
    data: Data, cell: str, sets: Sequence[str], k: int
) -> dict[int, list[list[float]]]:
    """The same of one cell, which has its tag."""
    return {
        each.about["seed"]: [row for name in sets for row in data.rewards(each, name)]
        for each in data.cells.get(cell, [])
        if each.has(sets, k)
    }


def said(seeds: Sequence[int]) -> str:
    """
    >>> said((1, 2, 3)), said((0, 2))
    ('1, 2 and 3', '0 and 2')
    """
    return f"{', '.join(map(str, seeds[:-1]))} and {seeds[-1]}"


def with_parts(data: Data, cell: str, sets: Sequence[str], k: int) -> dict[int, list[list]]:
    """By seed the rewards of the trainings that a mean is made of, and of the mean, the last.

    cell: of the mean, with its tag; seeds whose trainings are not all measured with k samples are
    left out.
    """
    if not (results := data.cells.get(cell)):
        return {}
    tag = results[0].about["tag"]
    name, count = made_of(cell.removesuffix(tag))
    parts, found = rewards_by_seed(data, f"{name}{tag}", sets, k), {}
    for seed, rewards in rewards_by_seed(data, cell, sets, k).items():
        group = [parts[seed + i] for i in range(count) if seed + i in parts]
        if len(group) == count:
            found[seed] = [*group, rewards]
    return found


def pools(data: Data, sets: Sequence[str]) -> str:
    """What was tried on validation: who shares, beside one of GRPO's seeds 1 to 3."""
    whole = rewards_of(data, sets, "")

    def all_of(group: str) -> list[list]:
        """Their rewards; nothing if one of them is missing."""
        found = [whole.get(f"choose-{cell}", {}).get(seed) for cell, seed in members(group)]
        there = [each for each in found if each is not None]
        return there if len(there) == len(found) else []

    rows = {}
    if alone := all_of(GRPO):
        rows[f"one of {GRPO}, in the mean"] = np.mean([scores(x, KS) for x in alone], axis=0)
    rows |= {each: ensemble(group, KS) for each in TRIED if (group := all_of(each))}
    lines = [[row, *(f"{x:.3f}" for x in found.mean(0))] for row, found in rows.items()]
    return pipes(["shared by", *(f"max@{k}" for k in KS)], lines) if lines else ""


def members(group: str) -> list[tuple[str, int]]:
    """
    >>> members("grpo 1, 2; bon-mean 0")
    [('grpo', 1), ('grpo', 2), ('bon-mean', 0)]
    """
    cells = (each.split(" ", 1) for each in group.split("; "))
    return [(cell, int(seed)) for cell, seeds in cells for seed in seeds.split(", ")]


def four(data: Data, cell: str, sets: Sequence[str], others: dict[str, str]) -> str:
    """A mean and its parts that share, over all problems of the sets, and over other cells."""
    lines: list[list[str]] = []
    for seed, group in with_parts(data, cell, sets, max(KS)).items():
        scores_PK = ensemble(group, KS)
        lines.append([f"seed {seed}", *(f"{x:.3f}" for x in scores_PK.mean(0))])
        for row, other in others.items():
            if (theirs := data.over(other, sets, KS)) is not None:
                gaps = map(with_interval, differences(scores_PK, theirs))
                lines.append([f"... over {row}", *gaps])
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if lines else ""
