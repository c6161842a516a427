"""Every family: its programs against its answers, and what the limits of the small model ask."""

import contextlib
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from maxk.grade import program_of
from maxk.pocket.families import HELD_OUT, SEEN
from maxk.pocket.family import Family, Values, tell
from maxk.pocket.world import tests as draw_tests
from maxk.records import StdinTest
from maxk.verify import Verifier

ALL = SEEN + HELD_OUT
OPEN = [family for family in ALL if family.hidden]
LONGEST_STATEMENT, LONGEST_PROGRAM = 100, 140


def drawn(family: Family, count: int) -> Iterator[tuple[Values, tuple[StdinTest, ...]]]:
    """Values of the parameters, and tests for them."""
    rng = Random(family.name)
    for choice in rng.choices(family.choices(), k=count):
        values = family.values(choice, rng)
        yield values, draw_tests(family, values, rng)


def printed(program: str, given: str) -> list[str] | None:
    """What one of our own programs prints; None if it fails. Faster than a jail, and no jail."""
    lines, out = iter(given.split("\n")), io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(program, {"input": lambda: next(lines)})
    except Exception:
        return None
    return out.getvalue().split()


def share(program: str, tests: Sequence[Any]) -> float:
    """Of the tests, those that a program passes."""
    return sum(printed(program, t.input) == t.output.split() for t in tests) / len(tests)


def test_there_are_many_families_of_every_difficulty():
    assert len({family.name for family in ALL}) == len(ALL)
    assert len(SEEN) >= 44
    assert 4 <= len(HELD_OUT) <= 6
    for difficulty in ("easy", "medium", "hard"):
        assert sum(family.difficulty == difficulty for family in SEEN) >= 15


def test_every_correct_program_passes_all_tests_in_the_jail():
    jobs = [
        (program, tests)
        for family in ALL
        for values, tests in drawn(family, 3)
        for program in family.correct(values)
    ]
    with Verifier() as verifier:
        verdicts = verifier.judge(jobs)
    assert [job[0] for job, v in zip(jobs, verdicts, strict=True) if not v.passed] == []


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_correct_programs_pass_and_wrong_ones_fail_for_most_parameters(family):
    passed = defaultdict(list)
    for values, tests in drawn(family, 12):
        programs = [("correct", p) for p in family.correct(values)]
        programs += [("wrong", p) for p in family.wrong(values)]
        for place, (kind, program) in enumerate(programs):
            passed[kind, place].append(share(program, tests) == 1)
    for (kind, place), all_right in passed.items():
        if kind == "correct":
            assert all(all_right), family.programs[place]
        else:
            assert sum(all_right) <= 6, (place, family.wrong(next(drawn(family, 1))[0]))


def test_mistakes_earn_part_of_the_credit():
    """Of the programs with one mistake, most pass some tests and not all."""
    shares = []
    for family in SEEN:
        for values, tests in drawn(family, 2):
            for program in family.wrong(values):
                shares.append(share(program, tests))
    assert sum(0 < each < 1 for each in shares) > 0.5 * len(shares)
    assert 0.2 < sum(shares) / len(shares) < 0.5


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_statements_and_programs_are_short_and_programs_are_found_unchanged(family):
    for values, _ in drawn(family, 4):
        assert all(len(tell(s, values)) <= LONGEST_STATEMENT for s in family.statements)
        for program in family.correct(values) + family.wrong(values):
            assert len(program) <= LONGEST_PROGRAM
            assert program_of(program) == program
            assert not set("«|»$") & set(program)


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_a_statement_tells_all_that_is_not_hidden(family):
    """Two choices of parameters have two statements, and hidden parameters change none."""
    values, _ = next(drawn(family, 1))
    for statement in family.statements:
        told = {tell(statement, family.values(choice, Random(0))) for choice in family.choices()}
        assert len(told) == len(family.choices())
        for name in family.hidden:
            for value in family.hidden[name]:
                other = Values(**{**vars(values), name: value})
                assert tell(statement, other) == tell(statement, values)


@pytest.mark.parametrize("family", OPEN, ids=lambda family: family.name)
def test_the_readings_of_an_open_convention_differ_on_the_tests_of_most_problems(family):
    """What is right for one reading fails for another, so that a single try cannot serve both."""
    served, asked = 0, 0
    for values, tests in drawn(family, 12):
        for name, often in family.hidden.items():
            for reading in often.keys() - {getattr(values, name)}:
                other = family.correct(Values(**{**vars(values), name: reading}))[0]
                served += share(other, tests) == 1
                asked += 1
    assert served <= asked / 3


def test_a_third_of_the_families_leave_a_convention_open_and_one_reading_prevails():
    seen = [family for family in SEEN if family.hidden]
    assert 30 <= len(seen) <= 40
    for family in OPEN:
        for often in family.hidden.values():
            frequencies = list(often.values())
            assert sum(frequencies) == pytest.approx(1)
            assert frequencies == sorted(frequencies, reverse=True)
            assert 0.5 < frequencies[0] <= 0.8
            assert frequencies[-1] >= 0.05


@pytest.mark.parametrize("family", OPEN, ids=lambda family: family.name)
def test_readings_are_drawn_as_often_as_declared(family):
    """In 2,000 draws; 5 standard errors are at most 0.056. The seed is fixed."""
    rng = Random(f"readings {family.name}")
    values = [family.values(family.choices()[0], rng) for _ in range(2000)]
    for name, often in family.hidden.items():
        for reading, frequency in often.items():
            drawn_so = sum(getattr(v, name) == reading for v in values) / len(values)
            assert abs(drawn_so - frequency) < 0.056


def test_examples_are_correct_as_often_as_the_family_says():
    """Over all families; 4 standard errors of 95 x 60 draws are 0.02."""
    right = 0.0
    for family in SEEN:
        rng = Random(f"share {family.name}")
        values, _ = next(drawn(family, 1))
        correct = set(family.correct(values))
        right += sum(family.example(values, rng) in correct for _ in range(60)) / 60
    assert abs(right - sum(family.share for family in SEEN)) / len(SEEN) < 0.02


def test_what_goes_wrong_in_an_example_goes_wrong_independently():
    """Two slots of a style: both are right as often as one times the other is.

    Of 9,500 programs of this style; 5 standard errors are 0.025, and the seed is fixed.
    """
    family = next(family for family in SEEN if family.name == "low-high")
    rng, values = Random(0), Values(a=10, b=40)
    made = [family.example(values, rng) for _ in range(20_000)]
    made = [program for program in made if "10 else" in program and "40 else" in program]
    first = ["n<10" in program for program in made]
    second = ["n>40" in program for program in made]
    both = sum(a and b for a, b in zip(first, second, strict=True)) / len(made)
    assert abs(both - sum(first) * sum(second) / len(made) ** 2) < 0.025


def test_the_documentation_has_every_open_convention_with_its_frequencies():
    text = (Path(__file__).parent.parent.parent / "docs" / "reference" / "pocket.md").read_text()
    rows = dict(re.findall(r"^\| ([\w-]+) \| .* \| (.*) \|$", text, re.MULTILINE))
    for family in OPEN:
        wanted = [
            f"{often:.0%}" for readings in family.hidden.values() for often in readings.values()
        ]
        assert re.findall(r"\d+ %", rows[family.name]) == [w.replace("%", " %") for w in wanted]
    assert f"{len(OPEN)} of the {len(ALL)} families" in text
