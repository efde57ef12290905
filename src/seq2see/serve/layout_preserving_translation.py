"""Translates plain texts and HTML: finds translatable spans, translates them, joins the results.

Each line is translated separately: in texts that users send, a line break usually ends a sentence,
and a list must stay a list. White space, list markers and sentences without a letter are copied.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seq2see.documents import (
    DocumentLanguages,
    DocumentReport,
    IndexRange,
    ParsedDocument,
    TextUnitTranslator,
    UnitTranslation,
    extract_list_marker,
    find_placeholders,
    find_sentences,
    parse_html,
    translate_protected,
)
from seq2see.text import TextSpan
from seq2see.translator import (
    Translation,
    TranslationFlag,
    TranslationOptions,
    Translator,
    join_translations,
)

_LINE = re.compile(r"[^\r\n\u2028\u2029]+")
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextTranslationOptions:
    """How the texts of a request are translated."""

    translation_options: TranslationOptions
    is_html: bool = False
    keep_numbers: bool = False
    """Whether numbers are protected like placeholders."""


def translate_texts(
    translator: Translator, texts: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate texts in order."""
    if options.is_html:
        return _translate_pages(translator, texts, options)
    spans = [find_translatable_spans(text, translator.languages[0]) for text in texts]
    lines = [span.text for spans_of_text in spans for span in spans_of_text]
    translations = iter(_translate_lines(translator, lines, options))
    return [
        join_translations(text, spans_of_text, [next(translations) for _ in spans_of_text])
        for text, spans_of_text in zip(texts, spans, strict=True)
    ]


def _translate_lines(
    translator: Translator, lines: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate lines; lines with placeholders go through a slower method that protects them."""
    has_placeholder = [
        bool(find_placeholders(line, include_numbers=options.keep_numbers)) for line in lines
    ]
    marked = list(zip(lines, has_placeholder, strict=True))
    plain_lines = [line for line, is_protected in marked if not is_protected]
    protected_lines = [line for line, is_protected in marked if is_protected]
    plain = iter(
        translator.translate(plain_lines, options.translation_options) if plain_lines else []
    )
    protected = iter(_translate_protected(translator, protected_lines, options))
    return [next(protected if is_protected else plain) for is_protected in has_placeholder]


def _translate_protected(
    translator: Translator, lines: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    if not lines:
        return []
    return translate_protected(
        translator, lines, options.translation_options, keep_numbers=options.keep_numbers
    )


def find_translatable_spans(text: str, language: str) -> list[TextSpan]:
    """Return the parts of a text to translate: no list markers, no sentences without a letter."""
    spans = []
    for match in _LINE.finditer(text, len(_BOM) if text.startswith(_BOM) else 0):
        marker = extract_list_marker(match[0])
        line = match[0][len(marker) :]
        offset = match.start() + len(marker)
        spans += [
            TextSpan(line[start:end], offset + start)
            for start, end in _merge_adjacent_sentences(line, language)
        ]
    return spans


def _merge_adjacent_sentences(line: str, language: str) -> list[IndexRange]:
    """Return the sentences of a line that have a letter; neighbors are merged into one range."""
    ranges: list[IndexRange] = []
    for sentence in find_sentences(line, language):
        if ranges and not line[ranges[-1].end : sentence.start].strip():
            ranges[-1] = IndexRange(ranges[-1].start, sentence.end)
        else:
            ranges.append(sentence)
    return ranges


def _translate_pages(
    translator: Translator, pages: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate HTML fragments with their tags, also in each alternative.

    Score and log-probability of the results are 0.
    """
    documents = [parse_html(page) for page in pages]
    unit_translator = TextUnitTranslator(
        translator, options.translation_options, keep_numbers=options.keep_numbers
    )
    languages = unit_translator.languages
    units = [unit for document in documents for unit in document.units]
    translated = iter(unit_translator.translate_n_best(units))
    return [
        _render_with_alternatives(document, [next(translated) for _ in document.units], languages)
        for document in documents
    ]


def _render_with_alternatives(
    document: ParsedDocument[str],
    translations: Sequence[Sequence[UnitTranslation]],
    languages: DocumentLanguages,
) -> Translation:
    """Return the best translation of a page; its units have translations of several ranks."""
    num_ranks = max(map(len, translations), default=1)
    best, *alternatives = (
        _build_page(document, [one[min(rank, len(one) - 1)] for one in translations], languages)
        for rank in range(num_ranks)
    )
    return replace(best, alternatives=tuple(alternatives))


def _build_page(
    document: ParsedDocument[str],
    translations: Sequence[UnitTranslation],
    languages: DocumentLanguages,
) -> Translation:
    """Return the translation of a page of one rank."""
    report = DocumentReport.from_translations(document, translations)
    messages = {issue.message for issue in report.flags}
    return Translation(
        document.render(translations, languages),
        0.0,
        0.0,
        flags=tuple(flag for flag in TranslationFlag if flag in messages),
        unmet_constraints=tuple(dict.fromkeys(issue.message for issue in report.unmet_constraints)),
        error=report.errors[0].message if report.errors else None,
    )
