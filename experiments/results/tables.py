"""The tables of the results page: the main comparison, each set, exactness, power, coverage."""

import json
from pathlib import Path

import numpy as np

from experiments.grid.data import metric_mean, pipes
from experiments.registered import analysis
from experiments.results.claims import (
    BASE,
    BOTH,
    EXACT,
    FIRST,
    GRPO,
    KS,
    LEVEL,
    METHODS,
    MINIMUM,
    POOLED,
    SETS,
    Claim,
    Runs,
    claims,
    stored,
)

COVERAGE = Path(__file__).parent / "coverage.json"
NAMES = {
    "mbpp": "MBPP",
    "humaneval": "HumanEval",
    "leetcode": "LeetCode",
    "code-contests": "CodeContests",
}
SMALL = ("pocket-test",)
EACH_SET = ((GRPO, BASE), (BOTH, BASE), (EXACT, BASE), (BOTH, GRPO), (EXACT, GRPO))
AGAINST = (*EACH_SET, (FIRST, GRPO), (EXACT, FIRST))


def main_pairs(runs: Runs) -> dict[tuple[str, str, int], Claim | None]:
    """Over the problems of three sets, with Holm over all of it."""
    keys = [(own, other, k) for own, other in AGAINST for k in KS]
    found = claims(
        [(runs.named(own, POOLED, k), runs.named(other, POOLED, k), k) for own, other, k in keys]
    )
    return dict(zip(keys, found, strict=True))


def main_table(runs: Runs, found: dict[tuple[str, str, int], Claim | None]) -> str:
    lines = []
    for name in METHODS:
        for k in KS:
            own = runs.named(name, POOLED, k)
            if own is None:
                continue
            gaps = [found.get((name, other, k)) for other in (BASE, GRPO)]
            shown = ["" if gap is None else gap.shown for gap in gaps]
            count = "-" if name == BASE else str(own.runs)
            lines.append([name, k, count, f"{100 * own.means.mean():.1f}", *shown])
    return pipes(
        ["method", "k", "runs", "max@k, %", "against the base model", "against `grpo`"], lines
    )


def sets_table(runs: Runs) -> str:
    """Each set alone: means over runs, where there are two or more of three or more at some k."""
    lines = []
    for name in SETS:
        for own in METHODS:
            there = [runs.named(own, (name,), k) for k in KS]
            kept = [x if x and (own == BASE or x.runs > 1) else None for x in there]
            if any(x.runs >= MINIMUM or own == BASE for x in kept if x):
                counts = dict.fromkeys(str(x.runs) for x in kept if x)
                means = [f"{100 * x.means.mean():.1f}" if x else "" for x in kept]
                lines.append([NAMES[name], own, "-" if own == BASE else "/".join(counts), *means])
    return pipes(["set", "method", "runs", *(f"max@{k}" for k in KS)], lines)


def differences_table(runs: Runs) -> str:
    """The same as differences with intervals, and a test for each cell, with Holm over all."""
    rows = [(name, *pair) for name in SETS for pair in EACH_SET]
    keys = [(name, own, other, k) for name, own, other in rows for k in KS]
    found = claims(
        [
            (runs.named(own, (name,), k), runs.named(other, (name,), k), k)
            for name, own, other, k in keys
        ]
    )
    claim = dict(zip(keys, found, strict=True))
    lines = []
    for row in rows:
        gaps = [claim[*row, k] for k in KS]
        cells = [gap.marked if gap and gap.enough else "" for gap in gaps]
        if any(cells):
            lines.append([NAMES[row[0]], f"{row[1]} - {row[2].removesuffix(' model')}", *cells])
    return pipes(["set", "difference", *(f"max@{k}" for k in KS)], lines)


