"""The small world: its problems, and the examples that the small model is pretrained on.

Parameters decide the split: a stable hash of the family and of what the statement tells puts 20 %
of all statements into test, 10 % into validation and the rest into train. The stream for
pretraining is drawn from what belongs to train, so no statement of the other two occurs in it in
any wording. The held-out families are in test alone.

Everything follows from the seed: neither PYTHONHASHSEED nor the platform matters.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal

from maxk.pocket.families import HELD_OUT, SEEN
from maxk.pocket.family import Family, tell
from maxk.pocket.inputs import TESTS
from maxk.records import Problem, StdinTest

Split = Literal["train", "validation", "test"]
SPLITS = ("train", "validation", "test")
SIZES = {"train": 1600, "validation": 160, "test": 400}  # of the data set "pocket"


def load(split: Split) -> list[Problem]:
    """The problems of a split as the data set "pocket" has them."""
    return problems(split, SIZES[split])


def problems(split: Split, count: int = 200, seed: int = 0) -> list[Problem]:
    """`count` problems of a split, spread evenly over its families, all different.

    >>> len({problem.statement for problem in problems("train", 300)})
    300
    """
    rng = Random(f"pocket problems {split} {seed}")
    left = {family: _shuffled(choices(family, split), rng) for family in families(split)}
    if count > sum(map(len, left.values())):
        raise ValueError(
            f"count={count} is more than the {sum(map(len, left.values()))} problems of {split}; "
            "use fewer"
        )
    found: list[Problem] = []
    while len(found) < count:
        for family in _shuffled([family for family in left if left[family]], rng):
            found.append(_problem(family, left[family].pop(), split, len(found)))
    return found[:count]


def examples(seed: int | str = 0) -> Iterator[tuple[str, str]]:
    """An endless stream of (statement, program); see `Family.example` for what is in it."""
    rng = Random(f"pocket examples {seed}")
    while True:
        family = rng.choice(SEEN)
        values = family.values(rng.choice(choices(family, "train")), rng)
        yield tell(rng.choice(family.statements), values), family.example(values, rng)


def examples_of(problem: Problem, seed: int | str = 0) -> Iterator[str]:
    """An endless stream of programs for one problem, drawn as those of pretraining are.

    This is what a model would write that had learned the stream perfectly, and that knew no more
    than the statement tells: hidden parameters are drawn anew each time.
    """
    rng = Random(f"pocket examples of {problem.id} {seed}")
    family, choice = origin(problem)
    while True:
        yield family.example(family.values(choice, rng), rng)


def origin(problem: Problem) -> tuple[Family, tuple[Any, ...]]:
    """The family of a problem, and the parameters that its statement tells."""
    family = next(family for family in SEEN + HELD_OUT if family.name in problem.tags)
    for choice in family.choices():
        values = family.values(choice, Random(0))  # no statement tells the hidden ones
        if problem.statement in [tell(statement, values) for statement in family.statements]:
            return family, choice
    raise ValueError(f"{problem.id} is no problem of this world")


def families(split: Split) -> tuple[Family, ...]:
    """The families that a split has problems of."""
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; use one of {', '.join(SPLITS)}")
    return SEEN + HELD_OUT if split == "test" else SEEN


@functools.cache
def choices(family: Family, split: Split) -> list[tuple[Any, ...]]:
    """The parameters of a family that belong to a split."""
    if family in HELD_OUT:
        return family.choices() if split == "test" else []
    return [choice for choice in family.choices() if _split_of(family, choice) == split]


def _split_of(family: Family, choice: Sequence[Any]) -> Split:
    digest = hashlib.sha256(f"{family.name} {choice}".encode()).digest()
    place = int.from_bytes(digest[:4], "big") / 2**32
    return "test" if place < 0.2 else "validation" if place < 0.3 else "train"


def _problem(family: Family, choice: Sequence[Any], split: Split, number: int) -> Problem:
    # Wording, tests and hidden parameters follow from the choice alone: the same statement is the
    # same problem whatever the seed.
    rng = Random(f"pocket problem {family.name} {choice}")
    values = family.values(choice, rng)
    return Problem(
        id=f"pocket/{split}/{number:03d}-{family.name}",
        statement=tell(rng.choice(family.statements), values),
        tests=tests(family, values, rng),
        reference=family.correct(values)[0],
        difficulty=family.difficulty,
        origin="pocket",
        tags=(family.name,),
        verbatim=True,
    )


def tests(family: Family, values: Any, rng: Random) -> tuple[StdinTest, ...]:
    """Tests with different inputs."""
    drawn: dict[str, str] = {}
    for number in itertools.count():
        if len(drawn) == TESTS:
            break
        given = family.inputs.draw(rng, values, number)
        drawn[given] = str(family.answer(family.inputs.read(given), values))
    return tuple(StdinTest(f"{given}\n", wanted) for given, wanted in drawn.items())


def _shuffled(items: Sequence[Any], rng: Random) -> list[Any]:
    return rng.sample(items, len(items))
