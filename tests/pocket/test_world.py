"""The splits, and that everything follows from the seed."""

import hashlib
import os
import subprocess
import sys
from itertools import islice
from random import Random

import pytest

from maxk.pocket import examples, problems
from maxk.pocket.families import HELD_OUT, SEEN
from maxk.pocket.world import SIZES, SPLITS, choices, examples_of, load, origin
from maxk.prompts import messages
from maxk.verify import Verifier
from tests.pocket.test_families import share

HELD_OUT_NAMES = {family.name for family in HELD_OUT}


@pytest.mark.parametrize("family", SEEN, ids=lambda family: family.name)
def test_splits_share_no_parameters_and_none_is_empty(family):
    parts = [set(choices(family, split)) for split in SPLITS]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(family.choices())
    assert all(parts)


def test_held_out_families_are_in_test_alone():
    for split in ("train", "validation"):
        assert not HELD_OUT_NAMES & {problem.tags[0] for problem in problems(split, 300)}
    assert {problem.tags[0] for problem in problems("test", 300)} >= HELD_OUT_NAMES


def test_no_statement_of_validation_or_test_is_in_another_split_or_in_pretraining():
    found = {split: {p.statement for p in problems(split, 600)} for split in SPLITS}
    shown = {statement for statement, _ in islice(examples(0), 50_000)}
    assert not found["test"] & (found["train"] | found["validation"] | shown)
    assert not found["validation"] & (found["train"] | shown)
    assert found["train"] & shown


@pytest.mark.parametrize("split", SPLITS)
def test_problems_are_whole_and_their_references_pass(split):
    found = problems(split, 150, seed=1)
    assert len({problem.id for problem in found}) == len({p.statement for p in found}) == 150
    assert found[17].id.startswith(f"pocket/{split}/017-")
    assert all(len(set(problem.tests)) == 8 for problem in found)
    with Verifier() as verifier:
        verdicts = verifier.judge([(p.reference or "", p.tests) for p in found])
    assert all(verdict.passed for verdict in verdicts)


def test_a_whole_mistake_passes_the_tests_of_few_problems():
    """Eight tests let some through; if they let many, no family would be hard."""
    let_through, asked = [], load("test")
    for problem in asked:
        family, choice = origin(problem)
        for mistake in family.wrong(family.values(choice, Random(0)))[: len(family.mistakes)]:
            if share(mistake, problem.tests) == 1:
                let_through.append((problem.statement, mistake))
    assert len(let_through) < 0.02 * len(asked)


def test_the_data_set_has_its_sizes():
    assert {split: len(load(split)) for split in SPLITS} == SIZES


def test_families_come_equally_often():
    named = [problem.tags[0] for problem in problems("train", 2 * len(SEEN))]
    assert {named.count(family.name) for family in SEEN} == {2}


def test_the_prompt_is_the_statement_alone():
    problem = problems("train", 1)[0]
    assert messages(problem) == [{"role": "user", "content": problem.statement}]


def test_the_same_statement_is_the_same_problem_whatever_the_seed():
    first = {p.statement: (p.tests, p.reference) for p in problems("train", 900, seed=0)}
    second = {p.statement: (p.tests, p.reference) for p in problems("train", 900, seed=1)}
    both = first.keys() & second.keys()
    assert len(both) > 50
    assert all(first[statement] == second[statement] for statement in both)


FINGERPRINT = """
import sys
from itertools import islice
from random import Random
from maxk.pocket import examples, problems
print([problems(split, 90, seed=3) for split in ("train", "validation", "test")])
print(list(islice(examples(3), 500)))
assert "torch" not in sys.modules
"""


def fingerprint(hash_seed: str) -> str:
    out = subprocess.run(
        [sys.executable, "-c", FINGERPRINT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    return hashlib.sha256(out.stdout).hexdigest()


def test_other_processes_and_hash_seeds_give_the_same_and_need_no_torch():
    assert fingerprint("1") == fingerprint("2")


def test_another_seed_gives_others():
    assert list(islice(examples(0), 20)) != list(islice(examples(1), 20))
    assert problems("test", 20, seed=0) != problems("test", 20, seed=1)


def test_too_many_problems_and_an_unknown_split_are_refused():
    with pytest.raises(ValueError, match="count=1000000 is more than the"):
        problems("validation", 1_000_000)
    with pytest.raises(ValueError, match="split='dev' is unknown"):
        problems("dev", 1)  # pyright: ignore[reportArgumentType]


def test_a_problem_tells_where_it_comes_from():
    for problem in problems("test", 101):
        family, choice = origin(problem)
        assert family.name in problem.tags
        assert choice in choices(family, "test")


def test_programs_for_a_problem_are_those_of_its_family_with_its_parameters():
    problem = next(p for p in problems("test", 101) if "multiply-add" in p.tags)
    programs = list(islice(examples_of(problem), 400))
    assert programs == list(islice(examples_of(problem), 400))
    assert programs != list(islice(examples_of(problem, 1), 400))
    with Verifier(2) as verifier:
        judged = verifier.judge([(program, problem.tests) for program in programs])
    right = sum(verdict.passed for verdict in judged) / len(judged)
    assert abs(right - origin(problem)[0].share) < 0.1  # 5 standard errors; the seed is fixed
