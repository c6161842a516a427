"""`maxk report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from maxk.cli.arguments import POSITIONAL, check_places
from maxk.cli.console import console, terminated_as_interrupted

if TYPE_CHECKING:
    from maxk.report import Findings

_ON_CARD = ("max-at-k", "pass-at-k")


@dataclass(frozen=True)
class Report:
    """Write one HTML page: did training help Best-of-N, and where?

    The first sampling run is of the base model; training runs may be among the runs. Sampling runs
    that share a NAME are runs of one method, and FOLDER may hold * and ?. With
    --figures, --card or --terminal the page is written only if --out asks for it.
    """

    runs: Annotated[tuple[str, ...], POSITIONAL]
    """folders of `maxk sample` and `maxk train`, or NAME=FOLDER"""
    out: Path | None = None
    """the page; default: report.html"""
    untrained: bool = False
    """the first method is a base model: no seed made it, so one run is all there is"""
    samples: int | Literal["all"] | None = None
    """different programs shown of each problem and run; default: as many as fit"""
    megabytes: float = 5.0
    """the size that the page should not exceed"""
    figures: Path | None = None
    """write the figures into this folder, as SVG, PNG and PDF"""
    card: Path | None = None
    """write a section for a model card here, in Markdown"""
    terminal: bool = False
    """print headline, table and curve instead of the page"""
    watch: bool = False
    """serve the page on 127.0.0.1, and rebuild it when files of the runs change"""
    port: int = 8642
    """of --watch; 0 for any that is free"""

    def run(self) -> int:
        from maxk.report import Findings, gather

        check_places(out=self.out, card=self.card if self.figures is None else None)
        if self.watch:
            self.serve()
            return 0
        found = Findings(gather(self.runs), self.untrained)
        if self.terminal:
            from maxk.report.text import show

            show(found, console)
        if self.figures is not None or self.card is not None:
            self.write_figures(found)
        if self.out is not None or not (self.terminal or self.figures or self.card):
            self.write_page(found)
        return 0

    def write_page(self, found: "Findings") -> None:
        from maxk.store.run import write_whole

        out = self.out or Path("report.html")
        html = self.page(found).encode("utf-8", "replace")
        write_whole(out, html)
        for sentence in found.headline:
            console.print(sentence, markup=False)
        size = len(html) / 1e6
        console.print(f"{out}: {size:.1f} MB; open it in a browser", soft_wrap=True, markup=False)
        if size > self.megabytes and self.samples is None:
            console.print(
                f"it is larger than --megabytes {self.megabytes:g}: the verdicts alone take that"
            )

    def page(self, found: "Findings", version: int | None = None) -> str:
        from maxk.report import page

        most = 10**9 if self.samples == "all" else self.samples
        return page(found, self.megabytes, most, version)

    def write_figures(self, found: "Findings") -> None:
        from maxk.report.draw import write_files
        from maxk.report.figures import all_figures
        from maxk.report.text import card

        figures = [figure for each in all_figures(found).values() for figure in each]
        if self.figures is not None:
            written = write_files(figures, self.figures)
            console.print(f"{len(written)} files in {self.figures}", soft_wrap=True, markup=False)
        if self.card is not None:
            beside = self.figures is not None and self.card.parent == self.figures
            text = card(found, [f for f in figures if f.name in _ON_CARD] if beside else ())
            self.card.write_text(text, encoding="utf-8")
            console.print(f"model card section: {self.card}", soft_wrap=True, markup=False)

    def serve(self) -> None:
        from maxk.report import Findings, gather
        from maxk.report.places import places
        from maxk.report.watch import Watched, serve
        from maxk.store.run import Run

        folders = [folder for _, folder, _ in places(self.runs)]
        for folder in folders:
            Run.open(folder)  # an error now: serving would wait for a wrong name

        def build(version: int) -> str:
            return self.page(Findings(gather(self.runs, live=True), self.untrained), version)

        def say(text: str) -> None:
            console.print(text, markup=False, soft_wrap=True)

        with terminated_as_interrupted():
            serve(Watched(folders, build), self.port, say)
