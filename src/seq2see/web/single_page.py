"""Pages as single HTML files that need no other file and no network.

A page that is opened from a file cannot import modules from files. Each module is therefore
embedded as a data: URL under a name in an import map, and its imports are replaced by these names.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath

STATIC_DIRECTORY = Path(__file__).parent / "static"
"""HTML, style sheets and JavaScript modules of the page; `js/views` has one module per view."""

_STYLE_SHEETS = ("base", "controls", "views")
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
_IMPORTED_PATH = re.compile(r'(?<=\bfrom )"(\.{1,2}/.+?)"')
_BODY_WITHOUT_SCRIPTS = re.compile(r"(?s)<body>(.+)<noscript>")
_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{styles}</style>
</head>
<body>{body}</body>
</html>
"""


def build_single_page(entry: str, title: str, data: str = "{}") -> str:
    """Return the page that a module starts, with embedded data.

    Args:
        entry: Name of the module, such as `main.js`.
        title: Title of the document.
        data: JSON that the page finds in `embedded.js`.
    """
    elements = _BODY_WITHOUT_SCRIPTS.search(_read_file("index.html"))
    assert elements
    # "</" would end the script element, and "<!--" with "<script" would change where it ends.
    escaped_data = data.replace("<", "\\u003c")
    body = f"""{elements[1]}<noscript>This page requires JavaScript.</noscript>
<script type="application/json" id="data">{escaped_data}</script>
<script type="importmap">{_build_import_map(entry)}</script>
<script type="module">import "{entry}";</script>
"""
    return build_static_page(title, body)


def build_static_page(title: str, body: str) -> str:
    """Return a document with the style of the page; `body` is HTML, `title` is text."""
    styles = "\n".join(_read_file(f"css/{name}.css") for name in _STYLE_SHEETS)
    return _DOCUMENT.format(
        policy=_CONTENT_SECURITY_POLICY, title=escape(title), styles=styles, body=body
    )


@cache
def _build_import_map(entry: str) -> str:
    """Return an import map with a module and all modules that it imports."""
    urls: dict[str, str] = {}
    pending = [entry]
    while pending:
        name = pending.pop()
        if name not in urls:
            code = _read_file(f"js/{name}")
            imported = {
                path: normpath(join(dirname(name), path)) for path in _IMPORTED_PATH.findall(code)
            }
            for path, imported_name in imported.items():
                code = code.replace(f'"{path}"', f'"{imported_name}"')
            urls[name] = f"data:text/javascript;base64,{b64encode(code.encode()).decode()}"
            pending += imported.values()
    return json.dumps({"imports": urls})


@cache
def _read_file(name: str) -> str:
    return (STATIC_DIRECTORY / name).read_text(encoding="utf-8")
