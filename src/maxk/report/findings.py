"""What the data say, as numbers and as sentences: the top of the report.

Every figure of a comparison is after minus before on the same problems, with the interval of
`maxk.evaluate.compare`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Literal

import numpy as np

from maxk.evaluate import Evaluation, compare, evaluate, scores
from maxk.evaluate.bootstrap import mean_interval, resampled_means
from maxk.evaluate.read import Stored
from maxk.report.gather import Gathered, RunData, groups_by_step

_ROUNDING = 1e-12  # differences below it are none
_RESAMPLES = 2_000  # for where curves cross, which needs one curve per resample
_DENSE = 64  # values of k between 1 and n at which two curves are compared


@dataclass(frozen=True)
class Change:
    """max@k or pass@k after minus before at one k, with its 95 % interval."""

    k: int
    before: float
    after: float
    value: float
    low: float
    high: float
    p: float

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """1 or -1 where the interval leaves out 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True)
class Crossing:
    """The k at which one curve overtakes the other for good, and an interval over problems.

    share: of the resampled benchmarks, how many have a crossing at all. back: whether the one that
    is ahead in the end was also ahead at first.
    """

    k: float
    low: float
    high: float
    share: float
    back: bool


@dataclass(frozen=True)
class Effect:
    """One run against the first: every k, and where the curves cross."""

    before: str
    after: str
    problems: int
    changes: tuple[Change, ...]
    crossing: Crossing | None


Move = Literal["lost", "gained", "solved", "never"]


@dataclass(frozen=True)
class Moved:
    """One problem before and after. chance: of so few successes after, had nothing changed."""

    problem: str
    before: float
    after: float
    move: Move
    chance: float


@dataclass(frozen=True)
class Part:
    """max@k over the first or last tenth of a training run: groups are problems here."""

    steps: tuple[int, int]
    groups: int
    one: tuple[float, float, float]  # max@1 with its interval
    best: tuple[float, float, float]  # max@n


class Findings:
    """Numbers of all runs. What takes long is computed when first asked for."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        """By name of the run; for k = 1, 2, 4 ... n."""
        return {
            run.name: evaluate(run.stored.rows, groups=run.stored.difficulties)
            for run in self.gathered.sampled
            if run.stored is not None
        }

    @cached_property
    def effects(self) -> list[Effect]:
        """Every later run against the first."""
        stored = [run.stored for run in self.gathered.sampled if run.stored is not None]
        return [effect(stored[0], other) for other in stored[1:]]

    def moves(self, after: str) -> list[Moved]:
        """Where each problem went between the first run and this one."""
        first = self.gathered.sampled[0]
        (other,) = [run for run in self.gathered.sampled if run.name == after]
        return [moved(problem, first, other) for problem in first.samples]

    @cached_property
    def headline(self) -> list[str]:
        """Two sentences per comparison; about the one run where there is nothing to compare."""
        if self.effects:
            return [sentences(each) for each in self.effects]
        if self.gathered.sampled:
            run = self.gathered.sampled[0]
            return [one_run(run.name, self.evaluations[run.name])]
        return [training(run) for run in self.gathered.trained]


# --- comparisons ---------------------------------------------------------------------------------


def effect(before: Stored, after: Stored) -> Effect:
    """What changed from one run to another, at every k."""
    rewards = {before.name: before.rewards, after.name: after.rewards}
    found = compare(rewards, metric="max", correction="none")
    means = {
        name: [cell.value for cell in cells]
        for name, cells in zip(found.table.rows, found.table.cells, strict=True)
    }
    changes = tuple(
        Change(
            k=pair.k,
            before=means[before.name][i],
            after=means[after.name][i],
            value=-pair.difference.value,  # a pair is first minus second
            low=-pair.difference.high,
            high=-pair.difference.low,
            p=pair.difference.p,
        )
        for i, pair in enumerate(found.pairs)
    )
    return Effect(
        before=before.name,
        after=after.name,
        problems=len(before.rewards),
        changes=changes,
        crossing=crossing(before.rows, [after.rewards[problem] for problem in before.rewards]),
    )


def crossing(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> Crossing | None:
    """Where the sign of after minus before changes for the last time, if it ever does.

    Between two values of k the curves are taken as straight on a log scale. With success always
    before and a half of the time after, nothing crosses:

    >>> crossing([np.ones(4)] * 5, [np.array([0.0, 1.0, 0.0, 1.0])] * 5) is None
    True
    """
    n = min(len(row) for row in [*before, *after])
    ks = sorted({round(float(k)) for k in np.geomspace(1, n, _DENSE)})
    gap_PK = scores(after, ks) - scores(before, ks)
    gap_K = gap_PK.mean(0)
    found = _crossings(gap_K[None], np.array(ks))[0]
    if np.isnan(found):
        return None
    drawn = _crossings(resampled_means(gap_PK, _RESAMPLES, seed=0), np.array(ks))
    crossed = drawn[~np.isnan(drawn)]
    low, high = np.percentile(crossed, [2.5, 97.5]) if len(crossed) else (found, found)
    signs = _signs(gap_K)
    back = signs[signs != 0][0] == signs[signs != 0][-1]
    return Crossing(float(found), float(low), float(high), len(crossed) / len(drawn), bool(back))


def _signs(gap: np.ndarray) -> np.ndarray:
    """Of differences; rounding errors count as none."""
    return np.where(np.abs(gap) < _ROUNDING, 0, np.sign(gap))


def _crossings(gap_RK: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Per row, the k of the last change of sign; NaN where there is none."""
    out = np.full(len(gap_RK), np.nan)
    signs_RK = _signs(gap_RK)
    for r, (gap_K, signs_K) in enumerate(zip(gap_RK, signs_RK, strict=True)):
        ends = np.flatnonzero(signs_K)
        if not len(ends):
            continue
        before = np.flatnonzero(signs_K == -signs_K[ends[-1]])
        if len(before):
            last = before[-1]
            after = ends[ends > last][0]
            share = gap_K[last] / (gap_K[last] - gap_K[after])
            out[r] = np.exp(np.log(ks[last]) * (1 - share) + np.log(ks[after]) * share)
    return out


