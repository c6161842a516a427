"""Tables of methods: best in bold, second best underlined, a star where the best is clearly best.

The rules are the paper's (Table 2): the star means that the Wilcoxon signed-rank test of the best
against the second best, on the same problems, gives p < 0.05, uncorrected. Ranks use unrounded
means, so two cells that print alike may be marked differently. Methods that tie for the best are
all bold, and then nothing is underlined or starred.

`ranked` makes a table; `markdown`, `latex`, `csv` and `terminal` write it.
"""

import csv as csv_writer
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxk.evaluate.bootstrap import DEFAULT, Interval, mean_interval
from maxk.evaluate.paired import wilcoxon

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

SIGNIFICANT = 0.05
SAME = 1e-12  # means closer than this are equal up to rounding


@dataclass(frozen=True)
class Cell:
    """A number with its interval, where there is one, and its marks."""

    value: float
    low: float | None = None
    high: float | None = None
    bold: bool = False
    underline: bool = False
    star: bool = False


@dataclass(frozen=True)
class Table:
    """Cells by row and column. cells[i][j] is row i, column j."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    caption: str = ""


def ranked(
    columns: Mapping[str, Mapping[str, Any]],
    caption: str = "",
    interval: Interval = DEFAULT,
    star: bool = True,
) -> Table:
    """A table from scores of problems: columns[header][method] is one number per problem.

    Within a column all methods have the same problems in the same order; columns may differ (other
    data sets) but have the same methods. star: by the paper's rule, which takes problems for the
    unit; `compare` gives stars by runs.

    >>> print(markdown(ranked({"max@8": {"base": [0.1, 0.4], "maxk": [0.3, 0.9]}})))
    | Method | max@8 |
    |:--|--:|
    | base | <u>0.250</u> |
    | maxk | **0.600** |
    """
    if not columns:
        raise ValueError("columns is empty; pass scores by column header and method")
    headers = list(columns)
    methods = list(columns[headers[0]])
    values = []
    for header in headers:
        scores = {name: np.asarray(each, dtype=float) for name, each in columns[header].items()}
        _check_column(header, scores, methods)
        values.append(np.stack([scores[method] for method in methods], axis=1))
    lows, highs = {}, {}
    for problems in {len(values_PM) for values_PM in values}:  # drawn again once, not per column
        same = [j for j, values_PM in enumerate(values) if len(values_PM) == problems]
        low, high = mean_interval(np.hstack([values[j] for j in same]), interval)
        lows |= zip(same, np.split(low, len(same)), strict=True)
        highs |= zip(same, np.split(high, len(same)), strict=True)
    marked = [_mark(values[j], lows[j], highs[j], star) for j in range(len(headers))]
    return Table(tuple(methods), tuple(headers), tuple(zip(*marked, strict=True)), caption)


def _check_column(header: str, scores: dict[str, np.ndarray], methods: list[str]) -> None:
    if set(scores) != set(methods):
        differ = sorted(set(scores) ^ set(methods))
        raise ValueError(f"columns[{header!r}] does not have the same methods: {differ} differ")
    shapes = {name: each.shape for name, each in scores.items()}
    if len(set(shapes.values())) > 1 or len(shapes[methods[0]]) != 1:
        raise ValueError(
            f"columns[{header!r}] has scores of shapes {shapes}; give one number per problem, the "
            "same problems for every method"
        )


def _mark(
    values_PM: np.ndarray, low_M: np.ndarray, high_M: np.ndarray, starred: bool
) -> list[Cell]:
    mean_M = values_PM.mean(0)
    first = np.flatnonzero(mean_M >= mean_M.max() - SAME)
    rest = np.setdiff1d(np.arange(len(mean_M)), first)
    second = np.array([], dtype=int)
    if len(first) == 1 and len(rest):
        second = rest[mean_M[rest] >= mean_M[rest].max() - SAME]
    # Where several share the second place, the best must beat each of them.
    star = (
        starred
        and len(second) > 0
        and all(
            wilcoxon(values_PM[:, first[0]], values_PM[:, other]) < SIGNIFICANT for other in second
        )
    )
    return [
        Cell(
            value=float(mean_M[m]),
            low=float(low_M[m]),
            high=float(high_M[m]),
            bold=m in first,
            underline=m in second,
            star=star and m in first,
        )
        for m in range(len(mean_M))
    ]


def number(cell: Cell, percent: bool = False, intervals: bool = False) -> str:
    """0.616, or 61.6 in percent; with intervals, 0.616 [0.571, 0.660]. A dash for no number."""

    def one(x: float) -> str:
        return f"{100 * x:z.1f}" if percent else f"{x:z.3f}"  # z: no minus before a 0

    if math.isnan(cell.value):
        return "-"
    if not intervals or cell.low is None or cell.high is None:
        return one(cell.value)
    return f"{one(cell.value)} [{one(cell.low)}, {one(cell.high)}]"


def markdown(table: Table, percent: bool = False, intervals: bool = False) -> str:
    """A pipe table; underlining, which Markdown lacks, is <u>...</u>."""

    def text(cell: Cell) -> str:
        out = number(cell, percent, intervals) + (r"\*" if cell.star else "")
        out = f"<u>{out}</u>" if cell.underline else out
        return f"**{out}**" if cell.bold else out

    lines = [
        ["Method", *map(_markdown_text, table.columns)],
        *(
            [_markdown_text(name), *map(text, cells)]
            for name, cells in zip(table.rows, table.cells, strict=True)
        ),
    ]
    body = ["| " + " | ".join(line) + " |" for line in lines]
    body.insert(1, "|:--" + "|--:" * len(table.columns) + "|")
    return "\n".join(body)


def _markdown_text(text: str) -> str:
    for character in "\\`*_<>[]|":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())


def latex(table: Table, percent: bool = False, intervals: bool = False) -> str:
    r"""A tabular with booktabs rules; needs \usepackage{booktabs}."""

    def text(cell: Cell) -> str:
        out = number(cell, percent, intervals)
        out = rf"\underline{{{out}}}" if cell.underline else out
        out = rf"\textbf{{{out}}}" if cell.bold else out
        return out + ("$^{*}$" if cell.star else "")

    lines = [
        r"\begin{tabular}{l" + "r" * len(table.columns) + "}",
        r"\toprule",
        " & ".join(["Method", *map(_latex_text, table.columns)]) + r" \\",
        r"\midrule",
        *(
            " & ".join([_latex_text(name), *map(text, cells)]) + r" \\"
            for name, cells in zip(table.rows, table.cells, strict=True)
        ),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
    return " ".join("".join(_LATEX.get(character, character) for character in text).split())


def csv(table: Table) -> str:
    """One line per cell, with all digits: method, column, value, low, high and the marks."""
    out = io.StringIO()
    writer = csv_writer.writer(out, lineterminator="\n")
    writer.writerow(["method", "column", "value", "low", "high", "bold", "underline", "star"])
    for name, cells in zip(table.rows, table.cells, strict=True):
        for header, cell in zip(table.columns, cells, strict=True):
            marks = [int(mark) for mark in (cell.bold, cell.underline, cell.star)]
            writer.writerow([name, header, cell.value, cell.low, cell.high, *marks])
    return out.getvalue()


def terminal(table: Table, percent: bool = False, intervals: bool = False) -> "RichTable":
    """A rich table, for `rich.print`. Nine values of k fit into 80 characters."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    narrow = len(table.columns) > 6
    out = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    out.title = Text(table.caption) if table.caption else None
    out.add_column("Method", no_wrap=True)
    columns = []
    total = max(map(len, table.rows), default=0)
    for j, header in enumerate(table.columns):
        lines = (header.replace("@", " @") if narrow else header).split()
        cells = [row[j] for row in table.cells]
        numbers = [number(cell, percent, intervals) for cell in cells]
        room = int(any(cell.star for cell in cells))
        width = max(map(len, numbers), default=0)
        width = max(width, *(len(line) - room for line in lines))
        # Padded here, as rich would right-align a starred cell by its star.
        heading = "\n".join(line.rjust(width + room) for line in lines)
        out.add_column(Text(heading), no_wrap=True)
        total += width + room
        columns.append(list(map(_styled, cells, [text.rjust(width) for text in numbers])))
    roomy = total + 2 * len(columns) + 2 <= 80
    out.padding = (0, int(roomy), 0, 0)
    for name, *texts in zip(table.rows, *columns, strict=True):
        out.add_row(Text(name), *texts)
    return out


def _styled(cell: Cell, text: str) -> "Text":
    from rich.text import Text

    digits = text.lstrip()
    style = " ".join(["bold"] * cell.bold + ["underline"] * cell.underline)
    out = Text(" " * (len(text) - len(digits))).append(digits, style=style)
    return out.append("*" if cell.star else "", style="bold")
