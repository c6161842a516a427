"""The table of what can be done at inference time instead of training."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from experiments.grid.data import pipes
from experiments.results.claims import (
    GRPO,
    METHODS,
    POOLED,
    Place,
    Runs,
    effect,
    points,
)
from experiments.results.compact import GRID
from maxk.evaluate import ensemble

VALIDATION = ("mbpp-train", "mbpp-validation", "validation")


def grid(*names: str) -> list[Place]:
    return [(GRID, name, "") for name in names]


def interpolated() -> list[tuple[Place, list[Place], Sequence[str]]]:
    """Runs with 30 % of the base model's weights, and the runs they are made of."""
    tests = (("grpo", 1), ("off-policy", 1), ("bon-mean", 2), ("grpo-further", 2))
    return [
        (
            (GRID, f"leetcode-{name}-kept-30-final-s{seed}", ""),
            grid(f"leetcode-{name}-final-s{seed}"),
            POOLED,
        )
        for name, seed in tests
    ]


def validated() -> list[tuple[Place, list[Place], Sequence[str]]]:
    names = ("grpo", "grpo-further", "bon-mean", "bon-centered", "off-policy", "off-policy-exact")
    return [
        ((GRID, f"choose-{name}-kept-30-s0", ""), grid(f"choose-{name}-s0"), VALIDATION)
        for name in names
    ]


def soups() -> list[tuple[Place, list[Place], Sequence[str]]]:
    """On LeetCode: two soups of three GRPO runs, and one of three exact off-policy runs."""
    made = [
        (
            (GRID, f"leetcode-grpo-of-3-final-s{first}", ""),
            grid(*(f"leetcode-grpo-final-s{first + i}" for i in range(3))),
            ("leetcode",),
        )
        for first in (3, 6)
    ]
    name = "leetcode-off-policy-exact"
    parts = [("several-runs", f"{name}-s{seed}", "test plain") for seed in (11, 12, 13)]
    return [*made, (("several-runs", f"{name}-of-3-s11", "test plain"), parts, ("leetcode",))]


def temperature(way: str) -> list[tuple[Place, list[Place], Sequence[str]]]:
    names = ("base-s0", *(f"leetcode-{m}-s9" for m in ("grpo", "bon-centered", "off-policy-exact")))
    return [
        (
            ("configurations", name, f"validation {way}"),
            [("configurations", name, "validation plain")],
            VALIDATION,
        )
        for name in names
    ]


def whole(runs: Runs, pair: tuple[Place, list[Place], Sequence[str]], k: int) -> bool:
    """Whether all runs of a comparison have the samples."""
    own, others, sets = pair
    return len(runs.measured([own, *others], sets, k)) == 1 + len(others)


def inference(runs: Runs) -> str:
    lines = []
    for row, pairs, where, ks in (
        ("{term}`weight interpolation`, alpha = 0.3", interpolated(), "tests", (1, 32, 128)),
        ("the same", validated(), "validation", (1, 32, 128)),
        (
            "{term}`soup <uniform model soup>` of three, over its parts",
            soups(),
            "LeetCode",
            (1, 32),
        ),
        ("T = 0.3 in place of 1", temperature("cold"), "validation", (1, 32)),
        ("T = 1.2 in place of 1", temperature("warm"), "validation", (1, 32)),
    ):
        there = [pair for pair in pairs if whole(runs, pair, max(ks))]
        shown = [effect(runs, there, k) for k in ks]
        lines.append([row, len(there), where, *shown, *[""] * (3 - len(ks))])
    group = [
        [row for name in POOLED for row in runs.rows[each, name]]
        for each in runs.measured(METHODS[GRPO], POOLED, 256)
    ]
    alone = [
        np.mean([runs.of(each, POOLED, k).mean() for each in METHODS[GRPO][: len(group)]])
        for k in (1, 32, 128)
    ]
    gains = np.array(
        [ensemble(list(pair), [1, 32, 128]).mean(0) - alone for pair in combinations(group, 2)]
    )
    shown = [
        f"{points(gain.mean())} (pairs: {points(gain.min())} to {points(gain.max())})"
        for gain in gains.T
    ]
    lines.append(["{term}`ensemble` of two `grpo` runs, over one", len(group), "tests", *shown])
    return pipes(["what is done", "runs", "measured on", "max@1", "max@32", "max@128"], lines)
