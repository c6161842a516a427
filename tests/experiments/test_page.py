"""The results page: every number from the stored files, no claim by a single run."""

import json
import re

import pytest

from experiments.results import claims, figure, page, tables

SIDES = ("base", "`grpo`")


@pytest.fixture(scope="module")
def made() -> str:
    return page.page()


def rows(made: str, title: str) -> list[list[str]]:
    table = made.partition(f"## {title}\n")[2].partition("\n#")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line[:1] == "|"]
    return lines[2:]


def test_every_number_on_the_page_is_what_the_files_give(made):
    assert page.PAGE.read_text() == made


def test_the_readme_says_what_the_page_says(made):
    text = page.README.read_text()
    assert page.with_sentences(text) == text
    for line in page.sentences()[:2]:
        assert f"- {line}\n" in text
        assert f"- {line}\n" in made


def test_the_figure_is_of_the_runs_that_are_counted():
    names = re.findall(r">([^<>]*runs\))<", page.FIGURE.read_text())
    runs = claims.stored()[1]
    for name, label in zip(names, (claims.GRPO, claims.BOTH), strict=True):
        count = len(runs.measured(claims.METHODS[label], claims.POOLED, figure.SAMPLES))
        assert f"({count} runs)" in name


def test_no_row_of_a_claim_rests_on_one_run(made):
    counts = [row[2] for row in rows(made, "The main comparison")]
    assert set(counts) > {"-"}
    assert "1" not in counts
    each = [row[2].split("/") for row in rows(made, "Each set alone")]
    assert not any("1" in counts for counts in each)
    inference = [int(row[1]) for row in rows(made, "What to do at inference time instead")]
    assert min(inference) >= 3


def test_each_set_has_differences_with_intervals_against_both(made):
    found = {(row[0], row[1].split(" - ")[1]) for row in rows(made, "Differences on each set")}
    assert found == {(name, side) for name in tables.NAMES.values() for side in SIDES}
    assert {row[0] for row in rows(made, "Each set alone")} == set(tables.NAMES.values())


def test_a_difference_on_a_set_is_that_of_its_means(made):
    means = {(row[0], row[1]): row[3:] for row in rows(made, "Each set alone")}
    for name, pair, *cells in rows(made, "Differences on each set"):
        own, other = (means[name, side.replace("base", "base model")] for side in pair.split(" - "))
        for cell, a, b in zip(cells, own, other, strict=False):
            if cell.strip():
                value, low, high = (float(x) for x in re.findall(r"[+-][\d.]+", cell))
                assert value == pytest.approx(float(a) - float(b), abs=0.11)
                assert low <= value <= high


def test_fewer_than_three_runs_are_given_no_verdict(made):
    for row in rows(made, "The main comparison"):
        if row[2].isdigit() and int(row[2]) < claims.MINIMUM:
            assert all(cell in ("", "-") or "too few runs" in cell for cell in row[4:])


def test_interval_and_verdict_do_not_contradict_each_other(made):
    found = re.findall(r"([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\), ([^|;\n]+)", made)
    assert len(found) > 20
    for _, low, high, said in found:
        zero = float(low) <= 0 <= float(high)
        if said.startswith("not told apart"):
            assert zero or "p = " in said
        else:
            assert not zero


def test_a_difference_is_the_mean_of_one_method_minus_that_of_the_other():
    runs = claims.stored()[1]
    ours, theirs = (runs.named(name, claims.POOLED, 128) for name in (claims.BOTH, claims.GRPO))
    assert ours is not None
    assert theirs is not None
    (claim,) = claims.claims([(ours, theirs, 128)])
    assert claim is not None
    assert claim.found.value == pytest.approx(ours.scores.mean() - theirs.scores.mean())
    assert claim.found.runs == (4, 5)


def test_arms_of_fewer_than_three_runs_have_no_means(made):
    table = made.partition("### E2")[2].partition("###")[0]
    few = re.findall(r"^\| [^|]+ \| [0-2] of \d+ \|(.*)$", table, flags=re.MULTILINE)
    assert not any(re.search(r"\d", rest) for rest in few)


def test_the_intervals_hold_as_often_as_the_page_says(made):
    kept = json.loads(tables.COVERAGE.read_text())
    for row in rows(made, "Whether the intervals hold"):
        sizes = [int(each) for each in re.findall(r"\d+", row[1])]
        cells = [c for c in kept["cells"] if c[0] == int(row[0]) and c[1] in sizes]
        assert len(cells) == 36 * len(sizes)  # 3 pairs, 3 k, 4 deviations
        low, high = (float(each) for each in row[3].split(" to "))
        assert low == pytest.approx(100 * min(c[5] for c in cells), abs=0.051)
        assert high == pytest.approx(100 * max(c[5] for c in cells), abs=0.051)
        assert 93 <= float(row[2]) <= 97
        assert float(row[5]) <= 6
