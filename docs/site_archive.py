"""The logs of experiments/archive and two pages on the experiments, as plain pages beside the site.

They are no part of it: not in its search, and the logs are in words older than its glossary.
"""

import re
import shutil
from pathlib import Path

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from sphinx.application import Sphinx

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
LOGS = EXPERIMENTS / "archive"
LOG = "A log of measurements, in older words."
SOURCES = {log.stem: (log, LOG) for log in LOGS.glob("*.md")} | {
    "protocol": (EXPERIMENTS / "registered" / "PROTOCOL.md", "Written before the first run."),
    "stored-results": (EXPERIMENTS / "results" / "README.md", "What the results come from."),
}
NAMES = {str(path.relative_to(EXPERIMENTS)): name for name, (path, _) in SOURCES.items()}
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+experiments/([\w/]+\.md)(#[\w-]+)?\)")
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 1rem auto; padding: 0 1rem }}
table {{ display: block; overflow-x: auto; border-collapse: collapse; font-size: .85rem }}
th, td {{ border: 1px solid #8886; padding: .2rem .5rem }}
pre {{ overflow-x: auto }}
code {{ overflow-wrap: anywhere }}
img {{ max-width: 100%; background: #fff }}
aside {{ border-left: 4px solid #888; padding-left: 1rem }}
</style>
<aside><a href="../results/index.html">maxk, results</a>.
{what}</aside>
{body}
"""


def link(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links of the site to one of these lead to its page."""
    up = "../" * docname.count("/")

    def page(found: re.Match[str]) -> str:
        name = NAMES.get(found[2])
        if name is None:
            return found[0]
        return f'<a href="{up}archive/{name}.html{found[3] or ""}">{found[1]}</a>'

    source[0] = LINK.sub(page, source[0])


def write(app: Sphinx, error: Exception | None) -> None:
    """Each log as a page, with its figures."""
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir) / "archive"
    shutil.copytree(LOGS / "images", out / "images", dirs_exist_ok=True)
    reader = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=4)
    for name, (path, what) in SOURCES.items():
        text = path.read_text()
        body = re.sub(r'href="([\w/]+)\.md', r'href="\1.html', reader.render(text))
        body = re.sub(r'href="\.\./\.\./docs/([\w/-]+)\.md', r'href="../\1.html', body)
        body = re.sub(r'href="\.\./\.\./CHANGELOG\.md', 'href="../changelog.html', body)
        body = re.sub(r'<a href="\.\./[^"]*(?<!\.html)">(.*?)</a>', r"\1", body)  # not in the site
        title = text.partition("\n")[0].lstrip("# ")
        made = PAGE.format(title=title, what=what, body=body)
        (out / f"{name}.html").write_text(made)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
