"""Translated messages of gettext PO files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from seq2see.data.formats.opened_corpus import CorpusRequest, OpenedCorpus
from seq2see.data.readers import (
    READ_BYTES,
    SentencePair,
    SkippedUnitCallback,
    open_decompressed_binary,
    read_lines,
)
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language, primary_language
from seq2see.text.po_entries import (
    PoEntry,
    find_po_charset,
    parse_po_entries,
    strip_menu_accelerator,
)

_DEFAULT_SOURCE = "en"


def open_po(request: CorpusRequest) -> OpenedCorpus:
    """Open a PO file.

    The header names the target language. The source language is that of `X-Source-Language`, or
    else English, as gettext recommends. The sides are exchanged if `--languages` names them in the
    other order.
    """
    with open_decompressed_binary(request.path) as file:
        encoding = find_po_charset(file.read(READ_BYTES))
    try:
        b"".decode(encoding)
    except LookupError:
        raise InputError(f"{request.path} must be UTF-8, but declares {encoding}") from None
    entries = partial(_read_entries, request.path, encoding)
    header = next((entry for entry in entries() if entry.is_header), None)
    lines = ((header.get_text("msgstr") if header else None) or "").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    target = primary_language(fields.get("Language")) or None
    named_source = primary_language(fields.get("X-Source-Language"))
    source = named_source or _DEFAULT_SOURCE
    languages = request.languages
    is_reversed = (
        languages is not None
        and request.is_bilingual
        and target is not None
        and is_same_language(languages[0], target)
    )

    def read(on_skipped: SkippedUnitCallback) -> Iterator[SentencePair]:
        pairs = _read_pairs(entries(), request.path, on_skipped)
        return (SentencePair(*reversed(pair)) for pair in pairs) if is_reversed else pairs

    note = "" if named_source or languages or not target else "the messages are taken for English"
    notes = (f"{request.name}: {note}",) if note else ()
    if not target:
        return OpenedCorpus(read)
    return OpenedCorpus(read, (target, source) if is_reversed else (source, target), notes)


def _read_entries(path: str, encoding: str) -> Iterator[PoEntry]:
    return parse_po_entries(read_lines(path, encoding=encoding), path)


def _read_pairs(
    entries: Iterator[PoEntry], path: str, on_skipped: SkippedUnitCallback
) -> Iterator[SentencePair]:
    """Yield the messages with a translation that is not fuzzy, without menu accelerators.

    A message with a plural gives a pair per plural form: the first with the singular.
    """
    num_pairs, number = 0, 0
    for number, entry in enumerate((each for each in entries if each.is_message), 1):
        if entry.is_fuzzy or not entry.has_translation:
            on_skipped(number)
            continue
        singular = entry.get_text("msgid") or ""
        plural = entry.get_text("msgid_plural")
        for form, translation in enumerate(entry.translations):
            if translation.text:
                message = plural if plural is not None and form > 0 else singular
                num_pairs += 1
                yield SentencePair(_strip(message), _strip(translation.text))
    if not num_pairs:
        actual = f"{number} without one" if number else "none"
        raise InputError(f"{path} must have messages with translations, but has {actual}")


def _strip(text: str) -> str:
    return strip_menu_accelerator(text)[0]
