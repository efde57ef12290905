"""Texts through a translator, the whole way: lines, sentences, placeholders, HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.documents import translate_protected
from seq2see.documents.guards import find
from seq2see.serve.files import translate_page
from seq2see.serve.paragraphs import cut, joined
from seq2see.translator import Translation, TranslationOptions, Translator


@dataclass(frozen=True, slots=True)
class Manner:
    """How texts are translated."""

    options: TranslationOptions
    html: bool = False
    numbers: bool = False
    """Numbers stay as they are, like placeholders."""


def translate_texts(
    translator: Translator, texts: Sequence[str], manner: Manner
) -> list[Translation]:
    """Translate texts in their order."""
    if manner.html:
        return [translate_page(translator, text, manner.options, manner.numbers) for text in texts]
    cuts = [cut(text, translator.languages[0]) for text in texts]
    parts = iter(_lines(translator, [line.text for lines in cuts for line in lines], manner))
    return [
        joined(text, lines, [next(parts) for _ in lines])
        for text, lines in zip(texts, cuts, strict=True)
    ]


def _lines(translator: Translator, lines: Sequence[str], manner: Manner) -> list[Translation]:
    """Translate lines; those with placeholders so that these survive, which takes longer."""
    marked = [bool(find(line, numbers=manner.numbers)) for line in lines]
    plain = [line for line, mark in zip(lines, marked, strict=True) if not mark]
    rest = [line for line, mark in zip(lines, marked, strict=True) if mark]
    found = iter(translator.translate(plain, manner.options) if plain else [])
    kept = iter(_kept(translator, rest, manner) if rest else [])
    return [next(kept if mark else found) for mark in marked]


def _kept(translator: Translator, lines: Sequence[str], manner: Manner) -> list[Translation]:
    return translate_protected(translator, lines, manner.options, numbers=manner.numbers)
