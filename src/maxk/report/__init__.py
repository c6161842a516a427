"""The report: figures, tables and samples of runs, as one HTML page.

    found = Findings(gather(["runs/base", "runs/tuned"]))
    Path("report.html").write_text(page(found))

Everything is read from the folders of runs; nothing is sampled or judged again. No torch.
"""

from maxk.report.findings import Findings
from maxk.report.gather import gather
from maxk.report.page import page

__all__ = ["Findings", "gather", "page"]
