"""The paper's preparation, step by step, with its account."""

import random

import pytest

from maxk.data.base import Account
from maxk.data.prepare import (
    at_most_difficulty,
    at_most_tokens,
    random_split,
    token_counter,
    without_overlap,
)
from maxk.records import Problem
from tests.tiny import tiny_model

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def ids(problems) -> list[str]:
    return [problem.id for problem in problems]


def story(seed: int, length: int = 60) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) + str(rng.randrange(50)) for _ in range(length))


def test_difficulty_is_that_of_the_enum_and_unknown_is_dropped():
    levels = [
        "UNKNOWN_DIFFICULTY",
        "EASY",
        "MEDIUM",
        "HARD",
        "HARDER",
        "HARDEST",
        "EXTERNAL",
        "A",
        None,
    ]
    problems = [Problem(str(level), "", (), difficulty=level) for level in levels]
    account = Account()
    assert ids(at_most_difficulty(problems, 3, account)) == ["EASY", "MEDIUM", "HARD"]
    assert account.dropped == {"difficulty above 3": 4, "difficulty unknown": 2}


def test_length_is_counted_in_the_prompt_the_model_sees():
    _, tokenizer = tiny_model()
    short, long = Problem("short", "a" * 10, ()), Problem("long", "a" * 400, ())
    count = token_counter(tokenizer)
    plain = count(short)
    assert count(long) - plain == 390
    tokenizer.chat_template = "{% for m in messages %}0000000000{{ m.content }}{% endfor %}"
    assert count(short) == plain + 10
    account = Account()
    most = count(long) - 1
    assert ids(at_most_tokens([short, long], most, count, account)) == ["short"]
    assert account.dropped == {f"prompt longer than {most} tokens": 1}
    assert ids(at_most_tokens([long], most + 1, count, account)) == ["long"]


def test_a_split_is_random_disjoint_complete_and_the_same_whatever_the_order():
    problems = [Problem(f"{i:04}", "", ()) for i in range(2766)]
    train, test = random_split(problems, (2490, 276), seed=0)
    assert (len(train), len(test)) == (2490, 276)
    assert {*ids(train), *ids(test)} == set(ids(problems))
    again = random_split(problems[::-1], (2490, 276), seed=0)
    assert (ids(again[0]), ids(again[1])) == (ids(train), ids(test))
    assert set(ids(random_split(problems, (2490, 276), seed=1)[1])) != set(ids(test))
    assert ids(test) != sorted(ids(test))[: len(test)]
    with pytest.raises(ValueError, match="need 2767 problems; there are 2766"):
        random_split(problems, (2490, 277))


def test_near_duplicates_are_found_whatever_their_ids_and_formatting():
    others = [Problem(f"other/{i}", story(i), ()) for i in range(200)]
    same = story(3)
    changed = same.upper().replace(" ", "\n  ").replace("ALPHA1", "Omega")
    cut = " ".join(story(4).split()[:30])
    longer = story(5) + " " + story(1000, 20)
    mine = {"same": same, "changed": changed, "cut": cut, "longer": longer, "new": story(2000)}
    # Half of a long text taken from elsewhere, but less than half of the runs of six words.
    mine["a quarter"] = " ".join(story(6).split()[:15]) + " " + story(3000, 45)
    account = Account()
    kept = without_overlap([Problem(k, v, ()) for k, v in mine.items()], others, account)
    assert ids(kept) == ["new", "a quarter"]
    assert account.dropped.total() == 4


def test_equal_ids_of_different_problems_are_no_overlap():
    assert without_overlap(
        [Problem("1/A", story(1), ())], [Problem("1/A", story(2), ())], Account()
    )
