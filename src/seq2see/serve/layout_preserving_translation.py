"""Translates plain texts and HTML: finds sentences, translates them, joins the results.

No sentence extends over several lines: in texts that users send, a line break usually ends a
sentence, and a list must stay a list. White space, list markers and sentences without a letter are
copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from seq2see.documents import (
    DocumentLanguages,
    DocumentReport,
    ParsedDocument,
    TextUnitTranslator,
    UnitTranslation,
    parse_html,
)
from seq2see.text import TextSpan
from seq2see.text.languages import find_sentence_separator
from seq2see.translator import (
    LineTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
    join_translations,
)
from seq2see.translator.placeholders import find_placeholders
from seq2see.translator.protected_translation import translate_protected
from seq2see.translator.text_layout import extract_list_marker, find_sentences

_LINE = re.compile(r"[^\r\n\u2028\u2029]+")
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextTranslationOptions:
    """How the texts of a request are translated."""

    translation_options: TranslationOptions
    is_html: bool = False
    keep_numbers: bool = False
    """Whether numbers are protected like placeholders."""
    prefixes: Mapping[int, str] = field(default_factory=dict)
    """Prefixes of the translations of sentences, by their indices in the text."""

    def find_prefix(self, index: int) -> str:
        """Return the prefix of a sentence of a plain text; that of the text is for its first."""
        return self.prefixes.get(index, "" if index else self.translation_options.prefix)


def translate_texts(
    translator: LineTranslator, texts: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate texts in order."""
    if options.is_html:
        return _translate_pages(translator, texts, options)
    sentences = [find_sentence_spans(text, translator.languages[0]) for text in texts]
    with_prefixes = [
        (sentence.text, options.find_prefix(index))
        for some in sentences
        for index, sentence in enumerate(some)
    ]
    remaining = iter(translate_sentences(translator, with_prefixes, options))
    return [
        join_sentences(translator, text, some, [next(remaining) for _ in some])
        for text, some in zip(texts, sentences, strict=True)
    ]


def translate_sentences(
    translator: LineTranslator,
    sentences: Sequence[tuple[str, str]],
    options: TextTranslationOptions,
) -> list[Translation]:
    """Translate pairs of a sentence and its prefix.

    Sentences with placeholders go through a slower method that protects them.
    """
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, (sentence, prefix) in enumerate(sentences):
        is_protected = bool(find_placeholders(sentence, include_numbers=options.keep_numbers))
        groups.setdefault((prefix, is_protected), []).append(index)
    results: dict[int, Translation] = {}
    for (prefix, is_protected), indices in groups.items():
        lines = [sentences[index][0] for index in indices]
        own = options.translation_options.model_copy(update={"prefix": prefix})
        if is_protected:
            keep_numbers = options.keep_numbers
            translations = translate_protected(translator, lines, own, keep_numbers=keep_numbers)
        else:
            translations = translator.translate(lines, own)
        results.update(zip(indices, translations, strict=True))
    return [results[index] for index in range(len(sentences))]


def join_sentences(
    translator: LineTranslator,
    text: str,
    sentences: Sequence[TextSpan],
    translations: Sequence[Translation],
) -> Translation:
    """Return the translation of a text from those of its sentences."""
    separator = find_sentence_separator(*translator.languages)
    return join_translations(text, sentences, translations, separator=separator)


def find_sentence_spans(text: str, language: str) -> list[TextSpan]:
    """Return the sentences to translate: those with a letter, without list markers."""
    spans = []
    for match in _LINE.finditer(text, len(_BOM) if text.startswith(_BOM) else 0):
        marker = extract_list_marker(match[0])
        line = match[0][len(marker) :]
        offset = match.start() + len(marker)
        spans += [
            TextSpan(line[start:end], offset + start)
            for start, end in find_sentences(line, language)
        ]
    return spans


def _translate_pages(
    translator: LineTranslator, pages: Sequence[str], options: TextTranslationOptions
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
