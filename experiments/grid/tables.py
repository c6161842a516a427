"""Tables and figures' data from results: `python -m experiments.grid.tables` prints them.

    --fill PAGE.md of experiments/archive: each table between its marks, <!-- NAME --> and
                               <!-- end NAME -->
    --unpack DIR               folders for `maxk compare`, `maxk evaluate` and `maxk report` instead
    --only NAME ...            these tables alone, or with --unpack these results

Means, ranks, stars, intervals and tests are those of `maxk.evaluate`, as in `maxk compare`. A
method with several seeds counts with its mean over them, problem by problem; tests are between as
many seeds.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.grid import beside, planned, ways
from experiments.grid.costs import drift_by_iteration, profile, sampling_profile
from experiments.grid.data import Data, metric_mean, pipes
from experiments.grid.make_cells import CHOICES, METHODS, TRIES
from experiments.grid.pairs import (
    COMPARED,
    FINAL,
    FOURTH,
    SETS,
    against,
    by_seed,
    cut_off,
    methods,
    paired,
    sampled_of,
    sets_of,
    unfinished,
)
from experiments.grid.plan import BASE
from experiments.grid.results import unpack
from experiments.grid.shared import KS, four, halves, means, pools
from experiments.published.paper import tables as paper_tables
from experiments.results.add import stock_of
from experiments.results.compact import RESULTS
from maxk.evaluate import ranked
from maxk.evaluate.samples import Metric
from maxk.evaluate.tables import Table, markdown

Column = tuple[str, Metric, int]  # set, metric, k
FIRST = "-first"  # the tag of cells that were trained again later


def across(data: Data, cells: dict[str, str], columns: Sequence[Column], caption: str) -> str:
    """A table with a column per set, metric and k.

    Columns that the first row has no samples for are left out, then rows that lack a column.
    """
    base = next(iter(cells.values()))
    columns = [(name, metric, k) for name, metric, k in columns if data.has(base, name, k)]
    present = {
        row: cell
        for row, cell in cells.items()
        if all(data.has(cell, name, k) for name, _, k in columns)
    }
    if not columns or len(present) < 2:
        return ""
    sets = {name for name, _, _ in columns}
    metrics = {(metric, k) for _, metric, k in columns}
    made = {}
    for name, metric, k in columns:
        header = " ".join([name] * (len(sets) > 1) + [f"{metric}@{k}"] * (len(metrics) > 1))
        made[header or f"{metric}@{k}"] = {
            row: data.scores(cell, name, [k], metric)[:, 0] for row, cell in present.items()
        }
    seeds = {
        row: min(len(data.results(cell, name, k)) for name, _, k in columns)
        for row, cell in present.items()
    }
    return captioned(fairly_starred(ranked(made, f"{caption}; {said_seeds(seeds)}"), seeds))


def fairly_starred(table: Table, seeds: dict[str, int]) -> Table:
    """Without the stars of tests between a mean of several seeds and one of fewer."""

    def unfair(column: int) -> bool:
        marked = [row[column].bold or row[column].underline for row in table.cells]
        return len({seeds[name] for name, mark in zip(table.rows, marked, strict=True) if mark}) > 1

    drop = [unfair(column) for column in range(len(table.columns))]
    cells = tuple(
        tuple(replace(cell, star=cell.star and not drop[j]) for j, cell in enumerate(row))
        for row in table.cells
    )
    return replace(table, cells=cells)


def said_seeds(seeds: dict[str, int]) -> str:
    """How many seeds rows have: the number of most of them, then whose it is not."""
    most = Counter(seeds.values()).most_common(1)[0][0]
    others = [f"{row} {count}" for row, count in seeds.items() if count != most]
    return "; ".join([f"seeds: {most}", *([", ".join(others)] if others else [])])


def captioned(table: Table) -> str:
    return f"{table.caption}\n\n{markdown(table, intervals=True)}"


PAPERS = {
    ("code-contests", "pass"): "5",
    ("code-contests", "max"): "6",
    ("mbpp", "pass"): "13",
    ("mbpp", "max"): "14",
}  # of the sets that it has too


def main_table(data: Data, kind: str, metric: Metric, k: int, tag: str = "") -> str:
    columns: list[Column] = [(name, metric, k) for name in sets_of(data, kind, tag)]
    return across(data, methods(kind, tag), columns, f"{metric}@{k}, trained as {kind}-*")


def curves(data: Data, kind: str, name: str, metric: Metric, tag: str = "") -> str:
    """Tables 5 to 14 of the paper: one set, every k."""
    ks = (*KS, 256) if tag == FINAL else KS
    columns: list[Column] = [(name, metric, k) for k in ks]
    return across(data, methods(kind, tag), columns, f"{name}, trained as {kind}-*")


def paper_kl(data: Data) -> str:
    """The paper's settings with the KL term to the model of the start and to the sampler."""
    forms = {", KL to the start": "paper-{}", ", KL to the sampler": "paper-old-{}"}
    return in_forms(data, forms, "mbpp, trained as paper-*")


