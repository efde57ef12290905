"""Translate documents without changing their structure: HTML, subtitles, PO, Word, TMX, XLIFF."""

from seq2see.documents.file_translation import (
    UNSUPPORTED_EXTENSIONS,
    DocumentFormat,
    check_not_unsupported_document,
    find_document_format,
    supported_formats,
    translate_document,
    translate_html,
    translate_text,
)
from seq2see.documents.html_translation import translate_html_text
from seq2see.documents.markup import IndexRange, TextUnit
from seq2see.documents.placeholder_removal_and_insertion import find_placeholders
from seq2see.documents.plain_text_translation import check_is_text, extract_list_marker
from seq2see.documents.protected_translation import translate_protected
from seq2see.documents.unit_translator import (
    DocumentReport,
    TextUnitTranslator,
    UnitIssue,
    UnitTranslation,
    find_sentences,
)

__all__ = [
    "UNSUPPORTED_EXTENSIONS",
    "DocumentFormat",
    "DocumentReport",
    "IndexRange",
    "TextUnit",
    "TextUnitTranslator",
    "UnitIssue",
    "UnitTranslation",
    "check_is_text",
    "check_not_unsupported_document",
    "extract_list_marker",
    "find_document_format",
    "find_placeholders",
    "find_sentences",
    "supported_formats",
    "translate_document",
    "translate_html",
    "translate_html_text",
    "translate_protected",
    "translate_text",
]
