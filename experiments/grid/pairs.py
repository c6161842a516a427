"""Methods against each other on the same problems: over all sets, and seed by seed."""

from collections.abc import Sequence

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.make_cells import LAST, METHODS
from experiments.grid.plan import BASE
from experiments.grid.shared import KS
from maxk.evaluate import differences

SETS = ("mbpp", "mbpp-plus", "humaneval", "leetcode", "code-contests")
SAMPLED = tuple(name for name in SETS if name != "mbpp-plus")  # which judges mbpp's once more
COMPARED = (1, 16, 128)
FINAL = "-final"  # the tag of the last comparison
# With the three trainings it is made of, four models that share the samples.
FOURTH = "grpo-of-3-kept-30"


def methods(kind: str, tag: str = "") -> dict[str, str]:
    """Cells by what tables call them. tag: of their names, if they have other keys."""
    cells = {method: f"{kind}-{method}{tag}" for method in (*METHODS, *LAST)}
    return {"base": f"{BASE}{tag}", **cells}


def sets_of(data: Data, kind: str, tag: str = "") -> list[str]:
    """Those that more than half of the methods are measured on; with a tag, that each is."""
    cells = [cell for cell in methods(kind, tag).values() if cell in data.cells]
    fewest = len(cells) if tag else len(cells) // 2 + 1
    return [name for name in SETS if sum(data.has(cell, name) for cell in cells) >= fewest]


def sampled_of(data: Data, kind: str, tag: str = "") -> list[str]:
    """The same without MBPP+, which judges MBPP's samples once more."""
    return [name for name in sets_of(data, kind, tag) if name in SAMPLED]


def measured(data: Data, kind: str, tag: str = "") -> dict[str, str]:
    """The methods that have samples of every set."""
    sets = sampled_of(data, kind, tag)
    return {
        row: cell
        for row, cell in methods(kind, tag).items()
        if sets and all(data.has(cell, name, max(KS)) for name in sets)
    }


def paired(data: Data, kind: str, tag: str = "") -> str:
    """Every method against the base model and against GRPO, over the problems of all sets.

    But for MBPP+, whose samples are those of MBPP.
    """
    others = {row: methods(kind, tag)[row] for row in ("base", "grpo")}
    sets = sampled_of(data, kind, tag)
    lines = []
    for row, cell in measured(data, kind, tag).items():
        entropy = data.entropy(cell, "mbpp") if "mbpp" in sets else None
        gaps = [x for other in others.values() for x in against(data, cell, other, sets)]
        lines.append([row, entropy, *gaps])
    head = [", ".join(sets) if len(sets) < len(SAMPLED) else "", "entropy of a token on mbpp"]
    head += [f"max@{k} over {other}" for other in others for k in COMPARED]
    return pipes(head, lines) if len(lines) > 1 else ""


def by_seed(data: Data, kind: str, tag: str = "") -> str:
    """The seeds of methods that have several: what another training may change."""
    ks, sets = (1, max(KS)), sets_of(data, kind, tag)
    sampled = sampled_of(data, kind, tag)
    if not sampled:
        return ""
    several = {}
    for row, cell in methods(kind, tag).items():
        there = [data.results(cell, name, max(ks)) for name in sets]
        whole = [result for result in there[0] if all(result in each for each in there)]
        if len(whole) > 1:
            several |= {f"{row}, seed {result.about['seed']}": result for result in whole}
    if not several:
        return ""
    base = np.concatenate([data.scores(f"{BASE}{tag}", name, ks, "max") for name in sampled])
    lines = []
    for row, result in several.items():
        ends = {name: data.scores_of(result, name, ks, "max") for name in sets}
        gaps = differences(np.concatenate([ends[name] for name in sampled]), base)
        means = [float(ends[name][:, i].mean()) for i in range(len(ks)) for name in sets]
        lines.append([row, *map(with_interval, gaps), *means])
    head = ["", *(f"max@{k} over base" for k in ks)]
    return pipes([*head, *(f"max@{k} on {name}" for k in ks for name in sets)], lines)


def cut_off(data: Data, kind: str, tag: str = "") -> str:
    """How many completions end at the limit of tokens, and what is left without HumanEval's."""
    split, ks, rows = "humaneval", (1, 128), measured(data, kind, tag)
    sets = sampled_of(data, kind, tag)
    if split not in sets or not {"base", "grpo"} <= rows.keys():
        return ""
    trained = [data.cut_off(cell, split) for row, cell in rows.items() if row != "base"]
    often = np.max(trained, axis=0) > 0.5
    found = {
        row: {name: data.scores(cell, name, ks, "max") for name in sets}
        for row, cell in rows.items()
    }
    rest = {
        row: np.concatenate([each[~often] if name == split else each for name, each in by.items()])
        for row, by in found.items()
    }
    lines = []
    for row, cell in rows.items():
        shares = [f"{100 * data.cut_off(cell, name).mean():.0f} %" for name in sets]
        parts = [found[row][split][which].mean(axis=0) for which in (~often, often)]
        gaps = [None] * len(ks) if row == "grpo" else differences(rest[row], rest["grpo"])
        lines.append(
            [
                *(row, *shares),
                *(float(x) for part in parts for x in part),
                *(gap and with_interval(gap) for gap in gaps),
            ]
        )
    counts = {"rarely": int((~often).sum()), "often": int(often.sum())}
    head = ["", *(f"cut off on {name}" for name in sets)]
    head += [
        f"max@{k} on the {count} problems of {split} {how} cut off"
        for how, count in counts.items()
        for k in ks
    ]
    head += [f"max@{k} over grpo on the {len(rest['grpo'])} without the latter" for k in ks]
    return pipes(head, lines)


def unfinished(data: Data, kind: str, name: str = "leetcode") -> str:
    """Answers that end after a signature, and the reward of the others."""
    lines = []
    for row, cell in methods(kind).items():
        if data.has(cell, name):
            share, rest = data.unfinished(cell, name)
            mean = float(data.scores(cell, name, [1], "max").mean())
            lines.append([row, f"{100 * share:.0f} %", mean, rest])
    head = ["", f"{name}: ended, and no program", "max@1", "max@1 of the other completions"]
    return pipes(head, lines) if len(lines) > 1 else ""


def against(data: Data, cell: str, other: str, sets: Sequence[str]) -> list[str | None]:
    """Paired differences of two cells over the problems of all the sets, with their intervals.

    Each by its seeds that are measured on all the sets; by all it has if none is.
    """
    pair, most = (cell, other), max(COMPARED)
    if cell == other or not all(data.has(each, name, most) for each in pair for name in sets):
        return [None] * len(COMPARED)
    first, second = (
        np.concatenate([data.scores(each, name, COMPARED, "max", seeds) for name in sets])
        for each in pair
        for seeds in (data.on_all(each, sets, most) or None,)
    )
    return [with_interval(gap) for gap in differences(first, second)]
