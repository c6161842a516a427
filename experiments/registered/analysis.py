"""The registered experiments, counted by runs: PROTOCOL.md says what is asked.

python -m experiments.registered.analysis           # tables, from experiments/results
python -m experiments.registered.analysis --power   # what so many runs can tell apart
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.grid.data import Data, pipes
from experiments.results.compact import RESULTS
from maxk.evaluate import adjust

SETS = ("mbpp", "humaneval", "leetcode")
KS = (1, 4, 32, 128)
LEVEL = 0.05
SPREAD = {1: 0.007, 128: 0.006}  # between the five GRPO runs there were


@dataclass(frozen=True)
class Question:
    """Whether one arm is above another at a k."""

    arm: str
    other: str
    k: int


@dataclass(frozen=True)
class Experiment:
    name: str
    arms: dict[str, str]  # the cell of each
    runs: int  # of an arm, planned
    questions: tuple[Question, ...]
    ended: bool = False  # no run will follow: the page answers by the runs there are


E1 = Experiment(
    "E1: samples of the policy itself",
    {
        "GRPO": "leetcode-grpo-e1",
        "bon-centered": "leetcode-bon-centered-e1",
        "off-policy-exact": "leetcode-off-policy-exact-e1",
        "GRPO, 30 % base": "leetcode-grpo-base-30-e1",
        "bon-centered, 30 % base": "leetcode-bon-centered-base-30-e1",
        "off-policy-exact, 30 % base": "leetcode-off-policy-exact-base-30-e1",
    },
    6,
    (
        Question("bon-centered, 30 % base", "GRPO, 30 % base", 128),
        Question("off-policy-exact, 30 % base", "GRPO, 30 % base", 128),
    ),
)
E2 = Experiment(
    "E2: samples 16 updates old",
    {
        "GRPO": "lag16-grpo-e2",
        "normalized, max@4": "lag16-normalized-e2",
        "normalized, mean": "lag16-normalized-mean-e2",
        "bon-centered": "lag16-bon-centered-e2",
    },
    4,
    (
        Question("normalized, max@4", "GRPO", 1),
        Question("normalized, max@4", "GRPO", 128),
        Question("normalized, mean", "GRPO", 1),
    ),
)


@dataclass(frozen=True)
class Gap:
    """A difference of means over runs, by Welch."""

    value: float
    low: float
    high: float
    p: float


def welch(ours_R: np.ndarray, theirs_R: np.ndarray, level: float = LEVEL) -> Gap:
    """The difference of two means over runs: each side has a variance of its own.

    >>> welch(np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0])).value
    1.0
    """
    found = stats.ttest_ind(ours_R, theirs_R, equal_var=False)
    ends = found.confidence_interval(1 - level)
    return Gap(float(ours_R.mean() - theirs_R.mean()), ends.low, ends.high, float(found.pvalue))


def power(gap: float, spread: float, runs: int, level: float) -> float:
    """The chance that a two-sided t-test of so many runs a side finds a difference.

    >>> round(power(0.0, 1.0, 4, 0.05), 3)  # where there is none: the level
    0.05
    """
    degrees = 2 * (runs - 1)
    edge = stats.t.ppf(1 - level / 2, degrees)
    shift = gap / (spread * (2 / runs) ** 0.5)
    return float(stats.nct.sf(edge, degrees, shift) + stats.nct.cdf(-edge, degrees, shift))


def smallest(spread: float, runs: int, level: float, wanted: float = 0.8) -> float:
    """The smallest difference that is found with this chance, to 0.1 percentage points."""
    return next(g for g in np.arange(1, 200) / 1000 if power(g, spread, runs, level) >= wanted)


def by_run(data: Data, cell: str, sets: Sequence[str] = SETS) -> np.ndarray:
    """max@k over all problems of the sets, of every run that has them: [runs, KS]."""
    runs = [
        np.concatenate([data.scores_of(result, name, KS, "max") for name in sets]).mean(0)
        for result in sorted(data.cells.get(cell, []), key=lambda r: r.about["seed"])
        if all(name in result.sets and result.sets[name]["n"] >= max(KS) for name in sets)
    ]
    return np.array(runs).reshape(-1, len(KS))


def table(data: Data, experiment: Experiment, sets: Sequence[str] = SETS) -> str:
    """Mean and standard deviation of every arm over its runs, in per cent."""
    lines = []
    for arm, cell in experiment.arms.items():
        runs_RK = 100 * by_run(data, cell, sets)
        if len(runs_RK) == 0:
            cells = ["" for _ in KS]
        elif len(runs_RK) == 1:
            cells = [f"{mean:.1f}" for mean in runs_RK[0]]
        else:
            ends = zip(runs_RK.mean(0), runs_RK.std(0, ddof=1), strict=True)
            cells = [f"{mean:.1f} ± {spread:.1f}" for mean, spread in ends]
        lines.append([arm, f"{len(runs_RK)} of {experiment.runs}", *cells])
    return pipes(["arm", "runs", *(f"max@{k}" for k in KS)], lines)


def answers(data: Data, experiment: Experiment) -> str:
    """The questions of the protocol: differences of means over runs, in percentage points."""
    gaps: list[Gap | None] = []
    for each in experiment.questions:
        ours_RK, theirs_RK = (by_run(data, experiment.arms[a]) for a in (each.arm, each.other))
        at = KS.index(each.k)
        enough = min(len(ours_RK), len(theirs_RK)) >= 3  # fewer runs are no claim
        gaps.append(welch(100 * ours_RK[:, at], 100 * theirs_RK[:, at]) if enough else None)
    # A question without enough runs counts as one that was asked.
    adjusted = adjust([1.0 if gap is None else gap.p for gap in gaps])
    lines = []
    for each, gap, p in zip(experiment.questions, gaps, adjusted, strict=True):
        asked = [f"{each.arm} against {each.other}", f"max@{each.k}"]
        if gap is None:
            lines.append([*asked, "fewer than 3 runs a side", "", "", ""])
            continue
        found = "above" if gap.value > 0 else "below"
        verdict = found if p < LEVEL else "not told apart"
        ends = f"{gap.low:+.1f} to {gap.high:+.1f}"
        lines.append([*asked, f"{gap.value:+.1f}", ends, f"{p:.3f}", verdict])
    head = ["question", "at", "difference", "95 % interval", "p (Holm)", "answer"]
    return pipes(head, lines)


def powers() -> str:
    """The smallest difference that is found in 80 % of cases, by the first step of Holm."""
    lines = []
    for experiment in (E1, E2):
        level = LEVEL / len(experiment.questions)
        for k, spread in SPREAD.items():
            for times in (1, 2):
                found = 100 * smallest(times * spread, experiment.runs, level)
                spread_shown = f"{100 * times * spread:.1f}"
                lines.append(
                    [experiment.name[:2], experiment.runs, f"max@{k}", spread_shown, f"{found:.1f}"]
                )
    return pipes(["experiment", "runs a side", "at", "spread of runs", "found in 80 %"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--power", action="store_true", help="what the runs can tell apart")
    given = parser.parse_args()
    if given.power:
        print(powers())
        return
    data = Data(given.results)
    for experiment in (E2, E1):
        print(f"## {experiment.name}\n\n{table(data, experiment)}\n\n{answers(data, experiment)}\n")
        for name in SETS:
            print(f"### {name}\n\n{table(data, experiment, (name,))}\n")


if __name__ == "__main__":
    main()