def final_four(data: Data) -> str:
    """Three trainings and their mean moved back, which share the samples."""
    known = methods("leetcode", FINAL)
    others = {row: known[row] for row in ("base", "grpo", "off-policy")}
    return four(data, known[FOURTH], sampled_of(data, "leetcode", FINAL), others)


def final_plan(data: Data) -> str:
    """The same three, their mean and the mean moved back, in the order that validation chose."""
    known = methods("leetcode", FINAL)
    others = {row: known[row] for row in ("base", "grpo", "off-policy")}
    return planned.tables(data, sampled_of(data, "leetcode", FINAL), others, FINAL)


def trained_twice(data: Data) -> str:
    """The same cells, seed included, at another time: what the order of a GPU's sums changes."""
    forms = {", the first time": "paper-old-{}" + FIRST, ", the second": "paper-old-{}"}
    return in_forms(data, forms, "mbpp, trained as paper-old-*")


def in_forms(data: Data, forms: dict[str, str], caption: str) -> str:
    """Methods on MBPP in several forms, where all of them are measured, by the first seed.

    forms: what the row adds to the method's name, and the cell with {} for the method. Of the
    forms that there are, some have a second seed, and two trainings against one is no fair pair.
    """
    data = data.with_seeds({0})
    cells = {"base": BASE}
    for method in METHODS:
        each = {f"{method}{label}": form.format(method) for label, form in forms.items()}
        if all(data.has(cell, "mbpp") for cell in each.values()):
            cells |= each
    columns: list[Column] = [("mbpp", "max", k) for k in KS]
    return across(data, cells, columns, caption) if len(cells) > 1 else ""


def both_curves(data: Data, kind: str, name: str, tag: str = "") -> str:
    made = (curves(data, kind, name, metric, tag) for metric in ("pass", "max"))
    return "\n\n".join(filter(None, made))


def beside_paper(number: str | None, ours: str) -> str:
    """number: of the paper's table, if it has one."""
    if not ours or number is None:
        return ours
    return f"{ours}\n\n{captioned(paper_tables()[number].table())}"


def table1(data: Data) -> str:
    rows = {"base": BASE, "continuous reward": "mbpp-grpo", "binary reward": "table1-binary"}
    columns: list[Column] = [(name, "pass", k) for name in ("mbpp", "humaneval") for k in (1, 128)]
    return across(data, rows, columns, "GRPO, the reward continuous and binary")


SHORT: list[Column] = [
    (name, "max", k) for name in ("mbpp", "mbpp-plus", "humaneval") for k in (1, 128)
]


def table4(data: Data) -> str:
    rows = {
        "base": BASE,
        "one epoch": "table4-1x1",
        "four epochs": "table4-4x1",
        "PPO=3, one epoch": "table4-1x3",
        "PPO=3, two epochs": "mbpp-grpo",
        "PPO=3, four epochs": "table4-4x3",
    }
    rows["off-policy, PPO=3, two epochs"] = "mbpp-off-policy"
    return across(data, rows, SHORT, "GRPO trained for longer")


def k_table(data: Data) -> str:
    rows = {"base": BASE}
    for label, own, method in (
        ("loo", "k-loo", "bon-loo"),
        ("centered", "k-centered", "bon-centered"),
    ):
        for k in (2, 4, 6, 8):
            rows[f"bon-{label}, k = {k}"] = f"mbpp-{method}" if k == 4 else f"{own}-{k}"
    return across(data, rows, SHORT, "the k of training, n = 8")


AVERAGED = ("grpo-slow-averaged", "bon-centered-slow-averaged")  # of the fifth, no longer made


