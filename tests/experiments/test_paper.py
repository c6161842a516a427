"""The published tables: transcribed rightly, and consistent with one another."""

from itertools import pairwise

import pytest

from experiments.published.paper import tables
from maxk.estimators import METHODS
from maxk.evaluate.samples import Metric

# One cell of each table or more, typed from the paper: row, data set, metric, k, number.
CELLS: dict[str, list[tuple[str, str, Metric, int, float]]] = {
    "1": [
        ("Base model", "CodeContests", "pass", 1, 0.211),
        ("Continuous reward", "CodeContests", "pass", 128, 0.516),
        ("Binary reward", "LiveCodeBench", "pass", 128, 0.230),
    ],
    "2": [
        ("Off-policy BoN (ours)", "MBPP", "max", 128, 0.710),
        ("BoN mean", "LiveBench", "max", 128, 0.280),
        ("BoN LOO-1", "CodeForces", "max", 128, 0.200),
    ],
    "3": [
        ("BoN-max second", "CodeContests", "max", 1, 0.394),
        ("Off-policy BoN (ours)", "LiveCodeBench", "max", 1, 0.338),
    ],
    "4": [
        ("RL four epochs", "LiveCodeBench", "max", 1, 0.361),
        ("RL PPO=3 four epochs", "CodeContests", "max", 128, 0.703),
        ("RL PPO=3 one epoch", "LiveCodeBench", "max", 128, 0.608),
    ],
    "5": [("Off-policy BoN (ours)", "CodeContests", "pass", 256, 0.587)],
    "6": [("BoN-max mean", "CodeContests", "max", 64, 0.672)],
    "7": [("BoN LOO-1", "LiveCodeBench", "pass", 16, 0.392)],
    "8": [("BoN mean", "LiveCodeBench", "max", 2, 0.400)],
    "9": [("BoN mean", "LiveBench", "pass", 256, 0.294)],
    "10": [("Off-policy BoN (ours)", "LiveBench", "max", 256, 0.320)],
    "11": [("Base model", "CodeForces", "pass", 1, 0.010)],
    "12": [("BoN-max second", "CodeForces", "max", 32, 0.193)],
    "13": [("BoN-max second", "MBPP", "pass", 8, 0.255)],
    "14": [("BoN mean", "MBPP", "max", 256, 0.720)],
}
SHAPES = {"1": (3, 4), "2": (6, 5), "3": (6, 5), "4": (5, 4)}
MARKED_TWICE = {("2", "LiveCodeBench")}  # the oddity that the table lists


def everything():
    """All numbers: (table, row, column) -> cell."""
    for number, table in tables().items():
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                yield number, row, column, cell


@pytest.mark.parametrize("number", CELLS)
def test_cells_are_as_printed(number):
    for row, data, metric, k, value in CELLS[number]:
        assert tables()[number].value(row, data, metric, k) == value


def test_there_are_fourteen_tables_of_the_right_size():
    assert list(tables()) == [str(number) for number in range(1, 15)]
    for number, table in tables().items():
        rows, columns = SHAPES.get(number, (6, 9))
        assert (len(table.rows), len(table.columns)) == (rows, columns)
        assert all(len(row.cells) == columns for row in table.rows)


def test_values_are_shares_with_three_decimals():
    for _, _, _, cell in everything():
        assert 0 < cell.value < 1
        assert round(cell.value, 3) == cell.value


def test_methods_are_those_of_the_registry():
    used = {row.method for _, row, _, _ in everything()} - {None}
    assert used == {"grpo", "bon-max-mean", "bon-max-second", "bon-loo", "bon-mean", "off-policy"}
    assert used <= set(METHODS)


def test_the_same_quantity_has_the_same_value_in_every_table():
    seen = {}
    for _, row, column, cell in everything():
        assert seen.setdefault((row.name, column), cell.value) == cell.value
    assert seen  # tables 2 and 3 repeat columns of 6, 8, 10, 12 and 14; 1 and 4 the base model


def curves() -> dict:
    found: dict = {}
    for number, row, column, cell in everything():
        if int(number) >= 5:
            found.setdefault((row.name, column.data, column.metric), []).append(
                (column.k, cell.value)
            )
    return found


def test_curves_rise_and_bend_down():
    """The best of k grows with k, and ever more slowly: doubling k gains at most twice what the
    doubling before gained, up to three roundings of 0.0005 with weights 1, 3 and 2."""
    for points in curves().values():
        assert [k for k, _ in points] == [2**i for i in range(9)]
        values = [value for _, value in points]
        gains = [b - a for a, b in pairwise(values)]
        assert min(gains) >= 0
        assert all(after <= 2 * before + 0.0031 for before, after in pairwise(gains))


def test_max_at_k_is_never_below_pass_at_k():
    found = curves()
    for (name, data, metric), points in found.items():
        if metric == "pass":
            assert all(
                high >= low
                for (_, low), (_, high) in zip(points, found[name, data, "max"], strict=True)
            )


def test_bold_is_the_best_and_underlined_the_second():
    for number in ("2", "3", "4"):
        table = tables()[number]
        for j, column in enumerate(table.columns):
            cells = sorted((row.cells[j] for row in table.rows), key=lambda cell: -cell.value)
            bold = [cell for cell in cells if cell.bold]
            assert [cell.value for cell in bold] == [cells[0].value]
            underlined = [cell for cell in cells if cell.underline]
            if (number, column.data) in MARKED_TWICE:
                assert len(underlined) == 5
                assert any("LiveCodeBench" in oddity for oddity in table.oddities)
            else:
                assert [cell.value for cell in underlined] == [cells[1].value]


def test_stars_are_where_the_text_says():
    """Significant on every data set but LiveBench, in table 2 only."""
    starred = {(number, column.data) for number, _, column, cell in everything() if cell.star}
    assert starred == {
        ("2", name) for name in ("CodeContests", "LiveCodeBench", "CodeForces", "MBPP")
    }


def test_they_turn_into_tables_with_short_headers():
    assert tables()["5"].table().columns[3] == "pass@8"
    assert tables()["2"].table().columns == (
        "CodeContests",
        "LiveCodeBench",
        "LiveBench",
        "CodeForces",
        "MBPP",
    )
    assert tables()["4"].table().columns[0] == "LiveCodeBench max@1"


def test_a_cell_that_is_not_there_is_a_key_error():
    with pytest.raises(KeyError, match="table 2 has no max@1 on MBPP"):
        tables()["2"].value("BoN mean", "MBPP", "max", 1)
