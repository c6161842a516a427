"""What a model solves of the small world: `python -m maxk.pocket.measure FOLDER`.

Without a folder it is the stream of examples that is measured: what a model would write that had
learned it perfectly. A trained one should come close.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

import maxk
from maxk.pocket.card import card
from maxk.pocket.families import HELD_OUT, SEEN
from maxk.pocket.world import Split, examples_of, problems
from maxk.records import Problem
from maxk.verify import Verifier, program_of

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
        write = self.writer()
        rewards_PN = np.empty((len(asked), self.n))
        with Verifier() as verifier:
            for i, problem in track(list(enumerate(asked)), "sampling", console=console):
                rewards_PN[i] = rewards(problem, write(problem), verifier)
        names = [problem.tags[0] for problem in asked]
        show(rewards_PN, names)
        if self.card and self.folder is not None:
            text = card(self.folder, figures(rewards_PN, names), len(asked))
            (self.folder / "README.md").write_text(text)

    def writer(self) -> Callable[[Problem], list[str]]:
        """From a problem to n programs for it."""
        if self.folder is None:
            return lambda problem: list(islice(examples_of(problem, self.seed), self.n))
        torch.manual_seed(self.seed)
        model: Any = AutoModelForCausalLM.from_pretrained(self.folder)
        model.to(self.device).eval()
        tokenizer = AutoTokenizer.from_pretrained(self.folder)

        def write(problem: Problem) -> list[str]:
            prompt = tokenizer.apply_chat_template(
                problem.prompt, add_generation_prompt=True, tokenize=False
            )
            return sample(model, tokenizer, prompt, self.n, self.longest)

        return write


def rewards(problem: Problem, texts: Sequence[str], verifier: Verifier) -> list[float]:
    """The share of tests that each program passes; the same text is judged once."""
    once = {text: program_of(text) for text in texts}
    judged = verifier.judge([(program, problem.tests) for program in once.values()])
    reward = {text: verdict.fraction for text, verdict in zip(once, judged, strict=True)}
    return [reward[text] for text in texts]


@torch.no_grad()
def sample(model: Any, tokenizer: Any, prompt: str, n: int, longest: int) -> list[str]:
    """n completions of a prompt at temperature 1; rows leave the batch when they end."""
    ids = tokenizer(prompt, return_tensors="pt").input_ids.to(model.device)
    out = model(ids, use_cache=True)
    cache, logits = out.past_key_values, out.logits[:, -1].repeat(n, 1)
    cache.batch_repeat_interleave(n)
    drawn_NT = torch.full((n, longest), tokenizer.pad_token_id, device=model.device)
    rows = torch.arange(n, device=model.device)
    for place in range(longest):
        tokens = torch.multinomial(logits.float().softmax(-1), 1)
        going = (tokens[:, 0] != tokenizer.eos_token_id).nonzero()[:, 0]
        drawn_NT[rows[going], place] = tokens[going, 0]
        if len(going) == 0:
            break
        if len(going) < len(rows):
            rows = rows[going]
            cache.batch_select_indices(going)
        out = model(tokens[going], past_key_values=cache, use_cache=True)
        logits = out.logits[:, -1]
    return tokenizer.batch_decode(drawn_NT, skip_special_tokens=True)


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
