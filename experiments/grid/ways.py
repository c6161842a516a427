"""What other ways to sample are worth: the plans of arms.py on the test sets, beside the rest.

A plan is of one model, or of several; a test set is sampled by it. What it is held to is sampled
in one way alone: the same training, and the cells of the last comparison, with as many tokens.

    python -m experiments.grid.ways ways --out out/figures      # the figure; tables by tables.py
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.grid.data import Data, pipes, with_interval
from experiments.grid.pairs import FINAL, SETS, methods
from experiments.grid.plan import without_seed
from experiments.grid.planned import ROW, VALIDATION, alike, of_last, pooled
from experiments.grid.shared import KS
from experiments.results.compact import RESULTS, Stock, samples_of
from maxk.evaluate import allocated, cross_validated, differences, scores
from maxk.report.draw import write_files
from maxk.report.theme import MUTED, Figure, Numbers, draw_line, legend, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Studies, by what tables of them begin with.
FOLDERS = {"ways": "configurations", "trainings": "several-runs"}
TOGETHER = "all of these together"
SAMPLED = ("mbpp", "humaneval", "leetcode")  # which all of the last comparison are measured on
PAPER = "grpo"  # of the plans, the one of a method of the paper
OTHERS = ("base", "grpo", "off-policy")  # of the last comparison
Member = tuple[str, str]  # a cell and one of its ways


@dataclass
class Ways:
    """The results of arms.py in a folder, by cell."""

    stock: Stock
    study: str

    @cached_property
    def about(self) -> dict[str, dict[str, Any]]:
        return self.stock.runs(self.study)

    @cached_property
    def rows(self) -> dict[tuple[str, str, str, str], dict[str, np.ndarray]]:
        """Rewards by problem, of a cell, phase, way and set."""
        found: dict[tuple[str, str, str, str], dict[str, np.ndarray]] = {}
        for cell in self.about:
            for row in self.stock.rows[self.study, cell]:
                phase, way = row["configuration"].split(" ")
                key = (cell, phase, way, row["set"])
                found.setdefault(key, {})[row["problem"]] = samples_of(row)
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """What tables call the cells."""
        short = Counter(name_of(cell) for cell in self.about)
        return {
            cell: name_of(cell) if short[name_of(cell)] == 1 else cell.removeprefix("leetcode-")
            for cell in self.about
        }

    @cached_property
    def plans(self) -> dict[str, list[Member]]:
        """The order of every plan, by what tables call it: of each model, and of all together."""
        made = {
            self.names[cell]: [(cell, way) for way in about["plan"]["order"]]
            for cell, about in self.about.items()
            if about["plan"] is not None
        }
        for about in self.about.values():
            if about["together"] is not None:
                made[TOGETHER] = [(cell, way) for cell, way in about["together"]["order"]]
        return made

    def validation(self, plan: str) -> list[float]:
        """What a plan is worth where it was chosen."""
        for cell, about in self.about.items():
            if plan == TOGETHER and about["together"] is not None:
                return about["together"]["validation"]
            if plan == self.names[cell]:
                return about["plan"]["validation"]
        raise KeyError(plan)

    def elsewhere(self, plan: str) -> np.ndarray | None:
        """And on problems there that it was not chosen by: [ks]."""
        cells = [cell for cell in self.about if plan in (TOGETHER, self.names[cell])]
        members = [(cell, way) for cell in cells for way in self.about[cell]["ways"]]
        found = [self.rewards(member, "validation", VALIDATION) for member in members]
        there = [each for each in found if each is not None]
        if not there or len(there) < len(found):
            return None
        pools = [pooled([there[i] for i in group]) for group in alike(members)]
        return cross_validated(pools, len(self.plans[plan]), KS).mean(axis=0)

    def rewards(self, member: Member, phase: str, sets: Sequence[str]) -> list[np.ndarray] | None:
        """Of the problems of all sets by id; None where one of them is not there."""
        cell, way = member
        parts = [self.rows.get((cell, phase, way, name)) for name in sets]
        if None in parts:
            return None
        return [part[problem] for part in parts if part for problem in sorted(part)]

    def by_plan(self, plan: str, sets: Sequence[str], ks: Sequence[int]) -> np.ndarray | None:
        """max@k of each problem of the sets, sampled by a plan: [problems, ks].

        None where it asks for more samples than there are.
        """
        asked = Counter(self.plans[plan])
        members = sorted(asked)
        found = [self.rewards(member, "test", sets) for member in members]
        there = [
            each
            for member, each in zip(members, found, strict=True)
            if each is not None and len(each[0]) >= asked[member]
        ]
        if len(there) < len(found):
            return None
        return allocated(there, [members.index(member) for member in self.plans[plan]], ks)

    def alone(self, sets: Sequence[str], ks: Sequence[int]) -> dict[str, np.ndarray]:
        """The same of the trainings that were sampled in one way besides."""
        made = {}
        for cell, phase, way in sorted({key[:3] for key in self.rows if key[1] == "alone"}):
            if (found := self.rewards((cell, way), phase, sets)) is not None:
                made[self.names[cell]] = scores(found, ks)
        return made


def name_of(cell: str) -> str:
    """
    >>> name_of("leetcode-off-policy-exact-s9"), name_of("base-s0")
    ('off-policy-exact', 'base')
    """
    return without_seed(cell).removeprefix("leetcode-")


def each(data: Data, folder: str) -> str:
    """max@k of every way by itself, on the validation problems that plans are made of."""
    ways, lines = read(data, folder), []
    for cell, about in ways.about.items():
        for way in about["ways"]:
            if (found := ways.rewards((cell, way), "validation", VALIDATION)) is not None:
                ks = [k for k in KS if k <= len(found[0])]
                means = (f"{x:.3f}" for x in scores(found, ks).mean(axis=0))
                lines.append([ways.names[cell], way, *means])
    longest = max(map(len, lines), default=2) - 2
    return pipes(["model", "way", *(f"max@{k}" for k in KS[:longest])], lines) if lines else ""


def orders(data: Data, folder: str) -> str:
    """Which ways each plan takes, among so many samples."""
    lines: list[list[Any]] = []
    ways = read(data, folder)
    for plan, order in ways.plans.items():
        # By when a plan first asks for it.
        for member in sorted(set(order), key=order.index):
            cell, way = member
            what = way if plan != TOGETHER else f"{ways.names[cell]}, {way}"
            lines.append([plan, what, *(Counter(order[:k])[member] for k in KS)])
    return pipes(["plan of", "way", *map(str, KS)], lines) if lines else ""


def curves(data: Data, folder: str) -> str:
    """max@k by plan, by the same training in one way, and by the last comparison's cells."""
    ways, lines = read(data, folder), []
    for plan in ways.plans:
        lines.append([f"validation, plan of {plan}", *(f"{x:.3f}" for x in ways.validation(plan))])
        if (found := ways.elsewhere(plan)) is not None:
            lines.append(["... on problems it was not chosen by", *(f"{x:.3f}" for x in found)])
    for sets in (SAMPLED, *((name,) for name in SETS)):
        made = {f"plan of {plan}": ways.by_plan(plan, sets, KS) for plan in ways.plans}
        made |= {f"{row} alone": found for row, found in ways.alone(sets, KS).items()}
        made |= {f"{row}, last comparison": final(data, row, sets) for row in OTHERS}
        for row, found in made.items():
            if found is not None:
                means = (f"{x:.3f}" for x in found.mean(axis=0))
                lines.append([f"{', '.join(sets)}: {row}", *means])
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if ways.plans else ""