def moved(problem: str, before: RunData, after: RunData) -> Moved:
    """What became of a problem. The chance is Fisher's exact test, one-sided."""
    n, m = len(before.samples[problem]), len(after.samples[problem])
    a = sum(sample.passed for sample in before.samples[problem])
    b = sum(sample.passed for sample in after.samples[problem])
    move: Move = "solved" if a and b else "lost" if a else "gained" if b else "never"
    fewer = (a, n, b, m) if a / n >= b / m else (b, m, a, n)
    return Moved(problem, a / n, b / m, move, _chance(*fewer))


def _chance(many: int, n: int, few: int, m: int) -> float:
    """P(at most `few` of all successes fall to the m samples), if they fall anywhere alike.

    >>> round(_chance(many=3, n=10, few=0, m=10), 4)  # C(10, 3) / C(20, 3)
    0.1053
    """
    total = many + few
    ways = sum(comb(m, i) * comb(n, total - i) for i in range(max(0, total - n), few + 1))
    return ways / comb(n + m, total)


# --- sentences -----------------------------------------------------------------------------------


def sentences(found: Effect) -> str:
    """The answer in two sentences."""
    one, large = found.changes[0], found.changes[-1]
    first = f"Against {found.before}, {found.after} {_verb(one)} on {found.problems} problems."
    if len(found.changes) == 1:
        return first
    name = f"max@{large.k}"
    if large.direction > 0:
        second = f"With the best of {large.k} samples it gains {_amount(large, name)}"
    elif large.direction < 0:
        second = f"With the best of {large.k} samples it loses {_amount(large, name)}"
    else:
        second = (
            f"With the best of {large.k} samples no clear difference is left: {name} goes from "
            f"{large.before:.3f} to {large.after:.3f} ({_signed(large)})"
        )
    return f"{first} {second}{_crossing_clause(found)}."


def _verb(change: Change) -> str:
    name = f"max@{change.k}"
    if change.direction:
        verb = "raises" if change.direction > 0 else "lowers"
        return (
            f"{verb} {name} by {abs(change.value):.3f} (95 % interval {_interval(change)}), "
            f"from {change.before:.3f} to {change.after:.3f},"
        )
    return (
        f"leaves {name} about where it was, {change.before:.3f} before and {change.after:.3f} "
        f"after ({_signed(change)}),"
    )


def _amount(change: Change, name: str) -> str:
    return (
        f"{abs(change.value):.3f} ({_interval(change)}), {name} going from {change.before:.3f} "
        f"to {change.after:.3f}"
    )


def _interval(change: Change) -> str:
    """Of the size of the change, so that both ends are positive."""
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{low:.3f} to {high:.3f}"


def _signed(change: Change) -> str:
    return f"{signed(change.value)}, 95 % interval {signed(change.low)} to {signed(change.high)}"


def signed(x: float) -> str:
    """With a minus that is as wide as the plus, and nothing below zero that prints as zero.

    >>> signed(0.25), signed(-0.0001)
    ('+0.250', '+0.000')
    """
    return f"{round(x, 3) + 0.0:+.3f}".replace("-", "\N{MINUS SIGN}")


def _crossing_clause(found: Effect) -> str:
    at, one, large = found.crossing, found.changes[0], found.changes[-1]
    if at is None:
        return "; the curves do not cross" if one.value * large.value > 0 else ""
    better = found.before if large.value < 0 else found.after
    often = "cross and cross back, the last time" if at.back else "cross"
    text = f"; the curves {often} at k = {at.k:.0f} ({at.low:.0f} to {at.high:.0f})"
    if large.direction:
        return f"{text}, and beyond it {better} is the one to sample from"
    return f"{text}, but beyond it the two cannot be told apart"


def one_run(name: str, found: Evaluation) -> str:
    """Two sentences on a run that is compared with nothing."""
    one, most = found.max.points[0], found.max.points[-1]
    first = (
        f"{name} has max@1 = {one.value:.3f} (95 % interval {one.low:.3f} to {one.high:.3f}) on "
        f"{found.max.problems} problems."
    )
    if most.k == 1:
        return first
    return (
        f"{first} The best of {most.k} samples reaches {most.value:.3f} ({most.low:.3f} to "
        f"{most.high:.3f}), and {found.coverage:.0%} of the problems are solved at least once."
    )


def training(run: RunData) -> str:
    """Two sentences on a training run by itself."""
    parts = training_parts(run)
    if parts is None:
        logged = [line for line in run.metrics if "reward" in line]
        if not logged:
            return f"{run.name} has no completions yet."
        first, last = logged[0], logged[-1]
        return (
            f"In {run.name} the mean reward of a sample went from {first['reward']:.3f} in step "
            f"{first['step']} to {last['reward']:.3f} in step {last['step']}. Its completions were "
            "not stored, so there is no interval."
        )
    (first, last), n = parts, group_size(run)
    done = "" if run.finished else " so far"
    return (
        f"In {run.name} the mean reward of a sample went{done} from {_ends(first.one)} in "
        f"{_steps(first)} to {_ends(last.one)} in {_steps(last)}. The best of {n} samples went "
        f"from {_ends(first.best)} to {_ends(last.best)}, on the problems of those steps, which "
        "are not the same ones."
    )


def _steps(part: Part) -> str:
    first, last = part.steps
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _ends(figure: tuple[float, float, float]) -> str:
    value, low, high = figure
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


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
