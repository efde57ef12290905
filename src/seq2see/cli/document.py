"""A document, translated with its structure kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seq2see.cli.journal import sentence_bar
from seq2see.data.corpora import PACKED
from seq2see.data.readers import STANDARD_INPUT
from seq2see.documents import DocumentReport, formats, translate_document
from seq2see.documents.formats import UNREADABLE

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

PLAIN = "txt"
"""The one that is translated line by line instead."""


def is_document(file: str) -> bool:
    """Tell by its ending whether a file has words between other things."""
    return _format(Path(file)) not in {None, PLAIN}


def is_packed(file: str) -> bool:
    """Tell by its ending whether a file is packed."""
    return Path(file).suffix.lower() in PACKED


def misnamed(file: str, output: Path) -> str | None:
    """Say what is wrong if the translation of a file would not be what its name says."""
    if is_packed(str(output)):
        return f"`--output` must be a plain file, but is {output} instead: pack it afterwards"
    own, named = _format(Path(file)) or PLAIN, _format(output)
    if named == own or (named is None and output.suffix.lower() not in UNREADABLE):
        return None
    name = "standard input" if file == STANDARD_INPUT else file
    kind = "plain text" if own == PLAIN else own
    return f"`--output` must be {kind} as {name} is, but is {output} instead"


def _format(path: Path) -> str | None:
    ending = path.suffix.lower()
    return next((each.name for each in formats() if ending in each.endings), None)


def translate_file(
    translator: Translator, file: str, output: Path, options: TranslationOptions
) -> bool:
    """Translate a document, say what should be looked at, and return whether all was done."""
    with sentence_bar() as told:
        report = translate_document(translator, Path(file), output, options, told)
    for line in _remarks(report):
        typer.echo(f"seq2see: {line}", err=True)
    return not report.errors


def _remarks(report: DocumentReport) -> Iterator[str]:
    kept = f"; {report.kept:,} had a translation already" if report.kept else ""
    yield f"passages: {report.units:,}, sentences: {report.sentences:,}{kept}"
    for finding in report.errors:
        yield f"{finding.place} has no translation: {finding.what}"
    for finding in report.unmet:
        yield f"{finding.place} does not fulfil {finding.what!r}"
    for finding in report.flags:
        yield f"{finding.place} may be wrong: {finding.what}"