def tries(data: Data) -> str:
    """What was tried, on validation."""
    names = list(TRIES)
    at = names.index("bon-centered-k7-slow")  # before the sixth round
    rows = {name: f"try-{name}" for name in (*names[:at], *AVERAGED, *names[at:])}
    sets = ("mbpp-validation", "validation")
    return tried(data, rows, sets, "grpo-slow", "trained on MBPP train, measured on validation")


CHOSEN_BY = ("mbpp-train", "mbpp-validation", "validation")


def choices(data: Data) -> str:
    """The same, trained on LeetCode."""
    rows = {name: f"choose-{name}" for name in CHOICES}
    return tried(data, rows, CHOSEN_BY, "grpo", "trained on LeetCode, measured on validation")


def tried(
    data: Data, cells: dict[str, str], sets: Sequence[str], reference: str, caption: str
) -> str:
    """Settings beside each other, and against one of them over the problems of all the sets."""
    rows = {
        row: cell
        for row, cell in {"base": BASE, **cells}.items()
        if all(data.has(cell, name) for name in sets)
    }
    if not rows:
        return ""
    columns: list[Column] = [(name, "max", k) for name in sets for k in (1, 8, 128)]
    table = across(data, rows, columns, caption)
    lines = []
    for row, cell in rows.items():
        logged = [data.logged(each) for each in data.cells[cell] if each.about["train"]]
        lag = metric_mean(logged, "policy_lag/iteration_3/mean")
        entropy = data.entropy(cell, sets[0])
        lines.append([row, entropy, lag, *against(data, cell, cells[reference], sets)])
    head = ["", f"entropy of a token on {sets[0]}", "policy lag before the third update of a batch"]
    count = "both" if len(sets) == 2 else "all"
    head += [f"max@{k} over {reference}, {count} sets" for k in COMPARED]
    return f"{table}\n\n{pipes(head, lines)}" if table else ""


SHOWN = "-shown"  # cells whose prompts show all tests of MBPP, in training and in `mbpp`


def shown_table(data: Data) -> str:
    rows = {method: cell + SHOWN for method, cell in methods("mbpp").items()}
    kinds: tuple[tuple[Metric, int], ...] = (("pass", 1), ("max", 1), ("max", 128))
    tables = [
        across(data, rows, [(name, metric, k) for metric, k in kinds], f"{name}, all tests shown")
        for name in ("mbpp", "mbpp-plus", "humaneval")
    ]
    lines = []
    for row, cell in rows.items():
        for result in data.results(cell, "mbpp"):
            about = result.sets["mbpp"]
            length = about["tokens"] / (about["n"] * about["problems"])
            known = about["by_heart"]
            share = None if known is None else f"{100 * known:.1f} %"
            lines.append([row, share, f"{length:.0f}"])
    head = ["", "passes on mbpp that have tests by heart", "tokens of a completion there"]
    return "\n\n".join([*filter(None, tables), pipes(head, lines)]) if any(tables) else ""


DRIFT = (
    "grpo",
    "bon-centered",
    "off-policy",
    "off-policy-exact",
    "off-policy-normalized",
    "off-policy-open",
    "off-policy-exact-open",
    "off-policy-normalized-open",
)


def drift_table(data: Data, tag: str = "", rate: str = "5e-6") -> str:
    rows = {"base": BASE, **{name: f"drift-{name}{tag}" for name in DRIFT}}
    columns: list[Column] = [(name, "max", k) for name in ("mbpp", "humaneval") for k in (1, 128)]
    return across(data, rows, columns, f"8 updates a batch, learning rate {rate}")


def figure1(data: Data) -> str:
    """max@k and pass@k on MBPP test before and after GRPO."""
    rows = {
        "before": BASE,
        "after GRPO": "mbpp-grpo",
        "after off-policy": "mbpp-off-policy",
    }
    tables = []
    metrics: tuple[Metric, ...] = ("pass", "max")
    for metric in metrics:
        columns: list[Column] = [("mbpp", metric, k) for k in KS]
        tables.append(across(data, rows, columns, f"{metric}@k on MBPP test"))
    return "\n\n".join(filter(None, tables))


