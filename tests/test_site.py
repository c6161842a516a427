"""The site is built without a warning, and every link of it leads somewhere.

Slow: it takes half a minute, and once the installation of `requirements-docs.lock`. What can be
said without building it is in `test_docs.py`.
"""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from maxk.cli import COMMANDS
from maxk.estimators import METHODS

ROOT = Path(__file__).parent.parent
SITE = ROOT / "out" / "docs"


class Page(HTMLParser):
    """The ids and the links of a page, and the addresses that it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.text = file.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        self.loaded |= {given[name] for name in ("src", "data") if name in given}
        if tag == "link" and given.get("rel") == "stylesheet":
            self.loaded.add(given["href"])


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {file: Page(file) for file in SITE.rglob("*.html")}


@pytest.mark.slow
def test_every_page_is_built(pages):
    sources = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    missing = [str(path) for path in sources if SITE / path.with_suffix(".html") not in pages]
    assert sorted(missing) == []


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(pages):
    broken = []
    for file, page in pages.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("#", ""):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            lost = target in pages and parts.fragment not in {"", *pages[target].ids}
            if not target.exists() or lost:
                broken.append(f"{file.relative_to(SITE)}: {link}")
    assert sorted(broken) == []


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages):
    loaded = {address for page in pages.values() for address in page.loaded}
    assert sorted(each for each in loaded if urlsplit(each).netloc) == []


@pytest.mark.slow
def test_formulas_commands_and_methods_are_on_their_pages(pages):
    assert "<math" in pages[SITE / "explanation/mathematics.html"].text
    assert "<math" in pages[SITE / "reference/api/estimators.html"].text
    assert {f"maxk-{name}" for name in COMMANDS} <= pages[SITE / "reference/cli.html"].ids
    assert {f"method-{name}" for name in METHODS} <= pages[SITE / "reference/methods.html"].ids
