"""Coverage of the intervals of `maxk compare`, with known truth, and the placebo on real runs.

python -m benchmarks.replicates                # everything, tables in Markdown
python -m benchmarks.replicates --draws 200    # fewer simulated comparisons for each cell
python -m benchmarks.replicates --only placebo # coverage, small, band, means or placebo
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulated import (
    data,
    simulated,
    truth,
)
from maxk.evaluate.bootstrap import Interval, mean_interval
from maxk.evaluate.crossed import difference_of, mean_of
from maxk.evaluate.paired import wilcoxon
from maxk.evaluate.replicates import Replicates, compare_runs

NINE = ("leetcode-grpo", "leetcode-grpo-final")  # one run of the first, eight of the second
SIDES, SPREADS, PROBLEMS = (3, 5, 8), (0.0, 0.01, 0.025, 0.05), (40, 100, 500)
KS = (1, 8, 32, 128)
SMALL = (20, 40, 100, 164, 500)
PAIRS = (("GRPO", "GRPO"), ("GRPO", "off-policy"), ("base", "GRPO"))
Cell = tuple[int, int, int, float, str, float]  # runs, problems, k, deviation, pair, coverage


def covers(low: np.ndarray, high: np.ndarray, true: float) -> np.ndarray:
    return (low <= true + 1e-12) & (true <= high + 1e-12)


def welch_half(a_RPK: np.ndarray, b_RPK: np.ndarray) -> np.ndarray:
    rows = compare_runs(Replicates(a_RPK), Replicates(b_RPK), range(a_RPK.shape[2]))
    return np.array([(row.welch.high - row.welch.low) / 2 for row in rows if row.welch])


# --- the studies ---------------------------------------------------------------------------------


def coverage(
    draws: int,
    sides: Sequence[int] = SIDES,
    problems: Sequence[int] = PROBLEMS,
    ks: Sequence[int] = (1, 32, 128),
    spreads: Sequence[float] = SPREADS,
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> list[Cell]:
    """The share of intervals that hold the truth: runs, problems, k, deviation, pair, share."""
    rng = np.random.default_rng(0)
    found = []
    for runs in sides:
        for count in problems:
            for k in ks:
                for between in spreads:
                    for pair in pairs:
                        hits = []
                        for (a, b), (true,) in simulated(
                            rng, pair, runs, count, [k], between, draws
                        ):
                            got = difference_of(a, b)
                            half = got.half(0.95)
                            hits.append(covers(got.value - half, got.value + half, true))
                        share = float(np.concatenate(hits).mean())
                        found.append((runs, count, k, between, " - ".join(pair), share))
    return found


def coverage_cell(asked: tuple[int, int, int, float]) -> list[Cell]:
    """The coverage with so many draws, runs, problems, and this deviation, at every k and pair."""
    draws, runs, count, between = asked
    return coverage(draws, (runs,), (count,), spreads=(between,))


def coverage_table(
    draws: int, sides: Sequence[int] = SIDES, jobs: int = 1, save: Path | None = None
) -> Iterator[str]:
    """A line for each deviation between runs, then what all cells say together."""
    head = ["runs a side", "problems", "deviation between runs", "the same method", "two methods"]
    yield from pipes([*head, "lowest", "highest"], [])
    asked = [(draws, *cell) for cell in product(sides, PROBLEMS, SPREADS)]
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(coverage_cell, asked))
    for (_, runs, count, between), cell in zip(asked, found, strict=True):
        same, two = split(cell)
        ends = [f"{100 * each(same + two):.1f}" for each in (min, max)]
        yield line([runs, count, f"{100 * between:.1f} pp", percent(same), percent(two), *ends])
    cells = [each for cell in found for each in cell]
    same, two = split(cells)
    shares, wrong = np.array(same + two), 1 - np.array(same)
    inside = ((shares >= 0.93) & (shares <= 0.97)).mean()
    yield (
        f"\n{len(shares)} cells of {draws} comparisons: coverage {percent(shares)} % on average, "
        f"{percent(inside)} % of cells in 93 to 97 %; the same method is called different in "
        f"{percent(wrong)} % on average, at most in {percent(wrong.max())} %."
    )
    if save is not None:
        splits, alone_K, every, _ = placebo(nine(), 3)
        shown = {"splits": splits, "ks": KS, "different": list(alone_K), "band": every}
        save.write_text(json.dumps({"draws": draws, "cells": cells, "placebo": shown}) + "\n")


def split(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """The shares of pairs that are the same method, and of those that are two."""
    same = [cell[5] for cell in cells if cell[4] == "GRPO - GRPO"]
    return same, [cell[5] for cell in cells if cell[4] != "GRPO - GRPO"]


def small(draws: int) -> Iterator[str]:
    """One run a side, the same method: how often is 0 left out? And the coverage of two methods."""
    rng = np.random.default_rng(1)
    ways: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
        "t": lambda gap: _t(gap),
        "BCa": lambda gap: mean_interval(gap, Interval(resamples=1000)),
    }
    head = ["problems", "k", *(f"{name}: 0 left out" for name in ways), "Wilcoxon p < 0.05"]
    head += [f"{name}: coverage" for name in ways]
    yield from pipes(head, [])
    for count in SMALL:
        for k in KS:
            wrong: dict[str, list[np.ndarray]] = {name: [] for name in (*ways, "Wilcoxon")}
            held: dict[str, list[np.ndarray]] = {name: [] for name in ways}
            for pair, out in ((("GRPO", "GRPO"), wrong), (("base", "GRPO"), held)):
                for (a, b), (true,) in simulated(rng, pair, 1, count, [k], 0.0, draws):
                    gap_PD = a[0] - b[0]
                    for name, way in ways.items():
                        hit = covers(*way(gap_PD), true)
                        out[name].append(hit if out is held else ~hit)
                    if out is wrong:
                        p = [wilcoxon(x, y) for x, y in zip(a[0].T, b[0].T, strict=True)]
                        wrong["Wilcoxon"].append(np.array(p) < 0.05)
            cells = [np.concatenate(each) for out in (wrong, held) for each in out.values()]
            yield line([count, k, *(percent(each) for each in cells)])


def _t(gap_PD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    got = difference_of(gap_PD[None], np.zeros((1, *gap_PD.shape)))
    half = got.half(0.95)
    return got.value - half, got.value + half


def means(draws: int) -> Iterator[str]:
    """The interval of one run's curve: t beside BCa, on problems of one set."""
    rng = np.random.default_rng(2)
    yield from pipes(["model", "problems", "k", "t: coverage", "BCa: coverage"], [])
    for method in ("base", "GRPO"):
        for count in SMALL:
            for k in (1, 32, 128):
                t, bca = [], []
                for (a, _), _ in simulated(rng, (method, method), 1, count, [k], 0.0, draws):
                    true = truth(method, 0.0, k)[0]
                    got = mean_of(a)
                    half = got.half(0.95)
                    t.append(covers(got.value - half, got.value + half, true))
                    bca.append(covers(*mean_interval(a[0], Interval(resamples=1000)), true))
                yield line([method, count, k, *(percent(np.concatenate(x)) for x in (t, bca))])


