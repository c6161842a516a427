"""What a model solves of the small world: `python -m maxk.pocket.measure FOLDER`."""

from collections import defaultdict
from dataclasses import dataclass
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
from maxk.pocket.world import Split, problems
from maxk.verify import Verifier, program_of

console = Console(highlight=False)


@dataclass(frozen=True)
class Measure:
    """Sample programs for problems of the small world, judge them, print pass@k and max@k."""

    folder: Annotated[Path, tyro.conf.Positional]
    problems: int = 100
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 64
    """programs for each problem"""
    split: Split = "test"
    seed: int = 0
    device: str = "cpu"
    longest: int = 150
    """characters of a program"""

    def run(self) -> None:
        torch.manual_seed(self.seed)
        model: Any = AutoModelForCausalLM.from_pretrained(self.folder)
        model.to(self.device).eval()
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        asked = problems(self.split, self.problems, self.seed)
        rewards_PN = np.empty((len(asked), self.n))
        with Verifier() as verifier:
            for i, problem in track(list(enumerate(asked)), "sampling", console=console):
                prompt = tokenizer.apply_chat_template(
                    problem.prompt, add_generation_prompt=True, tokenize=False
                )
                texts = sample(model, tokenizer, prompt, self.n, self.longest)
                once = {text: program_of(text) for text in texts}
                judged = verifier.judge([(program, problem.tests) for program in once.values()])
                reward = {text: v.fraction for text, v in zip(once, judged, strict=True)}
                rewards_PN[i] = [reward[text] for text in texts]
        show(rewards_PN, [problem.tags[0] for problem in asked])


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


def show(rewards_PN: np.ndarray, names: list[str]) -> None:
    """pass@k and max@k over all problems, with standard errors, and by family."""
    n = rewards_PN.shape[1]
    table = Table("k", "pass@k", "max@k", box=None)
    for k in (2**i for i in range(n.bit_length())):
        table.add_row(
            str(k), _mean(maxk.pass_at_k(rewards_PN, k)), _mean(maxk.max_at_k(rewards_PN, k))
        )
    console.print(table)
    by_family = defaultdict(list)
    for name, row_N in zip(names, rewards_PN, strict=True):
        by_family[name].append(row_N)
    table = Table("family", "pass@1", f"pass@{n}", "max@1", f"max@{n}", box=None)
    for name, rows in sorted(by_family.items(), key=lambda item: -np.mean(item[1])):
        figures = [
            f(np.array(rows), k).mean() for f in (maxk.pass_at_k, maxk.max_at_k) for k in (1, n)
        ]
        table.add_row(name, *(f"{figure:.3f}" for figure in figures))
    console.print(table)


def _mean(values_P: np.ndarray) -> str:
    return f"{values_P.mean():.3f} ± {values_P.std() / len(values_P) ** 0.5:.3f}"


if __name__ == "__main__":
    tyro.cli(Measure).run()
