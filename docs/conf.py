"""Sphinx makes a site of the pages in this folder: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

from assay import __version__

sys.path.insert(0, str(Path(__file__).parent))
import generated

project = "Assay"
author = copyright = "The Assay developers"
version = release = __version__
language = "en"
smartquotes = False  # it would make a dash of the two hyphens of an option

extensions = ["myst_parser", "sphinx.ext.autodoc"]
#: Headings that a link may name, as on GitHub.
myst_heading_anchors = 3
#: Docstrings write names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"Assay {release}"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False


def without_objects(_app, _domain, _kind, content):
    """Hides the value of a variable of ReFrame, an object; the docstring states the default."""
    for value in list(content.parent.findall(addnodes.desc_annotation)):
        if re.match(r" = (TestVar\(|<)", value.astext()):
            value.parent.remove(value)


def without_hyphens(_app, tree):
    """Puts a colon for the two hyphens that Sphinx puts between a parameter and its meaning."""
    for text in list(tree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(": "))


def setup(app):
    app.connect("source-read", generated.fill)
    app.connect("object-description-transform", without_objects)
    app.connect("doctree-read", without_hyphens)
