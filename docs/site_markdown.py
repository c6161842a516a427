"""A directive whose content is made in Markdown, and what such Markdown is made of."""

from collections.abc import Iterable
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class FromCode(SphinxDirective):
    """A directive whose content is Markdown that is made when the site is built."""

    has_content = False

    def markdown(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the code may have changed where the page has not
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(headings), *map(list, rows)]
    text = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    text.insert(1, "|---" * len(lines[0]) + "|")
    return "\n".join(text)


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean, which fit a narrow page where a table does not."""
    text = "\n\n".join(f"{term}\n: {meaning}" for term, meaning in rows)
    return f"::::{{div}} keys\n{text}\n::::"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def shown(value: Any) -> str:
    return str(value).replace("typing.", "").replace("NoneType", "None")
