"""Write the results page, its figure and the sentences of README.md from the stored results.

python -m experiments.results.page           # make results
python -m experiments.results.page --check   # exit status 1 if one is not what it would write
"""

import argparse
import json
import re
from collections.abc import Sequence
from itertools import combinations
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
    Place,
    Runs,
    claims,
    effect,
    points,
    stored,
)
from experiments.results.compact import GRID
from maxk.evaluate import ensemble

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "results" / "index.md", ROOT / "README.md"
COVERAGE = Path(__file__).parent / "coverage.json"
FIGURE = ROOT / "docs" / "images" / "curves.svg"
NAMES = {
    "mbpp": "MBPP",
    "humaneval": "HumanEval",
    "leetcode": "LeetCode",
    "code-contests": "CodeContests",
}
VALIDATION = ("mbpp-train", "mbpp-validation", "validation")
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


# --- does exactness pay --------------------------------------------------------------------------


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


# --- without training ----------------------------------------------------------------------------


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


# --- the paper's claims --------------------------------------------------------------------------


def paper(runs: Runs, main: dict[tuple[str, str, int], Claim | None]) -> str:
    data, small = stored()[0], runs.study("pocket")

    def of(name: str, k: int):
        return runs.method(small[name], SMALL, k, trained=name != "base")

    asked = [
        *(("grpo-binary", "grpo", k) for k in (1, 128)),
        *(("off-policy", f"bon-{x}", 128) for x in ("max-second", "max-mean", "loo", "mean")),
        ("bon-mean", "bon-loo", 128),
        *(("off-policy", f"bon-{x}", 1) for x in ("max-second", "max-mean", "loo", "mean")),
        ("grpo-4epochs-1update", "grpo-1epoch-1update", 1),
        ("grpo-1epoch-3updates", "grpo-1epoch-1update", 1),
        ("grpo-4epochs-3updates", "base", 128),
    ]
    found = claims([(of(a, k), of(b, k), k) for a, b, k in asked])
    by = dict(zip(asked, found, strict=True))

    def said(*keys: tuple[str, str, int]) -> str:
        return "pocket: " + "; ".join(
            f"`{a}` against `{b}`, max@{k}: {by[a, b, k].shown}"
            for a, b, k in keys  # type: ignore[union-attr]
        )

    def holds(direction: str, *keys: tuple[str, str, int]) -> str:
        verdicts = [by[key].verdict for key in keys]  # type: ignore[union-attr]
        if all(verdict == direction for verdict in verdicts):
            return "reproduced"
        return "in part" if direction in verdicts else "not reproduced"

    first, last = main[GRPO, BASE, 1], main[GRPO, BASE, 128]
    assert first is not None
    assert last is not None
    entropy = [
        float(sum(row["entropy"] for row in data.by_id(each, "leetcode")))
        / sum(row["entropies"] for row in data.by_id(each, "leetcode"))
        / 1000
        for each in (*data.cells["base-final"], *data.cells["leetcode-grpo-final"])
    ]
    base, *trained = entropy
    curve = "reproduced" if (first.verdict, last.verdict) == ("above", "below") else "in part"
    rivals = ("bon-max-second", "bon-max-mean", "bon-loo", "bon-mean")
    wide = [("off-policy", rival, 128) for rival in rivals]
    narrow = [("off-policy", rival, 1) for rival in rivals]
    longer = ("grpo-4epochs-1update", "grpo-1epoch-1update", 1)
    more = ("grpo-1epoch-3updates", "grpo-1epoch-1update", 1)
    low, high = min(trained), max(trained)
    nats = f"{len(trained)} runs: {low:.2f} to {high:.2f} nats a token; base model {base:.2f}"
    rows = [
        [
            "Figure 1: GRPO raises max@k at small k, lowers it at large k",
            *(curve, f"0.5B: max@1 {first.shown}; max@128 {last.shown}"),
        ],
        [
            "Figure 2: GRPO lowers the entropy of completions",
            "reproduced" if high < base else "not reproduced",
            f"0.5B, LeetCode, {nats}",
        ],
    ]
    for claim, direction, keys in (
        ("Table 1: a binary reward harms GRPO", "below", asked[:2]),
        ("Table 2: `off-policy` has the highest max@128", "above", wide),
        ("Section 4.5: `bon-mean` above `bon-loo`", "above", asked[6:7]),
        ("Table 3: `off-policy` is first or second at max@1", "above", narrow),
        ("Table 4: more epochs, or more PPO iterations, raise max@1", "above", (longer, more)),
        ("Table 4: max@128 stays below the base model", "below", asked[-1:]),
    ):
        rows.append([claim, holds(direction, *keys), said(*keys)])
    for claim in (
        "The 7B model; training on CodeContests",
        "LiveCodeBench, LiveBench, Codeforces",
    ):
        rows.append([claim, "not tried", ""])
    return pipes(["claim of the paper", "here", "runs: 3 a side on the pocket model"], rows)


