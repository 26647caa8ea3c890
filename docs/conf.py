"""Sphinx makes a site of the pages in this folder: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from assay import __version__

sys.path.insert(0, str(Path(__file__).parent))
import generated  # noqa: E402 - a file of this folder

project = "Assay"
author = copyright = "The Assay developers"
version = release = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
#: Headings that a link may name, as on GitHub.
myst_heading_anchors = 3
#: Docstrings write names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
#: The value of a variable of ReFrame is an object; the docstrings state the defaults.
autodoc_default_options = {"members": True, "no-value": True}

html_theme = "furo"
html_title = f"Assay {release}"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False


def setup(app):
    app.connect("source-read", generated.fill)
