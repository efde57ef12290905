"""Translates the texts of a request: plain texts and HTML."""

from __future__ import annotations

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
from seq2see.translator import (
    BlockTranslator,
    SourceText,
    TextTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
)


@dataclass(frozen=True, slots=True)
class TextTranslationOptions:
    """How the texts of a request are translated."""

    translation_options: TranslationOptions
    is_html: bool = False
    prefixes: Mapping[int, str] = field(default_factory=dict)
    """Prefixes of the translations of sentences, by their offsets in the text."""

    def build_source(self, text: str) -> SourceText:
        """Return a plain text with its prefixes."""
        return SourceText(text, self.translation_options.prefix, self.prefixes)


def translate_texts(
    translator: BlockTranslator, texts: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate texts in order."""
    if options.is_html:
        return _translate_pages(translator, texts, options.translation_options)
    text_translator = TextTranslator(translator, options.translation_options)
    return text_translator.translate([options.build_source(text) for text in texts])


def _translate_pages(
    translator: BlockTranslator, pages: Sequence[str], options: TranslationOptions
) -> list[Translation]:
    """Translate HTML fragments with their tags, also in each alternative.

    Score and log-probability of the results are 0.
    """
    documents = [parse_html(page) for page in pages]
    unit_translator = TextUnitTranslator(translator, options)
    languages = unit_translator.languages
    units = [unit for document in documents for unit in document.units]
    all_translated = iter(unit_translator.translate_n_best(units))
    results = []
    for document in documents:
        translated = [next(all_translated) for _ in document.units]
        best, *alternatives = (
            _build_page(document, [one[min(rank, len(one) - 1)] for one in translated], languages)
            for rank in range(max(map(len, translated), default=1))
        )
        results.append(replace(best, alternatives=tuple(alternatives)))
    return results


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