def gaps(data: Data, folder: str) -> str:
    """Plans over other plans, and these and what is sampled alone over the last comparison."""
    ways, lines = read(data, folder), []
    for sets in (SAMPLED, *((name,) for name in SETS if name not in SAMPLED)):
        plans = {plan: ways.by_plan(plan, sets, KS) for plan in ways.plans}
        alone = ways.alone(sets, KS)
        last = {f"{row}, last comparison": final(data, row, sets) for row in OTHERS}
        rows = {}
        for plan, own in plans.items():
            others = {f"the plan of {x}": plans.get(x) for x in ("base", PAPER) if x != plan}
            rows[f"plan of {plan}"] = (own, others | {f"{plan} alone": alone.get(plan)} | last)
        rows |= {f"{name} alone": (own, last) for name, own in alone.items()}
        for row, (own, others) in rows.items():
            for other, theirs in others.items():
                if own is not None and theirs is not None:
                    found = map(with_interval, differences(own, theirs))
                    lines.append([f"{', '.join(sets)}: {row} over {other}", *found])
    return pipes(["", *(f"max@{k}" for k in KS)], lines) if lines else ""


def final(data: Data, row: str, sets: Sequence[str]) -> np.ndarray | None:
    """max@k in the last comparison, the mean of the trainings that have all the sets."""
    return data.over(methods("leetcode", FINAL)[row], sets, KS)


