"""What a model solves of the small world: `python -m experiments.pocket.measure FOLDER`.

Without a folder it is the stream of examples that is measured: what a model would write that had
learned it perfectly. A trained one should come close.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

import maxk
from experiments.pocket.card import card
from maxk.grade import program_of
from maxk.pocket.families import HELD_OUT, SEEN
from maxk.pocket.world import Split, examples_of, problems
from maxk.prompts import messages
from maxk.records import Problem
from maxk.sample import Request, Sampling
from maxk.sample.native.engine import TransformersSampler
from maxk.verify import Verifier

console = Console(highlight=False)
OPEN = {family.name for family in SEEN + HELD_OUT if family.hidden}
UNSEEN = {family.name for family in HELD_OUT}
GROUPS: dict[str, Callable[[str], bool]] = {  # of families, by name
    "everything told": lambda name: name not in OPEN,
    "a convention open": lambda name: name in OPEN,
    "families never seen": lambda name: name in UNSEEN,
}


@dataclass(frozen=True)
class Measure:
    """Sample programs for problems of the small world, judge them, print pass@k and max@k."""

    folder: Annotated[Path | None, tyro.conf.Positional] = None
    """default: the stream of examples"""
    problems: int = 100
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 64
    """programs for each problem"""
    split: Split = "test"
    seed: int = 0
    device: str = "cpu"
    longest: int = 150
    """characters of a program"""
    card: bool = False
    """write the model card into the folder"""

    def run(self) -> None:
        asked = problems(self.split, self.problems, self.seed)
        rewards_PN = np.empty((len(asked), self.n))
        with Verifier() as verifier:
            places = {problem.id: i for i, problem in enumerate(asked)}
            written = track(self.written(asked), "sampling", len(asked), console=console)
            for problem, texts in written:
                rewards_PN[places[problem.id]] = rewards(problem, texts, verifier)
        names = [problem.tags[0] for problem in asked]
        show(rewards_PN, names)
        if self.card and self.folder is not None:
            text = card(self.folder, figures(rewards_PN, names), len(asked))
            (self.folder / "README.md").write_text(text)

    def written(self, asked: list[Problem]) -> Iterator[tuple[Problem, list[str]]]:
        """Problems with n programs for each, in whatever order they are done."""
        if self.folder is None:
            for problem in asked:
                yield problem, list(islice(examples_of(problem, self.seed), self.n))
            return
        graphs = self.device.startswith("cuda")
        sampler = TransformersSampler(str(self.folder), device=self.device, graphs=graphs)
        requests = [Request(each.id, messages(each), tuple(range(self.n))) for each in asked]
        settings = Sampling(max_tokens=self.longest, seed=self.seed)
        by_id = {problem.id: problem for problem in asked}
        texts: dict[str, list[str]] = defaultdict(list)
        for one in sampler.sample(requests, settings):
            texts[one.problem].append(one.text)
            if len(texts[one.problem]) == self.n:
                yield by_id[one.problem], texts.pop(one.problem)


def rewards(problem: Problem, texts: Sequence[str], verifier: Verifier) -> list[float]:
    """The share of tests that each program passes; the same text is judged once."""
    once = {text: program_of(text) for text in texts}
    judged = verifier.judge([(program, problem.tests) for program in once.values()])
    reward = {text: verdict.fraction for text, verdict in zip(once, judged, strict=True)}
    return [reward[text] for text in texts]


def figures(rewards_PN: np.ndarray, names: list[str]) -> list[list[str]]:
    """Rows of a table: for each k pass@k and max@k with standard errors, then pass@k by group."""
    groups_P = [np.array([within(name) for name in names]) for within in GROUPS.values()]
    rows = [["k", "pass@k", "max@k", *(f"pass@k, {label}" for label in GROUPS)]]
    for k in (2**i for i in range(rewards_PN.shape[1].bit_length())):
        passed_P = maxk.pass_at_k(rewards_PN, k)
        parts = [f"{passed_P[group_P].mean():.3f}" if group_P.any() else "" for group_P in groups_P]
        rows.append([str(k), _mean(passed_P), _mean(maxk.max_at_k(rewards_PN, k)), *parts])
    return rows


def show(rewards_PN: np.ndarray, names: list[str]) -> None:
    """The figures over all problems, and by family."""
    head, *rows = figures(rewards_PN, names)
    table = Table(*head, box=None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    n = rewards_PN.shape[1]
    by_family = defaultdict(list)
    for name, row_N in zip(names, rewards_PN, strict=True):
        by_family[name].append(row_N)
    table = Table("family", "pass@1", f"pass@{n}", "max@1", f"max@{n}", box=None)
    for name, rows_N in sorted(by_family.items(), key=lambda item: -np.mean(item[1])):
        means = [
            f(np.array(rows_N), k).mean() for f in (maxk.pass_at_k, maxk.max_at_k) for k in (1, n)
        ]
        table.add_row(name, *(f"{mean:.3f}" for mean in means))
    console.print(table)


def _mean(values_P: np.ndarray) -> str:
    return f"{values_P.mean():.3f} ± {values_P.std() / len(values_P) ** 0.5:.3f}"


if __name__ == "__main__":
    tyro.cli(Measure).run()
