"""The tables of experiments/archive/pocket.md, from the stored results or those of a new run.

    python -m experiments.pocket.tables                            # the stored ones
    python -m experiments.pocket.tables out/demo-full/results      # what `full` left there

Means over seeds. An interval holds 95 % of 2,000 draws in which problems, and for each method its
seeds, are drawn again with replacement; differences are paired by problem.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from experiments.results.add import fold
from experiments.results.compact import Kept, read, samples_of
from maxk import max_at_k, pass_at_k
from maxk.pocket.families import HELD_OUT, SEEN

KS = (1, 2, 4, 8, 16, 32, 64, 128)
DRAWS = 2000
OPEN = {family.name for family in (*SEEN, *HELD_OUT) if family.hidden}
Curves = dict[str, np.ndarray]  # per cell: seeds x problems x k


def curves(runs: Iterable[Kept], metric: str) -> tuple[Curves, list[str]]:
    """Every cell's estimates, and the problems in their order."""
    found: dict[str, list[np.ndarray]] = {}
    problems: list[str] = []
    for run in sorted(runs, key=lambda run: run.about["seed"]):
        rows = sorted(run.rows, key=lambda row: row["problem"])
        problems = problems or [row["problem"] for row in rows]
        matrix = np.array([samples_of(row) for row in rows])
        estimate = max_at_k if metric == "max" else pass_at_k
        made = np.stack([estimate(matrix, k) for k in KS], axis=-1)
        found.setdefault(run.about["cell"], []).append(made)
    return {cell: np.stack(seeds) for cell, seeds in found.items()}, problems


def redrawn(seeds: np.ndarray, problems: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Means of one draw: some seeds of a cell, and these problems."""
    return seeds[generator.integers(len(seeds), size=len(seeds))].mean(0)[problems].mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="pass@k or max@k of every cell")
    parser.add_argument("folder", type=Path, nargs="?", help="with rewards.parquet")
    parser.add_argument("--study", default="pocket", help="of the stored results")
    parser.add_argument("--metric", choices=("max", "pass"), default="max")
    parser.add_argument("--beside", default="grpo", help="the cell for the differences")
    given = parser.parse_args()
    if given.folder is None:
        runs = [run for run in read().all() if run.study == given.study]
    else:
        runs = fold(given.folder, given.study)
    found, problems = curves(runs, given.metric)
    told = np.array([problem.split("-", 1)[1] not in OPEN for problem in problems])
    generator = np.random.default_rng(0)
    draws: dict[str, list[np.ndarray]] = {cell: [] for cell in found}
    for _ in range(DRAWS):
        drawn = generator.integers(len(problems), size=len(problems))
        for cell, seeds in found.items():
            draws[cell].append(redrawn(seeds, drawn, generator))
    beside = np.array(draws[given.beside])
    columns = ["", "seeds", *(f"@{k}" for k in KS), "told @128"]
    columns += [f"@{k} - {given.beside}" for k in (1, 128)]
    print("|", " | ".join(columns), "|")
    print("|" + "---|" * len(columns))
    for cell, seeds in found.items():
        mean = seeds.mean((0, 1))
        cells = [cell, f"{len(seeds)}", *(f"{value:.3f}" for value in mean)]
        cells.append(f"{seeds.mean(0)[told, -1].mean():.3f}")
        for i in (0, -1):
            difference = mean[i] - found[given.beside].mean((0, 1))[i]
            low, high = np.quantile(np.array(draws[cell])[:, i] - beside[:, i], (0.025, 0.975))
            alone = cell == given.beside
            cells.append("" if alone else f"{difference:+.3f} ({low:+.3f}, {high:+.3f})")
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
