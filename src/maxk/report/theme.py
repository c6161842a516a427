"""The theme of all figures of the report: colours, dashes, markers, legends.

A figure is one panel, so that a page can put several side by side or below each other. Colours are
those of Okabe and Ito, which the colour-blind can tell apart; lines also differ in dash and marker,
for print. In dark mode the page replaces the colours (`page.css`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, FAINT = "#1f2328", "#59636e", "#d1d9e0"
COLOURS = ("#6e7781", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
DASHES = ("-", "-", "-", "--", "--", "--")
MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Numbers:
    """A table of text, its first column the label of the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """One panel: how to draw it, and its data as numbers."""

    name: str  # of its files
    title: str
    caption: str
    draw: Callable[["Axes"], None]
    numbers: Numbers


@dataclass(frozen=True)
class Style:
    """How one run is drawn, the same in every figure."""

    label: str
    colour: str
    dash: str
    marker: str


def styles(names: Sequence[str]) -> dict[str, Style]:
    """The first run is grey: it is what the others are seen against."""
    return {
        name: Style(
            name.replace("$", r"\$"),  # matplotlib would read mathematics
            COLOURS[i % len(COLOURS)],
            DASHES[i % len(DASHES)],
            MARKERS[i % len(MARKERS)],
        )
        for i, name in enumerate(names)
    }


def draw_line(axes: "Axes", xs: Sequence[float], ys: Sequence[float], style: Style) -> None:
    """A curve with a mark at every point."""
    axes.plot(
        *(xs, ys, style.dash),
        color=style.colour,
        marker=style.marker,
        markersize=3.5,
        markeredgewidth=0,
        linewidth=1.6,
        label=style.label,
    )


def legend(axes: "Axes", where: Any, **more: Any) -> None:
    """Without a frame; the lines long enough to tell a dashed one, whose gap a marker may hide."""
    more = {"handlelength": 3.2} | more
    axes.legend(loc=where, frameon=False, fontsize=8, labelcolor=INK, **more)


def legend_above(axes: "Axes") -> None:
    """In one line, where the panel itself is full."""
    tight = {"handlelength": 1.0, "handletextpad": 0.4, "columnspacing": 1.0}
    legend(axes, "lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, **tight)