# --- power, registered experiments ---------------------------------------------------------------


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
                (pipes(["arm", "runs"], counted) if few else analysis.table(data, experiment))
                + "\n"
            )
        if experiment.ended or all(count >= experiment.runs for count in there.values()):
            parts.append(analysis.answers(data, experiment) + "\n")
        else:
            parts.append("No test is made before all runs are there, as the protocol says.\n")
        counts.append(f"{experiment.name[:2]}: {done} of {planned}")
    return "\n".join(parts), ", ".join(counts)


# --- the files -----------------------------------------------------------------------------------


def page() -> str:
    _, runs = stored()
    main = main_pairs(runs)
    text = (Path(__file__).parent / "page.txt").read_text()
    end = "<!-- Made by `make results`; the words are in experiments/results/page.txt. -->\n"
    tables = {
        "main": main_table(runs, main),
        "sets": sets_table(runs),
        "differences": differences_table(runs),
        "exactness": exactness(runs),
        "inference": inference(runs),
        "paper": paper(runs, main),
        "power": power(runs),
        "procedure": procedure(),
        "registered": registered()[0].rstrip(),
        "findings": "\n".join(f"- {line}" for line in sentences("../../")),
    }
    filled = re.sub(r"\{\{(\w+)\}\}", lambda found: tables[found[1]], text)
    return f"{filled}\n{end}"


def sentences(to: str = "") -> list[str]:
    """What the evidence says, for README.md and the top of the page. to: the root, from there."""
    main = main_pairs(stored()[1])

    def gap(own: str, other: str, k: int) -> Claim:
        claim = main[own, other, k]
        assert claim is not None
        return claim

    grpo = [gap(GRPO, BASE, k) for k in (1, 128)]
    ours = [gap(BOTH, GRPO, k) for k in (1, 128)]
    counts = " and ".join(str(claim.found.runs[0]) for claim in ours)
    protocol = f"{to}experiments/registered/PROTOCOL.md"
    return [
        f"GRPO ({grpo[0].found.runs[0]} runs) is {grpo[0].phrase('its base model')}, and "
        f"{grpo[1].phrase('it')}.",
        f"Off-policy training for max@4 ({counts} runs) is {ours[0].phrase('GRPO')}, and "
        f"{ours[1].phrase('it')}.",
        f"Old samples and merged models are [registered experiments]({protocol}); runs measured "
        f"so far: {registered()[1]}.",
    ]


def with_sentences(text: str) -> str:
    """README.md with its section of evidence."""
    made = "\n".join(f"- {line}" for line in sentences())
    found = re.compile(r"(## What the evidence says\n\n).*?(\n\n)(?!- )", flags=re.DOTALL)
    assert found.search(text)
    text = found.sub(lambda match: f"{match[1]}{made}{match[2]}", text, count=1)
    caption = re.compile(r"^\*Qwen2.5-Coder-0.5B trained on LeetCode.*\*$", flags=re.MULTILINE)
    assert caption.search(text)
    return caption.sub(lambda _: said_of_figure(), text, count=1)


def said_of_figure() -> str:
    runs = stored()[1]
    grpo, first, exact = (
        len(runs.measured(METHODS[name], POOLED, 128)) for name in (GRPO, FIRST, EXACT)
    )
    return (
        "*Qwen2.5-Coder-0.5B trained on LeetCode, 763 test problems. Lines are means over runs, "
        f"bands go from the lowest to the highest run: {grpo} of GRPO, {first + exact} of max@4 "
        f"off-policy ({first} first-order, {exact} exact).*"
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(given)
    from experiments.results.figure import drawn

    made = {PAGE: page(), README: with_sentences(README.read_text()), FIGURE: drawn(stored()[1])}
    stale = [path for path, text in made.items() if path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'differs' if asked.check else 'written'}")
        if not asked.check:
            path.write_text(made[path])
    return 1 if stale and asked.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