# --- the figure ----------------------------------------------------------------------------------


def figure(data: Data, name: str) -> Figure:
    """What plans and the last comparison have over the base model at temperature 1, by k."""
    ways, base = read(data, FOLDERS[name]), final(data, "base", SAMPLED)
    assert base is not None
    rows = {"plan of base": ways.by_plan("base", SAMPLED, KS)} if "base" in ways.plans else {}
    rows |= {f"{row}, temperature 1": final(data, row, SAMPLED) for row in OTHERS if row != "base"}
    rows |= {
        f"plan of {plan}": ways.by_plan(plan, SAMPLED, KS)
        for plan in (PAPER, "off-policy-exact", TOGETHER)
        if plan in ways.plans
    }
    if PAPER not in ways.plans:  # then that of its trainings in the last comparison
        for found in of_last(data, "leetcode", FINAL, SAMPLED):
            rows[ROW] = found
    gaps = {row: (found - base).mean(axis=0) for row, found in rows.items() if found is not None}
    look = styles(list(gaps))

    def draw(axes: "Axes") -> None:
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        for row, gap in gaps.items():
            draw_line(axes, KS, gap.tolist(), look[row])
        axes.set_xscale("log", base=2)
        axes.set_xticks(KS, [str(k) for k in KS])
        axes.set_xlabel("k, samples to choose from")
        axes.set_ylabel("over the base model at temperature 1")
        legend(axes, "upper right")

    numbers = [(str(k), *(f"{gap[i]:+.3f}" for gap in gaps.values())) for i, k in enumerate(KS)]
    return Figure(
        f"grid-{name}",
        "max@k by plans of ways to sample",
        f"Means over the problems of {', '.join(SAMPLED)}.",
        draw,
        Numbers(("k", *gaps), tuple(numbers)),
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="draw what ways to sample are worth")
    parser.add_argument("name", choices=tuple(FOLDERS), help="as tables of them begin")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=Path("out/figures"))
    asked = parser.parse_args(given)
    data = Data(asked.results)
    if not read(data, FOLDERS[asked.name]).plans:
        parser.error(f"{asked.results} has no plans in {FOLDERS[asked.name]}")
    write_files([figure(data, asked.name)], asked.out)


# --- what the tables are called ------------------------------------------------------------------


def tables() -> dict[str, Callable[[Data], str]]:
    """By their names."""
    kinds = {"": curves, "-orders": orders, "-each": each, "-over": gaps}
    return {
        f"{name}{kind}": partial(make, folder=folder)
        for name, folder in FOLDERS.items()
        for kind, make in kinds.items()
    }


@lru_cache(2)
def read(data: Data, folder: str) -> Ways:
    """Once for all tables of the same results."""
    return Ways(data.stock, folder)


if __name__ == "__main__":
    main()