def band(draws: int) -> Iterator[str]:
    """How often the band holds the truth at every k together, and each interval by itself."""
    rng = np.random.default_rng(3)
    ks = [1, 2, 4, 8, 16, 32, 64, 128]
    head = ["runs a side", "problems", "deviation between runs", "band", "intervals one by one"]
    yield from pipes(head, [])
    for runs in (1, 3, 5, 8):
        for count in (20, 40, 100, 500):
            for between in (0.0, 0.025) if runs > 1 else (0.0,):
                every, alone = [], []
                for sides, true in simulated(
                    rng, ("base", "GRPO"), runs, count, ks, between, draws
                ):
                    a, b = (x.reshape(runs, count, -1, len(ks)) for x in sides)
                    for i in range(a.shape[2]):
                        got = difference_of(a[:, :, i], b[:, :, i])
                        off = np.abs(got.value - true)
                        every.append((off <= got.half_of_band(0.95)).all())
                        alone.append((off <= got.half(0.95)).all())
                shown = f"{100 * between:.1f} pp"
                yield line([runs, count, shown, percent(every), percent(alone)])


def nine() -> np.ndarray:
    """max@k of the nine GRPO runs on the 100 problems of LeetCode: [runs, problems, KS]."""
    found = data()
    return np.stack(
        [
            found.scores_of(run, "leetcode", KS, "max")
            for cell in NINE
            for run in found.results(cell, "leetcode", 128)
        ]
    )


