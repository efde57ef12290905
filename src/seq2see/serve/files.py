"""Pages and files on their way through a translator."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2see.documents import formats, html, translate_document
from seq2see.documents.job import Job
from seq2see.errors import Seq2SeeError
from seq2see.serve.problems import Invalid
from seq2see.serve.uploads import refuse_bombs
from seq2see.translator import Flag, Translation, TranslationOptions, Translator

_TAG = re.compile(r"<[^<>]*>")


def seen(page: str) -> str:
    """Return roughly what a reader sees of a page: enough to tell its language."""
    return _TAG.sub(" ", page)


def translate_page(
    translator: Translator, page: str, options: TranslationOptions, numbers: bool
) -> Translation:
    """Translate a piece of HTML; tags go where their words went. There are no alternatives."""
    job = Job(translator, options.changed({"n_best": 1}), numbers=numbers)
    text = html.translate_page(page, job)
    report = job.report
    found = {finding.what for finding in report.flags}
    return Translation(
        text,
        0.0,
        0.0,
        flags=tuple(flag for flag in Flag if flag in found),
        unmet=tuple(dict.fromkeys(finding.what for finding in report.unmet)),
        error=report.errors[0].what if report.errors else None,
    )


def translate_file(
    translator: Translator,
    content: bytes,
    name: str,
    options: TranslationOptions,
    limit: int,
    folder: Path,
) -> bytes:
    """Translate a file; what is wrong with it is the sender's to know."""
    refuse_bombs(content, limit)
    with TemporaryDirectory(dir=folder) as place:
        source, target = (Path(place, f"{side}{suffix(name)}") for side in ("source", "target"))
        source.write_bytes(content)
        try:
            translate_document(translator, source, target, options)
        except Seq2SeeError as error:
            text = str(error).replace(str(source), name).replace(str(target), name)
            raise Invalid(f"Invalid request: {text}") from None
        return target.read_bytes()


def suffix(name: str) -> str:
    """Return the ending of a name, if it is one of those that can be translated."""
    ending = Path(name).suffix.lower()
    if ending not in suffixes():
        raise Invalid(f"Invalid request: file format not supported; try {', '.join(suffixes())}")
    return ending


def suffixes() -> list[str]:
    """Return the kinds of files that can be translated."""
    return [ending for one in formats() for ending in one.endings]
