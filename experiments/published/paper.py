"""The published numbers: Tables 1-14 of Bagirov et al. 2025 (arXiv 2510.23393), from paper.json.

All of them are for Qwen2.5-Coder-7B-Instruct, with 256 samples per problem at temperature 1.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from maxk.evaluate.samples import Metric
from maxk.evaluate.tables import Cell, Table


@dataclass(frozen=True)
class PaperColumn:
    """What a column holds: `metric`@`k` on the data set `data`, as a share from 0 to 1."""

    data: str
    metric: Metric
    k: int


@dataclass(frozen=True)
class PaperRow:
    """One row. `method` is its name in maxk, None for the model before training."""

    name: str
    method: str | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper; `oddities` says where it does not follow its own rules."""

    number: int
    caption: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[PaperRow, ...]
    oddities: tuple[str, ...] = ()

    def value(self, row: str, data: str, metric: Metric, k: int) -> float:
        """The number in the row of that name as printed, or KeyError.

        >>> tables()["2"].value("BoN mean", "MBPP", "max", 128)
        0.673
        """
        for each in self.rows:
            for column, cell in zip(self.columns, each.cells, strict=True):
                if each.name == row and column == PaperColumn(data, metric, k):
                    return cell.value
        raise KeyError(f"table {self.number} has no {metric}@{k} on {data} of {row!r}")

    def table(self) -> Table:
        """The same as a `Table`, which can be written as Markdown, LaTeX, CSV or on a terminal.

        Headers name what varies: the data set, the metric, or both.
        """
        data = {column.data for column in self.columns}
        metrics = {(column.metric, column.k) for column in self.columns}
        headers = []
        for column in self.columns:
            at_k = f"{column.metric}@{column.k}"
            parts = [column.data] * (len(data) > 1) + [at_k] * (len(metrics) > 1)
            headers.append(" ".join(parts))
        return Table(
            rows=tuple(row.name for row in self.rows),
            columns=tuple(headers),
            cells=tuple(row.cells for row in self.rows),
            caption=f"Table {self.number} of the paper: {self.caption}",
        )


@cache
def tables() -> dict[str, PaperTable]:
    """The tables by number, "1" to "14"."""
    text = files("experiments.published").joinpath("paper.json").read_text(encoding="utf-8")
    return {str(each["number"]): _table(each) for each in json.loads(text)["tables"]}


def _table(stored: dict) -> PaperTable:
    rows = []
    for row in stored["rows"]:
        marks = row.get("marks", [""] * len(row["values"]))
        cells = tuple(
            Cell(value, bold="b" in mark, underline="u" in mark, star="*" in mark)
            for value, mark in zip(row["values"], marks, strict=True)
        )
        rows.append(PaperRow(row["name"], row["method"], cells))
    return PaperTable(
        number=stored["number"],
        caption=stored["caption"],
        columns=tuple(PaperColumn(**column) for column in stored["columns"]),
        rows=tuple(rows),
        oddities=tuple(stored.get("oddities", ())),
    )
