"""Which problems of LeetCode and CodeContests are sampled: a rule, and the lists it gave in ids/.

    python -m experiments.grid.choose_ids --data-dir DIR --model FOLDER

All: the problem's own solution passes, and its prompt has at most 1,024 tokens of the model.
LeetCode: the Easy ones, then the Medium ones ("Meidum" in the file too), each in the order of the
file. CodeContests: by the letter of the problem in its contest, B before C, then the shorter
statement first, without those whose own solution needs more than half of the CPU time that a test
has (those left out need all of it or more, the others 0.21 s). Validation, for choosing
settings: as LeetCode, but of the training file, and of prompts with more than 288 tokens, which no
cell is trained on. 100 of each. No completion was looked at.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.grid.plan import read_grid
from experiments.grid.sets import load_set
from maxk.data.prepare import token_counter
from maxk.records import Problem
from maxk.verify import Verifier

HERE = Path(__file__).parent
COUNT, LONGEST, TRAINED = 100, 1024, 288
LEVELS = {"Easy": 0, "Medium": 1, "Meidum": 1, "Hard": 2}


def leetcode(problems: list[Problem]) -> list[str]:
    order = sorted(problems, key=lambda problem: LEVELS[problem.difficulty or "Hard"])  # is stable
    return [problem.id for problem in order[:COUNT]]


def code_contests(problems: list[Problem]) -> list[str]:
    lettered = [p for p in problems if p.difficulty and len(p.difficulty) == 1]
    order = sorted(lettered, key=lambda p: (p.difficulty, len(p.statement), p.id))
    first = order[: 2 * COUNT]
    with Verifier() as verifier:
        verdicts = verifier.judge([(p.complete(p.reference or ""), p.tests) for p in first])
    most = read_grid().limits.cpu_seconds / 2
    slowest = [max(test.seconds for test in verdict.tests) for verdict in verdicts]
    quick = [p for p, seconds in zip(first, slowest, strict=True) if seconds <= most]
    return [problem.id for problem in quick[:COUNT]]


def chosen(data: Path, tokenizer: Any) -> dict[str, list[str]]:
    """The lists by the name of their file."""
    count, sets = token_counter(tokenizer), read_grid().sets

    def short(name: str, least: int = 0) -> list[Problem]:
        found = load_set(replace(sets[name], ids=None), data)
        return [problem for problem in found if least < count(problem) <= LONGEST]

    return {
        "validation.txt": leetcode(short("validation", TRAINED)),
        "leetcode-test.txt": leetcode(short("leetcode")),
        "code-contests.txt": code_contests(short("code-contests")),
    }


def main() -> None:
    from transformers import AutoTokenizer

    parser = argparse.ArgumentParser(description="choose the problems to sample")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--model", required=True)
    given = parser.parse_args()
    for file, ids in chosen(given.data_dir, AutoTokenizer.from_pretrained(given.model)).items():
        (HERE / "ids" / file).write_text("".join(f"{each}\n" for each in ids))


if __name__ == "__main__":
    main()
