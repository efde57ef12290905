"""Settings of Sphinx for the web site with the documentation; see scripts/docs."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

from seq2see import __version__

project = "seq2see"
author = "the seq2see authors"
project_copyright = author
version = release = __version__
root_doc = "index"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]

myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # several classes have a field of this name

default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "model_config, forward"}
autodoc_typehints = "signature"
autodoc_type_aliases = {"Tensor": "torch.Tensor"}
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "seq2see"
html_copy_source = False
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp, .go"


def convert_markdown(*arguments: Any) -> None:
    """Convert the Markdown of a docstring: escape what reStructuredText would interpret.

    Indented blocks after a line, and tables of names and descriptions, are literal blocks. Sections
    such as `Args:` are left to napoleon.
    """
    lines = arguments[-1]
    text = "\n".join(lines)
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    text = "".join(parts)
    paragraphs = ["::\n\n" + indent(p, "    ") if is_table(p) else p for p in text.split("\n\n")]
    text = re.sub(r"(?m)^(?!::$)(\S.*)\n\n(?= {4}\S)", r"\1\n\n::\n\n", "\n\n".join(paragraphs))
    lines[:] = text.split("\n")


def is_table(paragraph: str) -> bool:
    """Return whether a paragraph has a column of names and one of descriptions."""
    lines = paragraph.split("\n")
    return any(re.match(r"\w+ {2,}\S", line) for line in lines)


def setup(app: Any) -> None:
    """Register the conversion of docstrings before napoleon's."""
    app.connect("autodoc-process-docstring", convert_markdown, priority=400)
