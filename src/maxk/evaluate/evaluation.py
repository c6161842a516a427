"""Evaluate one run, and compare several on the same problems."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from maxk.evaluate.bootstrap import DEFAULT, Interval
from maxk.evaluate.curves import Curve, curve, curves_by_group
from maxk.evaluate.ensemble import ensemble as divided
from maxk.evaluate.paired import Correction, Difference, adjust, differences
from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, fewest, scores
from maxk.evaluate.tables import Table, ranked

ENSEMBLE = "ensemble"  # the name of the samples divided over all runs, in a comparison


@dataclass(frozen=True)
class Evaluation:
    """A run: both curves, over all problems and by group, and the share of problems ever solved."""

    max: Curve
    passed: Curve
    coverage: float
    max_by_group: dict[Hashable, Curve]
    passed_by_group: dict[Hashable, Curve]


def evaluate(
    rewards: Rewards,
    ks: Sequence[int] | None = None,
    groups: Sequence[Hashable] | None = None,
    threshold: float = 1.0,
    interval: Interval = DEFAULT,
) -> Evaluation:
    """max@k and pass@k of a run with their uncertainty; `curve` explains the arguments.

    groups: one label per problem, such as its difficulty. Coverage counts problems with at least
    one sample that passes, out of however many samples each has.

    >>> run = evaluate([[0.0, 1.0], [0.5, 0.0]])
    >>> run.coverage, run.max.at(2).value, run.passed.at(2).value
    (0.5, 0.75, 0.5)
    """

    def each(metric: Metric) -> tuple[Curve, dict[Hashable, Curve]]:
        whole = curve(rewards, metric, ks, threshold, interval)
        if groups is None:
            return whole, {}
        return whole, curves_by_group(rewards, groups, metric, ks, threshold, interval)

    (max_curve, max_by_group), (pass_curve, pass_by_group) = each("max"), each("pass")
    solved = [(block.rewards >= threshold).any(1) for block in blocks(rewards)]
    return Evaluation(
        max=max_curve,
        passed=pass_curve,
        coverage=float(np.concatenate(solved).mean()),
        max_by_group=max_by_group,
        passed_by_group=pass_by_group,
    )


@dataclass(frozen=True)
class Pair:
    """Two runs at one k: first minus second, and its p-value after correction."""

    first: str
    second: str
    k: int
    difference: Difference
    p_adjusted: float


@dataclass(frozen=True)
class Comparison:
    """Runs on the same problems: a table of means and every paired difference behind it."""

    metric: Metric
    ks: tuple[int, ...]
    problems: tuple[str, ...]
    table: Table
    pairs: tuple[Pair, ...]
    correction: Correction


def compare(
    runs: Mapping[str, Mapping[str, Any]],
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    against: str | None = None,
    correction: Correction = "holm",
    threshold: float = 1.0,
    interval: Interval = DEFAULT,
    ensemble: bool = False,
) -> Comparison:
    """Compare runs problem by problem: runs[name][problem id] is that problem's row of rewards.

    All runs must have the same problems. Where the numbers of samples differ, equally many of each
    are compared (`equal_counts`). `against` limits the pairs to those with one run: the correction
    of p-values is over all pairs and ks, so fewer pairs are corrected less. `ensemble` adds a run
    of this name, the same number of samples divided over all runs (`maxk.evaluate.ensemble`).

    >>> runs = {"base": {"p1": [0, 0], "p2": [0, 1]}, "maxk": {"p1": [0, 1], "p2": [1, 1]}}
    >>> compare(runs, ks=[1]).pairs[0].difference.value
    -0.5
    """
    if len(runs) < 2:
        raise ValueError(f"runs holds {list(runs)}; a comparison needs two or more")
    if against is not None and against not in (*runs, *[ENSEMBLE] * ensemble):
        raise ValueError(f"against={against!r} is not among the runs {list(runs)}")
    problems = tuple(runs[next(iter(runs))])
    rows = {name: list(each.values()) for name, each in equal_counts(runs).items()}
    ks = check_ks(ks, min(fewest(blocks(each)) for each in rows.values()))
    scores_PK = scores_of_all(rows, ks, metric, threshold, ensemble)
    names = list(scores_PK)
    chosen = [pair for pair in combinations(names, 2) if against is None or against in pair]
    # All pairs in one call, so that the problems are drawn again only once.
    gaps = differences(
        np.hstack([scores_PK[first] for first, _ in chosen]),
        np.hstack([scores_PK[second] for _, second in chosen]),
        interval,
    )
    adjusted = adjust([gap.p for gap in gaps], correction)
    labels = [(first, second, k) for first, second in chosen for k in ks]
    columns = {
        f"{metric}@{k}": {name: scores_PK[name][:, i] for name in names} for i, k in enumerate(ks)
    }
    return Comparison(
        metric=metric,
        ks=tuple(ks),
        problems=problems,
        table=ranked(columns, "", interval),
        pairs=tuple(
            Pair(*label, gap, p) for label, gap, p in zip(labels, gaps, adjusted, strict=True)
        ),
        correction=correction,
    )


def scores_of_all(
    runs: Mapping[str, Sequence[Any]],
    ks: Sequence[int],
    metric: Metric,
    threshold: float = 1.0,
    ensemble: bool = False,
) -> dict[str, np.ndarray]:
    """max@k or pass@k by run, [problems, ks]; with `ensemble` also of samples divided over all."""
    found = {name: scores(rows, ks, metric, threshold) for name, rows in runs.items()}
    if ensemble:
        if ENSEMBLE in runs:
            raise ValueError(f"a run is called {ENSEMBLE!r}; give it another name")
        parts = [[row[: -(-len(row) // len(runs))] for row in rows] for rows in runs.values()]
        found[ENSEMBLE] = divided(parts, ks, metric, threshold)
    return found


def equal_counts(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The first samples of every problem, as many of each run as the run with the fewest has.

    The metrics have no bias in n, but with few samples they are more often exactly 0 or 1. The
    signed-rank test takes that for a difference of the runs: for one model with 64 and with 192
    samples it gives p < 0.05 at k = 64 every time (docs/explanation/intervals.md). Problems are
    in the order of the first run.

    >>> equal_counts({"few": {"p": [0, 1], "q": [1, 1]}, "many": {"q": [0, 1, 1], "p": [1]}})
    {'few': {'p': [0], 'q': [1, 1]}, 'many': {'p': [1], 'q': [0, 1]}}
    """
    refuse_different_problems(runs)
    problems = list(next(iter(runs.values())))
    size = {problem: min(len(run[problem]) for run in runs.values()) for problem in problems}
    return {
        name: {problem: run[problem][: size[problem]] for problem in problems}
        for name, run in runs.items()
    }


def refuse_different_problems(runs: Mapping[str, Mapping[str, Any]]) -> None:
    """ValueError that shows what differs, unless all runs have the same problem ids."""
    first, *others = runs
    for other in others:
        only_first = [str(each) for each in runs[first] if each not in runs[other]]
        only_other = [str(each) for each in runs[other] if each not in runs[first]]
        if only_first or only_other:
            raise ValueError(
                f"runs {first!r} and {other!r} are not on the same problems: only {first!r} has "
                f"{_some(only_first)}; only {other!r} has {_some(only_other)}. Evaluate both on "
                "the same problems, or drop the rest"
            )


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:3])
    return f"{len(ids)} ({shown}{', ...' if len(ids) > 3 else ''})" if ids else "none"