def exactness(runs: Runs) -> str:
    data, small = stored()[0], runs.study("pocket")
    lags = {run: about.get("policy_lag", {}) for run, about in runs.stock.runs("pocket").items()}
    cases = []
    for note, tag in (
        ("pocket model, 3 updates a batch", ""),
        ("the same without masking", "-no-region"),
        ("pocket model, 10 updates a batch", "-10updates"),
    ):
        own, other = small[f"off-policy-exact{tag}"], small[f"off-policy{tag}"]
        lag = np.mean([max(lags[run].values()) for _, run, _ in own])
        cases.append((note, lag, own, other, SMALL, (1, 128)))
    cells = ("leetcode-off-policy-exact", "leetcode-off-policy-final")
    logged = [data.logged(each) for cell in cells for each in data.cells[cell]]
    lag = metric_mean(logged, "policy_lag/iteration_3/mean") or float("nan")
    note = "0.5B model, 3 updates a batch"
    cases.append((note, lag, METHODS[EXACT], METHODS[FIRST], POOLED, (1, 32)))
    found = claims(
        [
            (runs.method(own, sets, k), runs.method(other, sets, k), k)
            for _, _, own, other, sets, ks in cases
            for k in ks
        ]
    )
    lines = []
    for i, (note, lag, own, other, sets, ks) in enumerate(cases):
        counts = [len(runs.measured(each, sets, ks[-1])) for each in (own, other)]
        gaps = found[2 * i : 2 * i + 2]
        shown = [f"max@{k}: {gap.shown}" for k, gap in zip(ks, gaps, strict=True) if gap]
        lines.append([note, f"{lag:.2f}", " and ".join(map(str, counts)), *shown])
    head = ["trained", "policy lag in the last update, nats", "runs", "k = 1", "large k"]
    return pipes(head, lines)


def power(runs: Runs) -> str:
    found = []
    for k in (1, 128):
        between = float(runs.named(GRPO, POOLED, k).means.std(ddof=1))  # type: ignore[union-attr]
        sizes = [100 * analysis.smallest(between, n, LEVEL) for n in (3, 5, 8)]
        few, five, many = (f"{size:.1f}" for size in sizes)
        found.append(
            f"At max@{k} the standard deviation between the `grpo` runs is {100 * between:.1f} pp. "
            f"A difference of {few} pp is found in 80 % of cases with 3 runs a side, of "
            f"{five} pp with 5, of {many} pp with 8."
        )
    return " ".join(found)


def procedure() -> str:
    """How often the intervals hold, and the placebo, as `benchmarks.replicates --save` left it."""
    kept = json.loads(COVERAGE.read_text())
    lines = []
    for runs in sorted({cell[0] for cell in kept["cells"]}):
        for name, problems in (("40", (40,)), ("100 and 500", (100, 500))):
            cells = [cell for cell in kept["cells"] if cell[0] == runs and cell[1] in problems]
            shares = [100 * cell[5] for cell in cells]
            wrong = [100 - 100 * cell[5] for cell in cells if cell[4] == "GRPO - GRPO"]
            mean = sum(shares) / len(shares)
            lines.append(
                [
                    *(runs, name, f"{mean:.1f}", f"{min(shares):.1f} to {max(shares):.1f}"),
                    *(f"{sum(wrong) / len(wrong):.1f}", f"{max(wrong):.1f}"),
                ]
            )
    head = ["runs a side", "problems", "coverage of the 95 % interval", "lowest and highest cell"]
    head += ["one method called two", "at most"]
    placebo = kept["placebo"]
    shares = ", ".join(f"{100 * share:.1f}" for share in placebo["different"])
    ks = ", ".join(map(str, placebo["ks"]))
    return (
        f"In %, of {kept['draws']:,} simulated comparisons a cell:\n\n{pipes(head, lines)}\n\n"
        f"Placebo: nine GRPO runs on LeetCode that differ in the seed alone, split in two with "
        f"three or more a side in all {placebo['splits']} ways. The groups are called different "
        f"in {shares} % of splits at k = {ks}. The splits are of one set of runs, so they are not "
        "independent."
    )


def registered() -> tuple[str, str]:
    """The section of the page, and its sentence for README.md."""
    data, parts, counts = stored()[0], [], []
    for experiment in (analysis.E2, analysis.E1):
        there = {arm: len(analysis.by_run(data, cell)) for arm, cell in experiment.arms.items()}
        planned = experiment.runs * len(there)
        done = sum(there.values())
        parts.append(f"### {experiment.name}\n")
        parts.append(f"{done} of {planned} planned measurements are there.\n")
        if done:
            counted = [[arm, f"{count} of {experiment.runs}"] for arm, count in there.items()]
            few = min(there.values()) < MINIMUM  # and a single run stands in no table of claims
            parts.append(
                (pipes(["method", "runs"], counted) if few else analysis.table(data, experiment))
                + "\n"
            )
        if experiment.ended or all(count >= experiment.runs for count in there.values()):
            parts.append(analysis.answers(data, experiment) + "\n")
        else:
            parts.append("No test is made before all runs are there, as the protocol says.\n")
        counts.append(f"{experiment.name[:2]}: {done} of {planned}")
    return "\n".join(parts), ", ".join(counts)
