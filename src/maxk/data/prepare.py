"""The paper's preparation of its data, one function per step.

Each step takes problems and an `Account`, returns the problems it keeps, and notes in the account
how many it dropped and why, so that steps can be chained in any order and the account printed:

    account = Account()
    problems = at_most_difficulty(problems, 3, account)
    problems = at_most_tokens(problems, 512, token_counter(tokenizer), account)
    train, test = random_split(problems, (2490, 276), seed=0)
    print(account)

What the paper leaves open, and what maxk chose:

- "Complexity <= 3": the number of the data set's enum (1 easy, 2 medium, 3 hard); 0, unknown, is
  dropped.
- 512 tokens: of the whole prompt, in the model's chat template.
- 2,490 and 276 problems at random: ids are sorted first, so the order of files does not matter.
- Codeforces without what is also in CodeContests: a near-duplicate has half of the runs of six
  words of the shorter statement in the other.
- The test subset of Codeforces: problems that need a special judge are dropped.
- LiveCodeBench version 6: release_v6 with 1,055 problems; the 175 added with it are the split v6.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from maxk.data.base import Account
from maxk.data.contests import DIFFICULTIES
from maxk.prompts import messages
from maxk.records import Problem

WORDS_TOGETHER = 6  # words in a row that are compared
SAME = 0.5  # share of the shorter statement's that the other one has too


def at_most_difficulty(problems: Iterable[Problem], level: int, account: Account) -> list[Problem]:
    """CodeContests problems whose difficulty, as a number of its enum, is 1 to `level`.

    The paper keeps "complexity <= 3". 0 is the enum's "unknown", which says nothing about a
    problem, and is dropped; 7 and more are the places A, B, ... in a Codeforces contest.
    """
    allowed = set(DIFFICULTIES[1 : level + 1])
    kept = []
    for problem in problems:
        if problem.difficulty in allowed:
            kept.append(problem)
        elif problem.difficulty in (None, DIFFICULTIES[0]):
            account.drop("difficulty unknown")
        else:
            account.drop(f"difficulty above {level}")
    return kept


def token_counter(tokenizer: Any) -> Callable[[Problem], int]:
    """The number of tokens of a problem's prompt in the model's chat template."""

    def count(problem: Problem) -> int:
        if tokenizer.chat_template is None:
            return len(tokenizer(messages(problem)[0]["content"])["input_ids"])
        ids = tokenizer.apply_chat_template(
            messages(problem), add_generation_prompt=True, tokenize=True, return_dict=True
        )
        return len(ids["input_ids"])

    return count


def at_most_tokens(
    problems: Iterable[Problem], most: int, count: Callable[[Problem], int], account: Account
) -> list[Problem]:
    """Problems whose prompt has at most this many tokens."""
    kept = []
    for problem in problems:
        if count(problem) <= most:
            kept.append(problem)
        else:
            account.drop(f"prompt longer than {most} tokens")
    return kept


def random_split(
    problems: Sequence[Problem], sizes: tuple[int, int], seed: int = 0
) -> tuple[list[Problem], list[Problem]]:
    """Train and test at random; the same ids and the same seed give the same split.

    The order in which the problems come does not matter. If there are more than both sizes
    together, the rest is left out; if there are fewer, that is an error.
    """
    if sum(sizes) > len(problems):
        raise ValueError(f"sizes={sizes} need {sum(sizes)} problems; there are {len(problems)}")
    order = sorted(problems, key=lambda problem: problem.id)
    random.Random(seed).shuffle(order)
    return order[: sizes[0]], order[sizes[0] : sum(sizes)]


def without_overlap(
    problems: Iterable[Problem], others: Iterable[Problem], account: Account
) -> list[Problem]:
    """Problems of which no near-duplicate is among the others.

    Two statements are near-duplicates if half of the runs of six words in the shorter one are in
    the other: the same problem with other formatting, a changed name or a cut-off end. Equal ids
    and titles are not needed for it, and are not enough.
    """
    mine = list(problems)
    runs = [word_runs(problem.statement) for problem in mine]
    places: dict[int, list[int]] = {}
    for i, own in enumerate(runs):
        for run in own:
            places.setdefault(run, []).append(i)
    doubled: set[int] = set()
    for other in others:  # these are the many; they pass by one at a time
        theirs = word_runs(other.statement)
        shared = Counter(i for run in theirs for i in places.get(run, ()))
        doubled.update(i for i, n in shared.items() if n >= SAME * min(len(runs[i]), len(theirs)))
    for _ in doubled:
        account.drop("near-duplicate of another set's")
    return [problem for i, problem in enumerate(mine) if i not in doubled]


def word_runs(text: str) -> set[int]:
    """Hashes of all runs of six words, whatever is between the words; of a shorter text, all."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    count = max(len(words) - WORDS_TOGETHER + 1, 1)
    return {hash(tuple(words[i : i + WORDS_TOGETHER])) for i in range(count)}
