"""Methods with their runs, and differences whose unit is the run, for the results page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.grid.data import Data
from experiments.results.compact import GRID, Stock, samples_of
from maxk.evaluate import adjust, scores
from maxk.evaluate.crossed import Estimate, mean_of
from maxk.evaluate.replicates import Replicates, RunDifference, compare_runs

KS = (1, 8, 32, 128)
CURVE = (1, 2, 4, 8, 16, 32, 64, 128)
POOLED = ("mbpp", "humaneval", "leetcode")
SETS = (*POOLED, "code-contests")
MINIMUM = 3  # runs a side, for a verdict
LEVEL = 0.05
Place = tuple[str, str, str]  # study, run, sampling configuration

BASE = "base model"
GRPO, FIRST, EXACT = "`grpo`", "`off-policy`", "`off-policy-exact`"
BOTH = "both off-policy"
_CONFIGURED = "leetcode-off-policy-exact-s"
# 512 tokens, temperature 1, trained with one configuration but for the seed.
METHODS: dict[str, list[Place]] = {
    BASE: [(GRID, "base-final-s1", "")],
    GRPO: [(GRID, f"leetcode-grpo-final-s{seed}", "") for seed in range(1, 9)],
    FIRST: [(GRID, f"leetcode-off-policy-final-s{seed}", "") for seed in (1, 2)],
    EXACT: [
        (GRID, "leetcode-off-policy-exact-final-s1", ""),
        ("configurations", f"{_CONFIGURED}9", "alone plain"),
        *(("several-runs", f"{_CONFIGURED}{seed}", "test plain") for seed in (11, 12, 13)),
    ],
}
METHODS[BOTH] = [*METHODS[FIRST], *METHODS[EXACT]]


@dataclass
class Runs:
    """max@k of stored runs, problem by problem."""

    stock: Stock

    def __post_init__(self) -> None:
        self.rows: dict[tuple[Place, str], list[np.ndarray]] = {}
        self.made: dict[tuple[Place, str, int], np.ndarray] = {}
        found: dict[tuple[Place, str], list[tuple[str, np.ndarray]]] = {}
        for (study, run), rows in self.stock.rows.items():
            for row in rows:
                key = ((study, run, row["configuration"]), row["set"])
                found.setdefault(key, []).append((row["problem"], samples_of(row)))
        for key, each in found.items():
            self.rows[key] = [samples for _, samples in sorted(each, key=lambda pair: pair[0])]

    def samples(self, place: Place, name: str) -> int:
        """Of a problem of a set; 0 if the run is not measured on it."""
        rows = self.rows.get((place, name))
        return min(map(len, rows)) if rows else 0

    def measured(self, places: Sequence[Place], sets: Sequence[str], k: int) -> list[Place]:
        """The runs that have k samples of every set."""
        return [each for each in places if all(self.samples(each, name) >= k for name in sets)]

    def of(self, place: Place, sets: Sequence[str], k: int) -> np.ndarray:
        """max@k of each problem of the sets."""
        for name in sets:
            if (place, name, k) not in self.made:
                self.made[place, name, k] = scores(self.rows[place, name], [k])[:, 0]
        return np.concatenate([self.made[place, name, k] for name in sets])

    def method(
        self, places: Sequence[Place], sets: Sequence[str], k: int, trained: bool = True
    ) -> Replicates | None:
        """The runs of a method that have the samples; None if none has."""
        there = self.measured(places, sets, k)
        if not there:
            return None
        return Replicates(
            np.stack([self.of(each, sets, k)[:, None] for each in there]), trained=trained
        )

    def named(self, name: str, sets: Sequence[str], k: int) -> Replicates | None:
        return self.method(METHODS[name], sets, k, trained=name != BASE)

    def study(self, study: str) -> dict[str, list[Place]]:
        """The runs of a study by method."""
        found: dict[str, list[Place]] = {}
        for run, about in self.stock.runs(study).items():
            found.setdefault(about["cell"], []).append((study, run, ""))
        return found


@cache
def stored() -> tuple[Data, Runs]:
    data = Data()
    return data, Runs(data.stock)


@dataclass(frozen=True)
class Claim:
    """A difference of two methods at a k, in percentage points."""

    found: RunDifference
    p: float  # adjusted, over the table

    @property
    def enough(self) -> bool:
        return self.found.has_runs(MINIMUM)

    @property
    def verdict(self) -> str:
        if not self.enough:
            return "too few runs"
        if self.p >= LEVEL:
            return "not told apart"
        return "above" if self.found.value > 0 else "below"

    @property
    def shown(self) -> str:
        """The difference, its interval over runs and problems, and what follows."""
        if not self.enough:
            return f"{points(self.found.value)}, {self.verdict}"
        ends = f"{points(self.found.low)} to {points(self.found.high)}"
        said = self.verdict
        if self.p >= LEVEL and self.found.p < LEVEL:  # one comparison alone would tell them apart
            said += f", p = {self.p:.2f} in this table"
        return f"{points(self.found.value)} ({ends}), {said}"

    @property
    def marked(self) -> str:
        """The difference and its interval, and a mark if it is told apart from 0."""
        ends = f"{points(self.found.low)} to {points(self.found.high)}"
        mark = {"above": " ▲", "below": " ▼"}.get(self.verdict, "")
        return f"{points(self.found.value)} ({ends}){mark}"

    def phrase(self, other: str) -> str:
        """In a sentence, with the k that it is at."""
        value, low, high = (100 * x for x in (self.found.value, self.found.low, self.found.high))
        at = f"at max@{self.found.k}"
        if self.verdict not in ("above", "below"):
            why = f"{low:+.1f} to {high:+.1f}"
            if self.p >= LEVEL and self.found.p < LEVEL:
                why = f"{value:+.1f}, p = {self.p:.2f} with Holm's correction"
            return f"{self.verdict} from {other} {at} ({why})"
        ends = sorted((abs(low), abs(high)))
        return f"{abs(value):.1f} pp {self.verdict} {other} {at} ({ends[0]:.1f} to {ends[1]:.1f})"


def claims(pairs: Sequence[tuple[Replicates | None, Replicates | None, int]]) -> list[Claim | None]:
    """Differences of a table, with Holm over all of them that have the runs."""
    found = [None if a is None or b is None else compare_runs(a, b, [k])[0] for a, b, k in pairs]
    enough = [i for i, each in enumerate(found) if each is not None and each.has_runs(MINIMUM)]
    adjusted = dict(zip(enough, adjust([found[i].p for i in enough]), strict=True))  # type: ignore[union-attr]
    return [each and Claim(each, adjusted.get(i, 1.0)) for i, each in enumerate(found)]


def effect(
    runs: Runs, pairs: Sequence[tuple[Place, Sequence[Place], Sequence[str]]], k: int
) -> str:
    """What is changed over what it was, run by run: mean, interval over runs and problems, count.

    pairs: a run, those it is held to in the mean, and the sets; all with the same sets.
    """
    gaps = [
        runs.of(own, sets, k) - np.mean([runs.of(each, sets, k) for each in others], axis=0)
        for own, others, sets in pairs
    ]
    made: Estimate = mean_of(np.stack([gap[:, None] for gap in gaps]))
    half = float(made.half(0.95)[0])
    value = float(made.value[0])
    told = "" if abs(value) > half else ", not told apart from 0"
    return f"{points(value)} ({points(value - half)} to {points(value + half)}){told}"


def points(value: float) -> str:
    """
    >>> points(-0.0213), points(0.0)
    ('-2.1', '+0.0')
    """
    return f"{100 * value:+.1f}"
