"""Evaluate one run, and compare several on the same problems."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from maxk.evaluate.bootstrap import DEFAULT, Interval
from maxk.evaluate.crossed import mean_of
from maxk.evaluate.curves import Curve, curve, curves_by_group
from maxk.evaluate.ensemble import ensemble as divided
from maxk.evaluate.paired import Correction, adjust
from maxk.evaluate.replicates import Replicates, RunDifference, compare_runs, replicates
from maxk.evaluate.samples import Metric, Rewards, blocks, check_ks, fewest
from maxk.evaluate.tables import SIGNIFICANT, Table, ranked

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


Method = Mapping[str, Any] | Sequence[Mapping[str, Any]]  # one run, or several
MINIMUM_RUNS = 3  # of each side, for a star


@dataclass(frozen=True)
class Pair:
    """Two methods at one k: first minus second, and its p-value after correction."""

    first: str
    second: str
    k: int
    difference: RunDifference
    p_adjusted: float


@dataclass(frozen=True)
class Comparison:
    """Methods on the same problems: a table of means and every paired difference behind it."""

    metric: Metric
    ks: tuple[int, ...]
    problems: tuple[str, ...]
    table: Table
    pairs: tuple[Pair, ...]
    correction: Correction
    sides: Mapping[str, Replicates]


def compare(
    runs: Mapping[str, Method],
    ks: Sequence[int] | None = None,
    metric: Metric = "max",
    against: str | None = None,
    correction: Correction = "holm",
    threshold: float = 1.0,
    interval: Interval = DEFAULT,
    ensemble: bool = False,
    untrained: Sequence[str] = (),
    minimum_runs: int = MINIMUM_RUNS,
) -> Comparison:
    """Compare methods problem by problem: runs[name][problem id] is that problem's rewards.

    A method is one run or a list of runs; `compare_runs` says what its intervals cover. All runs
    must have the same problems. Where the numbers of samples differ, equally many of each are
    compared (`equal_counts`). `against` limits the pairs to those with one method: the correction
    of p-values is over all pairs and ks, so fewer pairs are corrected less. `ensemble` adds a
    method of this name, the same number of samples divided over all runs
    (`maxk.evaluate.ensemble`). `untrained` names base models, of which one run is all there is.
    A star needs `minimum_runs` runs of each trained method.

    >>> runs = {"base": {"p1": [0, 0], "p2": [0, 1]}, "maxk": {"p1": [0, 1], "p2": [1, 1]}}
    >>> compare(runs, ks=[1]).pairs[0].difference.value
    -0.5
    """
    if len(runs) < 2:
        raise ValueError(f"runs holds {list(runs)}; a comparison needs two or more")
    names = [*runs, *[ENSEMBLE] * ensemble]
    if against is not None and against not in names:
        raise ValueError(f"against={against!r} is not among the runs {list(runs)}")
    if unknown := sorted(set(untrained) - set(runs)):
        raise ValueError(f"untrained={unknown} is not among the runs {list(runs)}")
    single = {
        (name, i): run for name, method in runs.items() for i, run in enumerate(_runs_of(method))
    }
    rows = {key: list(each.values()) for key, each in equal_counts(single).items()}
    problems = tuple(single[next(iter(single))])
    ks = check_ks(ks, min(fewest(blocks(each)) for each in rows.values()))
    sides = {
        name: replicates(
            [rows[key] for key in rows if key[0] == name],
            *(ks, metric, threshold, name not in untrained),
        )
        for name in runs
    }
    if ensemble:
        if ENSEMBLE in runs:
            raise ValueError(f"a run is called {ENSEMBLE!r}; give it another name")
        sides[ENSEMBLE] = Replicates(_divided(list(rows.values()), ks, metric, threshold)[None])
    chosen = [pair for pair in combinations(names, 2) if against is None or against in pair]
    found = [
        (first, second, gap)
        for first, second in chosen
        for gap in compare_runs(sides[first], sides[second], ks, interval.confidence)
    ]
    adjusted = adjust([gap.p for *_, gap in found], correction)
    return Comparison(
        metric=metric,
        ks=tuple(ks),
        problems=problems,
        table=table_of(
            {
                f"{metric}@{k}": {name: side.at(i) for name, side in sides.items()}
                for i, k in enumerate(ks)
            },
            correction,
            interval,
            minimum_runs,
        ),
        pairs=tuple(
            Pair(first, second, gap.k, gap, p)
            for (first, second, gap), p in zip(found, adjusted, strict=True)
        ),
        correction=correction,
        sides=sides,
    )


def _runs_of(method: Method) -> Sequence[Mapping[str, Any]]:
    return [method] if isinstance(method, Mapping) else method


def _divided(
    rows: Sequence[Sequence[Any]], ks: Sequence[int], metric: Metric, threshold: float
) -> np.ndarray:
    """Scores of an ensemble that takes as many samples in all as one run has."""
    parts = [[row[: -(-len(row) // len(rows))] for row in each] for each in rows]
    return divided(parts, ks, metric, threshold)


def joined(
    found: Mapping[str, Comparison],
    caption: str = "",
    correction: Correction = "holm",
    minimum_runs: int = MINIMUM_RUNS,
) -> Table:
    """One table of comparisons of the same methods at one k each; found[header] is a column."""
    columns = {
        header: {name: side.at(0) for name, side in each.sides.items()}
        for header, each in found.items()
    }
    return replace(table_of(columns, correction, minimum_runs=minimum_runs), caption=caption)


def table_of(
    columns: Mapping[str, Mapping[str, Replicates]],
    correction: Correction = "holm",
    interval: Interval = DEFAULT,
    minimum_runs: int = MINIMUM_RUNS,
) -> Table:
    """A table of methods: columns[header][method] has the scores of its runs at one k.

    The star is by `compare_runs`, corrected over the columns, and needs `minimum_runs` runs of the
    best and of the second. An interval in a cell is over runs and problems where there are two runs
    or more, else over problems.
    """
    means = {
        header: {name: side.scores.mean((0, 2)) for name, side in sides.items()}
        for header, sides in columns.items()
    }
    table = ranked(means, "", interval, star=False)
    tests = [_star(table, j, sides, minimum_runs) for j, sides in enumerate(columns.values())]
    given = [j for j, p in enumerate(tests) if p is not None]
    adjusted = adjust([p for p in tests if p is not None], correction)
    stars = {j for j, p in zip(given, adjusted, strict=True) if p < SIGNIFICANT}
    rows = [list(cells) for cells in table.cells]
    for j, sides in enumerate(columns.values()):
        for cells, name in zip(rows, table.rows, strict=True):
            cell = replace(cells[j], star=j in stars and cells[j].bold)
            if sides[name].runs > 1:
                found = mean_of(sides[name].scores)
                half = float(found.half(interval.confidence)[0])
                cell = replace(cell, low=cell.value - half, high=cell.value + half)
            cells[j] = cell
    return replace(table, cells=tuple(map(tuple, rows)))


def _star(
    table: Table, column: int, sides: Mapping[str, Replicates], minimum_runs: int
) -> float | None:
    """The p-value of the best against the second; None where there are too few runs, or a tie."""
    marks = [(name, cells[column]) for name, cells in zip(table.rows, table.cells, strict=True)]
    first = [name for name, cell in marks if cell.bold]
    second = [name for name, cell in marks if cell.underline]
    if len(first) != 1 or not second:
        return None
    gaps = [compare_runs(sides[first[0]], sides[name], [1])[0] for name in second]
    return max(gap.p for gap in gaps) if all(gap.has_runs(minimum_runs) for gap in gaps) else None


def equal_counts(runs: Mapping[Any, Mapping[str, Any]]) -> dict[Any, dict[str, Any]]:
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


def refuse_different_problems(runs: Mapping[Any, Mapping[str, Any]]) -> None:
    """ValueError that shows what differs, unless all runs have the same problem ids."""
    first, *others = runs
    for other in others:
        only_first = [str(each) for each in runs[first] if each not in runs[other]]
        only_other = [str(each) for each in runs[other] if each not in runs[first]]
        if only_first or only_other:
            one, two = _name(first), _name(other)
            raise ValueError(
                f"runs {one} and {two} are not on the same problems: only {one} has "
                f"{_some(only_first)}; only {two} has {_some(only_other)}. Evaluate both on the "
                "same problems, or drop the rest"
            )


def _name(key: Any) -> str:
    """'base'; and 'base' (run 2) where a method has several."""
    if not isinstance(key, tuple):
        return repr(key)
    return f"{key[0]!r} (run {key[1] + 1})" if key[1] else repr(key[0])


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:3])
    return f"{len(ids)} ({shown}{', ...' if len(ids) > 3 else ''})" if ids else "none"
