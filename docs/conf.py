"""The site: `make docs` builds it into out/docs, `make docs-live` serves it while pages change."""

import logging
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import maxk  # noqa: E402

project = "maxk"
author = copyright = "the maxk authors"
release = version = maxk.__version__

# `site_*` are modules beside this file. No napoleon: docstrings are prose with examples, and have
# none of the sections that it reads.
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "site_api",
    "site_archive",
    "site_code",
    "site_math",
]
exclude_patterns = ["_static"]


def is_no_empty_glob(record: logging.LogRecord) -> bool:
    """Pages may be missing that index.md names by a glob: Sphinx has no other way to allow that."""
    return "toctree glob pattern" not in str(record.msg)


logging.getLogger("sphinx.sphinx.directives.other").addFilter(is_no_empty_glob)

# --- Markdown: tables, $formulas$, headings as targets, as GitHub makes them ----------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# --- docstrings -----------------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_mock_imports = ["omegaconf", "ray", "tensordict", "transfer_queue", "verl"]
default_role = "py:obj"  # what stands between backticks links to its description if it has one
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# --- the look -------------------------------------------------------------------------------------
html_theme = "furo"
html_title = "maxk"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_use_index = False  # the search finds names
html_show_sphinx = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
