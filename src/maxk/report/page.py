"""The report as one HTML file that loads nothing and runs nothing but its own script.

What the reader's browser may do is said in the page itself, by a policy that names the one script
and the one style sheet by their digests. Text of models and data sets is in it in two forms only:
escaped by the template, and as JSON that the script turns into text nodes.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from maxk.report import sections as parts
from maxk.report.findings import Findings
from maxk.report.gather import LETTERS
from maxk.report.pack import pack
from maxk.report.theme import COLOURS

_HERE = Path(__file__).parent
_SCRIPTS = ("text.js", "table.js", "viewer.js")
_AROUND = 60_000  # bytes of the page beside figures and samples
MEGABYTES = 5.0


def page(
    found: Findings,
    megabytes: float = MEGABYTES,
    samples: int | None = None,
    version: int | None = None,
) -> str:
    """The whole page. version: of a page that is served and replaced when there is news."""
    try:
        import jinja2
    except ImportError:
        raise ImportError("the page needs jinja2: pip install 'maxk[report]'") from None

    gathered = found.gathered
    sections = parts.all_sections(found)
    drawn = sum(len(figure.svg) for section in sections for figure in section.figures)
    packed = pack(gathered, int(megabytes * 1e6) - drawn - _AROUND, samples)
    scripts = _SCRIPTS if version is None else (*_SCRIPTS, "live.js")
    script = '"use strict";\n' + "\n".join((_HERE / name).read_text("utf-8") for name in scripts)
    css = (_HERE / "page.css").read_text("utf-8")
    data = {
        "runs": [{"name": run.name, "kind": run.kind} for run in gathered.runs],
        "problems": packed.index,
        "letters": {letter: status for status, letter in LETTERS.items()} | {"N": "no program"},
        "packed": packed.payloads,
        "partial": packed.most is not None,
        "version": version,
    }
    methods = list(dict.fromkeys(run.method or run.name for run in gathered.runs))
    colours = {
        run.name: COLOURS[methods.index(run.method or run.name) % len(COLOURS)]
        for run in gathered.runs
    }
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return templates.get_template("page.html").render(
        title=parts.title(gathered),
        policy=policy(script, css, live=version is not None),
        css=css,
        script=script,
        live=version is not None,
        headline=found.headline,
        missing=gathered.missing,
        tiles=parts.tiles(found),
        runs=[
            {"name": run.name, "about": parts.about_run(run), "colour": colours[run.name]}
            for run in gathered.runs
        ],
        sections=sections,
        included=parts.included(packed),
        about=parts.settings(gathered.runs),
        made=parts.made(gathered),
        data=json_in_html(data),
    )


def policy(script: str, css: str, live: bool = False) -> str:
    """The Content-Security-Policy: this script, this style sheet, and nothing from anywhere."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest(script)}'",
        f"style-src 'sha256-{digest(css)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)


def json_in_html(data: Any) -> str:
    """JSON that no HTML parser takes for the end of a script.

    >>> json_in_html(["</script><!--"])
    '["\\\\u003c/script\\\\u003e\\\\u003c!--"]'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
