"""The tables of experiments/archive/pocket.md from the results that lie here.

    python experiments/pocket/tables.py experiments/pocket/results/rewards.parquet

Means over seeds. An interval holds 95 % of 2,000 draws in which problems, and for each method its
seeds, are drawn again with replacement; differences are paired by problem.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from maxk import max_at_k, pass_at_k
from maxk.pocket.families import HELD_OUT, SEEN

KS = (1, 2, 4, 8, 16, 32, 64, 128)
DRAWS = 2000
OPEN = {family.name for family in (*SEEN, *HELD_OUT) if family.hidden}
Curves = dict[str, np.ndarray]  # per cell: seeds x problems x k


def curves(file: Path, metric: str) -> tuple[Curves, list[str]]:
    """Every cell's estimates, and the problems in their order."""
    passed: dict[tuple[str, int], dict[str, list[int]]] = {}
    for row in pq.read_table(file).to_pylist():
        passed.setdefault((row["cell"], row["seed"]), {})[row["problem"]] = row["passed"]
    problems = sorted(next(iter(passed.values())))
    of: dict[str, list[np.ndarray]] = {}
    for (cell, _), rewards in sorted(passed.items(), key=lambda item: item[0][1]):
        matrix = np.array([rewards[problem] for problem in problems]) / 8
        estimate = max_at_k if metric == "max" else pass_at_k
        of.setdefault(cell, []).append(np.stack([estimate(matrix, k) for k in KS], axis=-1))
    return {cell: np.stack(seeds) for cell, seeds in of.items()}, problems


def redrawn(seeds: np.ndarray, problems: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Means of one draw: some seeds of a cell, and these problems."""
    return seeds[generator.integers(len(seeds), size=len(seeds))].mean(0)[problems].mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="pass@k or max@k of every cell")
    parser.add_argument("file", type=Path)
    parser.add_argument("--metric", choices=("max", "pass"), default="max")
    parser.add_argument("--beside", default="grpo", help="the cell for the differences")
    given = parser.parse_args()
    found, problems = curves(given.file, given.metric)
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
