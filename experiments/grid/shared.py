"""Several models that share the samples of a problem, and means of their weights beside it."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.plan import made_of
from maxk.evaluate import differences, scores, spread

KS = (1, 2, 4, 8, 16, 32, 64, 128)
Member = tuple[str, int]  # a cell without choose-, and its seed
GRPO: tuple[Member, ...] = (("grpo", 1), ("grpo", 2), ("grpo", 3))
MEAN: Member = ("grpo-of-3", 1)
BACK: Member = ("grpo-of-3-kept-30", 1)
KEPT: tuple[Member, ...] = (
    *(("bon-mean-kept-30", 0), ("grpo-further-kept-30", 0)),
    ("grpo-kept-30", 0),
)
TRIED: tuple[tuple[Member, ...], ...] = (  # who shares, on validation
    GRPO,
    (("grpo", 0), *GRPO),
    (*GRPO, ("bon-mean", 0)),
    (*GRPO, ("off-policy", 0)),
    (*GRPO, MEAN),
    (*GRPO, BACK),
    (*GRPO, BACK, KEPT[0]),
    (*GRPO, *KEPT),
    (MEAN, BACK),
    (MEAN, ("off-policy", 0)),
    (BACK, KEPT[0]),
    (BACK, *KEPT[:2]),
    (BACK, *KEPT),
    (("bon-mean-kept-50", 0), ("grpo-further-kept-50", 0), ("grpo-kept-50", 0)),
    (
        *GRPO,
        *(("bon-mean", 0), ("grpo-further", 0), ("off-policy", 0), ("bon-centered", 0)),
    ),
    (
        *(BACK, *KEPT, ("bon-centered-kept-30", 0)),
        *(("off-policy-exact-kept-30", 0), ("off-policy", 0)),
    ),
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
            shared = np.mean([spread(group, KS) for group in groups], axis=0)
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
                gaps = differences(spread([trained, kept], KS), scores(trained, KS))
                lines.append([f"{name} and {cell}, seed {seed}", *map(with_interval, gaps)])
    return pipes(["shared by", *(f"max@{k}" for k in KS)], lines) if lines else ""


def rewards_of(data: Data, sets: Sequence[str], tag: str) -> dict[str, dict[int, list]]:
    """By cell and seed the rewards of the problems of all sets, where it is measured on them."""
    return {
        cell.removesuffix(tag): {
            each.about["seed"]: [r["reward"] for name in sets for r in data.by_id(each, name)]
            for each in data.cells[cell]
            if each.has(sets, max(KS))
        }
        for cell in sorted(cell for cell in data.cells if cell.endswith(tag))
    }


def said(seeds: Sequence[int]) -> str:
    """
    >>> said((1, 2, 3)), said((0, 2))
    ('1, 2 and 3', '0 and 2')
    """
    return f"{', '.join(map(str, seeds[:-1]))} and {seeds[-1]}"


def with_parts(
    data: Data, cell: str, sets: Sequence[str], ks: Sequence[int]
) -> dict[int, np.ndarray]:
    """By seed [problems, ks]: a mean of trainings and those it is made of share the samples.

    cell: of the mean, with its tag; seeds whose trainings are not all measured are left out.
    """
    tag = "-final" if cell.endswith("-final") else ""
    name, count = made_of(cell.removesuffix(tag))
    own, parts = (
        {r.about["seed"]: r for r in data.cells.get(each, []) if r.has(sets, max(ks))}
        for each in (cell, f"{name}{tag}")
    )
    found = {}
    for seed, mean in own.items():
        group = [parts.get(seed + i) for i in range(count)]
        if all(group):
            rewards = [
                [row["reward"] for each in sets for row in data.by_id(result, each)]
                for result in (*group, mean)
                if result is not None
            ]
            found[seed] = spread(rewards, ks)
    return found


def pools(data: Data, sets: Sequence[str]) -> str:
    """What was tried on validation: who shares, beside one of GRPO's seeds 1 to 3."""
    whole = rewards_of(data, sets, "")
    lines = []
    for members in TRIED:
        rewards = [whole.get(f"choose-{cell}", {}).get(seed) for cell, seed in members]
        if all(each is not None for each in rewards):
            means_K = spread([each for each in rewards if each is not None], KS).mean(0)
            lines.append([named(members), *(f"{x:.3f}" for x in means_K)])
    alone = [whole.get(f"choose-{cell}", {}).get(seed) for cell, seed in GRPO]
    if lines and all(each is not None for each in alone):
        means_K = np.mean([scores(each, KS).mean(0) for each in alone if each is not None], axis=0)
        lines.insert(0, ["one of grpo 1, 2, 3, in the mean", *(f"{x:.3f}" for x in means_K)])
    return pipes(["shared by", *(f"max@{k}" for k in KS)], lines) if lines else ""


def named(members: Sequence[Member]) -> str:
    """
    >>> named((("grpo", 1), ("grpo", 2), ("bon-mean", 0)))
    'grpo 1, 2; bon-mean 0'
    """
    cells = dict.fromkeys(cell for cell, _ in members)
    seeds = {cell: [str(seed) for name, seed in members if name == cell] for cell in cells}
    return "; ".join(f"{cell} {', '.join(each)}" for cell, each in seeds.items())


def four(data: Data, cell: str, sets: Sequence[str], others: dict[str, str]) -> str:
    """A mean and its parts that share, over all problems of the sets, and over other cells."""
    found = with_parts(data, cell, sets, KS)
    lines: list[list[str]] = []
    for seed, scores_PK in found.items():
        lines.append([f"seed {seed}", *(f"{x:.3f}" for x in scores_PK.mean(0))])
        for row, other in others.items():
            seeds = data.on_all(other, sets, max(KS))
            if seeds:
                theirs = [data.scores(other, name, KS, "max", seeds) for name in sets]
                gaps = differences(scores_PK, np.concatenate(theirs))
                lines.append([f"... over {row}", *map(with_interval, gaps)])
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if lines else ""