def blocks() -> dict[str, Callable[[Data], str]]:
    """Every table by name."""
    made: dict[str, Callable[[Data], str]] = {
        "main-128": lambda data: beside_paper("2", main_table(data, "mbpp", "max", 128)),
        "main-1": lambda data: beside_paper("3", main_table(data, "mbpp", "max", 1)),
        "main-256": lambda data: main_table(data, "mbpp", "max", 256),
        "paired": lambda data: paired(data, "mbpp"),
        "by-seed": lambda data: by_seed(data, "mbpp"),
        "cut-off": lambda data: cut_off(data, "mbpp"),
        "unfinished": lambda data: unfinished(data, "mbpp"),
        "table1": lambda data: beside_paper("1", table1(data)),
        "table4": lambda data: beside_paper("4", table4(data)),
        "k": k_table,
        "shown": shown_table,
        "tries": tries,
        "choices": choices,
        "means": lambda data: means(data, CHOSEN_BY),
        "halves": lambda data: halves(data, CHOSEN_BY),
        "pools": lambda data: pools(data, CHOSEN_BY),
        "drift": drift_table,
        "drift-fast": lambda data: drift_table(data, "-fast", "2e-5"),
        "drift-by-iteration": drift_by_iteration,
        "paper-kl": paper_kl,
        "trained-twice": trained_twice,
        "figure1": figure1,
        "profile": profile,
        "sampling": sampling_profile,
    }
    for kind in ("leetcode", "paper", "paper-old"):
        for k in (1, 128):
            made[f"{kind}-{k}"] = lambda data, kind=kind, k=k: main_table(data, kind, "max", k)
        made[f"{kind}-curves"] = lambda data, kind=kind: both_curves(data, kind, "leetcode")
        made[f"{kind}-paired"] = lambda data, kind=kind: paired(data, kind)
        made[f"{kind}-cut-off"] = lambda data, kind=kind: cut_off(data, kind)
        made[f"{kind}-unfinished"] = lambda data, kind=kind: unfinished(data, kind)
    for k in (1, 128, 256):
        made[f"final-{k}"] = lambda data, k=k: main_table(data, "leetcode", "max", k, FINAL)
    for name in SETS:
        made[f"final-{name}"] = lambda data, name=name: both_curves(data, "leetcode", name, FINAL)
    made["final-paired"] = lambda data: paired(data, "leetcode", FINAL)
    made["final-by-seed"] = lambda data: by_seed(data, "leetcode", FINAL)
    for name, make in (("means", means), ("halves", halves)):
        made[f"final-{name}"] = lambda data, make=make: make(
            data, sampled_of(data, "leetcode", FINAL), FINAL
        )
    made["final-means-leetcode"] = lambda data: means(data, ["leetcode"], FINAL)
    made["final-four"] = final_four
    made["final-plan"] = final_plan
    made["final-cut-off"] = lambda data: cut_off(data, "leetcode", FINAL)
    made |= ways.tables()
    made["trainings-beside"] = lambda data: beside.trainings(data, ways.FOLDERS["trainings"])
    for name in SETS:
        for metric in ("pass", "max"):
            made[f"{metric}-{name}"] = lambda data, name=name, metric=metric: beside_paper(
                PAPERS.get((name, metric)), curves(data, "mbpp", name, metric)
            )
    return made


def fill(text: str, made: dict[str, str]) -> str:
    """A page with the tables between their marks; ValueError for a mark that means none."""

    def one(found: re.Match[str]) -> str:
        name = found[1]
        if name not in made:
            raise ValueError(f"<!-- {name} --> means no table; there are {', '.join(made)}")
        return f"<!-- {name} -->\n{made[name] or 'no data yet'}\n<!-- end {name} -->"

    return re.sub(r"<!-- ([\w-]+) -->\n.*?<!-- end \1 -->", one, text, flags=re.DOTALL)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="tables from results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", help="names of tables, with --unpack of results")
    parser.add_argument("--fill", type=Path, nargs="+", help="pages in experiments/archive")
    parser.add_argument("--unpack", type=Path)
    asked = parser.parse_args(given)
    if asked.unpack is not None:
        try:
            made = unpack(stock_of(asked.results), asked.unpack, asked.only)
        except LookupError as error:
            parser.error(error.args[0])
        print(*made, sep="\n")
        return 0
    data = Data(asked.results)
    known = blocks()
    if unknown := set(asked.only or ()) - set(known):
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(known)}")
    made = {
        name: make(data) for name, make in known.items() if not asked.only or name in asked.only
    }
    if asked.fill is not None:
        for page in asked.fill:
            page.write_text(fill(page.read_text(), made))
        return 0
    for name, text in made.items():
        print(f"<!-- {name} -->\n{text or 'no data yet'}\n<!-- end {name} -->\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
