"""A trace as a file: JSON, one self-contained page, or a picture."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path

from seq2see import draw
from seq2see.errors import InputError
from seq2see.explain.pictures import picture
from seq2see.explain.reports import asset
from seq2see.explain.trace import Trace

FORMATS = (".json", ".html", *draw.FORMATS)
_SCRIPTS = ("base", "figures", "attention", "worked", "steps", "beam", "attribution", "main")
"""Each after those that it imports: in the page they are one."""
_MODULE_WORDS = re.compile(r"^import .*$|^export (?=\w)", re.MULTILINE)


def save(trace: Trace, path: Path) -> None:
    """Write the file that the name asks for."""
    ending = path.suffix.lower()
    if ending in draw.FORMATS:
        picture(trace, path)
        return
    refuse_name(path)
    text = trace.to_json() if ending == ".json" else page(trace)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def refuse_name(path: Path) -> None:
    """Raise an error if no trace can have this name."""
    if path.suffix.lower() not in FORMATS:
        wanted = ", ".join(FORMATS)
        raise InputError(f"the output's name must end with one of {wanted}, but is {path} instead")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")


def page(trace: Trace) -> str:
    """Return one HTML page that needs no network and no other file."""
    parts = {
        "title": escape(f"{trace.source.text} – seq2see"),
        "style": asset("style.css"),
        "script": _script(),
        # In a script element "</" ends it, and "<!--" with "<script" changes where it ends.
        "trace": trace.to_json().replace("<", "\\u003c"),
    }
    template = asset("page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def frame(trace: Trace) -> str:
    """Return the page inside a frame, so that a notebook's styles and ours do not meet."""
    return (
        f'<iframe srcdoc="{escape(page(trace))}" style="width:100%;height:900px;border:0" '
        f'title="{escape(trace.source.text)}"></iframe>'
    )


@cache
def _script() -> str:
    return "\n".join(_MODULE_WORDS.sub("", asset(f"{name}.js")) for name in _SCRIPTS)