def placebo(scores_RPK: np.ndarray, fewest: int) -> tuple[int, np.ndarray, float, np.ndarray]:
    """Splits into two groups of at least so many runs: number; shares called different, by k.

    The shares are of intervals one by one, of bands (at any k), and of Welch's t.
    """
    runs = range(len(scores_RPK))
    alone, every, welch = [], [], []
    for size in range(fewest, len(scores_RPK) // 2 + 1):
        for chosen in combinations(runs, size):
            rest = [run for run in runs if run not in chosen]
            rows = compare_runs(
                Replicates(scores_RPK[list(chosen)]), Replicates(scores_RPK[rest]), KS
            )
            alone.append([row.p < 0.05 for row in rows])
            every.append(any(row.low_all > 0 or row.high_all < 0 for row in rows))
            welch.append([row.welch.p < 0.05 for row in rows if row.welch])
    return len(alone), np.mean(alone, 0), float(np.mean(every)), np.mean(welch, 0)


def placebo_table(_: int) -> Iterator[str]:
    scores_RPK = nine()
    lines = []
    for fewest in (2, 3, 4):
        splits, alone_K, every, welch_K = placebo(scores_RPK, fewest)
        lines.append([f"{fewest} or more a side", splits, *map(percent, alone_K), percent(every)])
        lines.append(["the same, Welch's t", splits, *map(percent, welch_K), ""])
    pairs = list(combinations(range(len(scores_RPK)), 2))
    runs = [Replicates(scores_RPK[[i]]) for i in range(len(scores_RPK))]
    single = [[row.p < 0.05 for row in compare_runs(runs[i], runs[j], KS)] for i, j in pairs]
    lines.append(["one run a side", len(pairs), *map(percent, np.mean(single, 0)), ""])
    yield from pipes(["splits", "number", *(f"max@{k}" for k in KS), "band, any k"], lines)


def percent(shares: Any) -> str:
    return f"{100 * np.mean(shares):.1f}"


def line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def pipes(head: Sequence[str], lines: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield from map(line, [head, ["--"] * len(head), *lines])


STUDIES: dict[str, tuple[str, Callable[..., Iterator[str]]]] = {
    "coverage": ("Runs a side: coverage of the 95 % interval, %", coverage_table),
    "small": ("One run a side, %", small),
    "band": ("Eight values of k together, base - GRPO, %", band),
    "means": ("One run alone, %", means),
    "placebo": ("All splits of the nine GRPO runs on LeetCode, called different, %", placebo_table),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1000, help="comparisons for each cell")
    parser.add_argument("--only", choices=STUDIES, help="one study alone")
    parser.add_argument("--runs", type=int, nargs="*", default=SIDES, help="a side, of coverage")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of coverage")
    parser.add_argument(
        "--save", type=Path, help="coverage and placebo as JSON: experiments/results/coverage.json"
    )
    given = parser.parse_args()
    for name, (title, study) in STUDIES.items():
        if given.only in (None, name):
            print(f"## {title}\n", flush=True)
            more = (given.runs, given.jobs, given.save) if name == "coverage" else ()
            for text in study(given.draws, *more):
                print(text, flush=True)
            print()


if __name__ == "__main__":
    main()
