"""Draw figures: as files, and as inline SVG for a page with a strict content policy."""

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from maxk.report.theme import FAINT, INK, MUTED, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn
    from matplotlib.typing import RcKeyType

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and recoloured
    "pdf.fonttype": 42,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}
_INCHES = (5.0, 3.4)


def write_files(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Every figure as SVG, PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        for form in ("svg", "png", "pdf"):
            path = folder / f"{figure.name}.{form}"
            path.write_bytes(_drawn(figure, form, titled=True))
            written.append(path)
    return written


def inline(figure: Figure) -> str:
    """The figure as an SVG element without styles, scripts, links out and sizes.

    Styles become attributes, which no policy forbids and which any rule of the page's style sheet
    overrides: that is how the page recolours its figures.
    """
    root = ET.fromstring(_drawn(figure, "svg", titled=False))
    for element in list(root.iter()):
        for child in list(element):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                element.remove(child)
        if element.tag == f"{{{_SVG}}}g":
            element.attrib.pop("id", None)  # the same in every figure
        link = element.attrib.pop(f"{{{_LINK}}}href", None)
        if link is not None:
            element.set("href", link)
        for rule in filter(str.strip, element.attrib.pop("style", "").split(";")):
            name, _, value = rule.partition(":")
            _set(element, name.strip(), value.strip())
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-label", f"{figure.title}. {figure.caption} The numbers are in the table below.")
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _set(element: ET.Element, name: str, value: str) -> None:
    if name == "font":  # the family is the page's
        element.set("font-size", next(part for part in value.split() if part[0].isdigit()))
    else:
        element.set(name, value)


def _drawn(figure: Figure, form: str, titled: bool) -> bytes:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Drawing
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'maxk[report]'") from None

    salted = cast("dict[RcKeyType, Any]", _RC | {"svg.hashsalt": figure.name})
    with mpl.rc_context(salted):
        drawing: Drawn = Drawing(figsize=_INCHES, layout="constrained")
        axes = drawing.subplots()
        figure.draw(axes)
        if titled:
            axes.set_title(figure.title.replace("$", r"\$"), color=INK)
        out = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        drawing.savefig(out, format=form, dpi=200, metadata=dated)
    return out.getvalue()
