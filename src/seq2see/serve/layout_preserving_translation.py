"""Translates plain texts and HTML: finds translatable spans, translates them, joins the results.

Each line is translated separately: in texts that users send, a line break usually ends a sentence,
and a list must stay a list. White space, list markers and sentences without a letter are copied.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from seq2see.documents import html_translation, translate_protected
from seq2see.documents.markup import IndexRange
from seq2see.documents.placeholder_removal_and_insertion import find_placeholders
from seq2see.documents.plain_text_translation import extract_list_marker
from seq2see.documents.unit_translator import TextUnitTranslator, find_sentences
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
        return [
            translate_html_with_alternatives(
                translator, text, options.translation_options, options.keep_numbers
            )
            for text in texts
        ]
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


class _RankTranslator:
    """A translator that returns the translation of a chosen rank of another translator.

    Each line is translated once and its translations of all ranks are cached.
    """

    def __init__(self, inner: Translator) -> None:
        self._inner = inner
        self._cache: dict[tuple[str, str], Translation] = {}
        self.rank = 0

    @property
    def languages(self) -> tuple[str, str]:
        return self._inner.languages

    @property
    def max_alternatives(self) -> int:
        """Largest number of alternatives of a line."""
        return max((len(each.alternatives) for each in self._cache.values()), default=0)

    def translate(
        self, lines: Sequence[str], options: TranslationOptions, **settings: Any
    ) -> list[Translation]:
        options = options.with_settings(settings)
        options_key = options.model_dump_json()
        new = [line for line in dict.fromkeys(lines) if (options_key, line) not in self._cache]
        if new:
            keys = [(options_key, line) for line in new]
            self._cache.update(zip(keys, self._inner.translate(new, options), strict=True))
        return [self._select(self._cache[options_key, line]) for line in lines]

    def _select(self, translation: Translation) -> Translation:
        ranked = (replace(translation, alternatives=()), *translation.alternatives)
        return ranked[min(self.rank, len(ranked) - 1)]


def translate_html_with_alternatives(
    translator: Translator, page: str, options: TranslationOptions, keep_numbers: bool
) -> Translation:
    """Translate an HTML fragment with its tags, also in each alternative.

    Score and log-probability of the result are 0.
    """
    ranked = _RankTranslator(translator)
    best = _translate_page(ranked, page, options, keep_numbers)
    alternatives = []
    for rank in range(1, ranked.max_alternatives + 1):
        ranked.rank = rank
        alternatives.append(_translate_page(ranked, page, options, keep_numbers))
    return replace(best, alternatives=tuple(alternatives))


def _translate_page(
    translator: _RankTranslator, page: str, options: TranslationOptions, keep_numbers: bool
) -> Translation:
    document_translator = TextUnitTranslator(
        cast("Translator", translator), options, keep_numbers=keep_numbers
    )
    text = html_translation.translate_html_text(page, document_translator)
    report = document_translator.report
    messages = {issue.message for issue in report.flags}
    return Translation(
        text,
        0.0,
        0.0,
        flags=tuple(flag for flag in TranslationFlag if flag in messages),
        unmet_constraints=tuple(dict.fromkeys(issue.message for issue in report.unmet_constraints)),
        error=report.errors[0].message if report.errors else None,
    )
