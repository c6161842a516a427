"""Tables: the ranking rule, and the four ways to write one."""

import csv as csv_reader
import io

import numpy as np
import pytest
from rich.console import Console

from experiments.published.paper import tables as paper_tables
from maxk.evaluate import Cell, Table, ranked
from maxk.evaluate.tables import csv, latex, markdown, number, terminal


def clearly_ranked() -> Table:
    rng = np.random.default_rng(0)
    base = rng.random(60) * 0.5
    columns = {"base": base, "second": base + 0.1, "best": base + 0.2}
    return ranked({"max@8": columns, "max@16": columns})


def marks(table: Table, column: int = 0) -> list[str]:
    cells = [row[column] for row in table.cells]
    return ["b" * cell.bold + "u" * cell.underline + "*" * cell.star for cell in cells]


def test_best_is_bold_second_underlined_and_a_clear_winner_starred():
    assert marks(clearly_ranked()) == ["", "u", "b*"]


def test_a_narrow_lead_has_no_star():
    assert marks(ranked({"max@1": {"a": [0.1, 0.2, 0.3], "b": [0.1, 0.2, 0.4]}})) == ["u", "b"]


def test_ties_for_the_best_are_all_bold_and_nothing_else_is_marked():
    scores = {"a": [0.1, 0.3], "b": [0.3, 0.1], "c": [0.0, 0.0]}
    assert marks(ranked({"max@1": scores})) == ["b", "b", ""]


def test_ties_for_the_second_are_all_underlined():
    scores = {"a": [0.1, 0.3], "b": [0.3, 0.1], "c": [0.9, 0.9]}
    assert marks(ranked({"max@1": scores})) == ["u", "u", "b"]


def test_a_single_method_is_bold_without_a_star():
    assert marks(ranked({"max@1": {"a": [0.1, 0.3]}})) == ["b"]


def test_cells_have_the_mean_and_an_interval_around_it():
    cell = clearly_ranked().cells[0][0]
    assert cell.low is not None
    assert cell.high is not None
    assert cell.low < cell.value < cell.high


def test_columns_may_have_different_problems():
    table = ranked({"A": {"x": [0.1], "y": [0.2]}, "B": {"x": [0.1, 0.5], "y": [0.0, 0.0]}})
    assert (marks(table, 0), marks(table, 1)) == (["u", "b"], ["b", "u"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "columns is empty"),
        ({"A": {"x": [1.0]}, "B": {"y": [1.0]}}, r"columns\['B'\].*'x', 'y'"),
        ({"A": {"x": [1.0], "y": [1.0, 0.0]}}, r"columns\['A'\] has scores of shapes"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        ranked(columns)


ODD = Table(
    rows=("a_b & c|d", "50%"),
    columns=("max@8",),
    cells=(
        (Cell(0.61649, 0.5, 0.7, bold=True, star=True),),
        (Cell(0.5, 0.4, 0.6, underline=True),),
    ),
    caption="odd names",
)


def test_markdown():
    assert markdown(ODD).splitlines() == [
        "| Method | max@8 |",
        "|:--|--:|",
        r"| a\_b & c\|d | **0.616\*** |",
        "| 50% | <u>0.500</u> |",
    ]
    assert "**61.6 [50.0, 70.0]" in markdown(ODD, percent=True, intervals=True)


def test_where_there_is_no_number_there_is_a_dash():
    assert number(Cell(float("nan"), 0.1, 0.2), intervals=True) == "-"


def test_a_zero_that_rounding_made_has_no_sign():
    cell = Cell(value=1e-4, low=-1e-18, high=0.0004)
    assert number(cell, intervals=True) == "0.000 [0.000, 0.000]"
    assert number(cell, percent=True, intervals=True) == "0.0 [0.0, 0.0]"
    assert number(Cell(value=-0.25, low=-0.5, high=0.1), intervals=True) == "-0.250 [-0.500, 0.100]"


def test_latex_is_escaped_and_has_rules():
    text = latex(ODD)
    assert r"a\_b \& c|d & \textbf{0.616}$^{*}$ \\" in text
    assert r"50\% & \underline{0.500} \\" in text
    for part in (r"\begin{tabular}{lr}", r"\toprule", r"\midrule", r"\bottomrule"):
        assert part in text


def test_latex_escapes_every_special_character():
    table = Table((r"\~^&%$#_{}",), (), ((),))
    expected = r"\textbackslash{}\textasciitilde{}\textasciicircum{}\&\%\$\#\_\{\} \\"
    assert expected in latex(table)


def test_csv_reads_back_with_all_digits():
    rows = list(csv_reader.DictReader(io.StringIO(csv(ODD))))
    assert rows[0]["method"] == "a_b & c|d"
    assert float(rows[0]["value"]) == 0.61649
    assert (rows[0]["bold"], rows[0]["star"], rows[1]["underline"]) == ("1", "1", "1")


def test_csv_leaves_unknown_intervals_empty():
    rows = list(csv_reader.DictReader(io.StringIO(csv(paper_tables()["2"].table()))))
    assert (rows[0]["low"], rows[0]["high"]) == ("", "")


def rendered(table: Table, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(terminal(table))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_nine_values_of_k_fit_80_characters_uncut():
    text = rendered(paper_tables()["5"].table())
    assert "Off-policy BoN (ours) 0.248 0.303 0.348 0.392 0.436 0.479 0.519 0.553 0.587" in text
    assert "…" not in text


def test_five_data_sets_fit_80_characters_uncut():
    text = rendered(paper_tables()["2"].table())
    assert "CodeContests LiveCodeBench LiveBench CodeForces   MBPP" in text
    assert "0.718*" in text
    assert "…" not in text


def test_digits_line_up_beside_a_star():
    lines = [line.rstrip() for line in rendered(clearly_ranked()).splitlines()]
    places = {line.index("0.") for line in lines if "0." in line}
    assert len(places) == 1
    assert any(line.endswith("*") for line in lines)


def test_names_are_not_taken_for_markup():
    assert "[bold]" in rendered(Table(("[bold]",), ("max@1",), ((Cell(0.5),),)))
