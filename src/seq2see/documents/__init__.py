"""Translate documents without changing their structure: HTML, subtitles, PO, Word, TMX, XLIFF."""

from seq2see.documents.html import translate_html_text
from seq2see.documents.markup import IndexRange, TextUnit
from seq2see.documents.placeholders import find_placeholders
from seq2see.documents.plain_text import check_is_text, find_list_marker
from seq2see.documents.protected_translation import translate_protected
from seq2see.documents.translate import (
    UNSUPPORTED_EXTENSIONS,
    DocumentFormat,
    check_document_extension,
    find_document_format,
    supported_formats,
    translate_document,
    translate_html,
    translate_text,
)
from seq2see.documents.unit_translator import (
    DocumentReport,
    DocumentTranslator,
    Issue,
    TranslatedUnit,
    find_sentences,
)

__all__ = [
    "UNSUPPORTED_EXTENSIONS",
    "DocumentFormat",
    "DocumentReport",
    "DocumentTranslator",
    "IndexRange",
    "Issue",
    "TextUnit",
    "TranslatedUnit",
    "check_document_extension",
    "check_is_text",
    "find_document_format",
    "find_list_marker",
    "find_placeholders",
    "find_sentences",
    "supported_formats",
    "translate_document",
    "translate_html",
    "translate_html_text",
    "translate_protected",
    "translate_text",
]
