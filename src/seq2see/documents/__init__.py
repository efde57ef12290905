"""Translate documents without changing their structure: HTML, subtitles, PO, Word, TMX, XLIFF."""

from seq2see.documents.file_translation import (
    UNSUPPORTED_EXTENSIONS,
    DocumentFormat,
    check_not_unsupported_document,
    find_document_format,
    supported_formats,
    translate_document,
    translate_html,
    translate_parsed_document,
    translate_text,
)
from seq2see.documents.html_translation import parse_html
from seq2see.documents.markup import IndexRange, TextUnit, extract_list_marker
from seq2see.documents.parsed_document import (
    BilingualDocument,
    Document,
    DocumentLanguages,
    DocumentReport,
    ParsedDocument,
    UnitIssue,
    UnitTranslation,
    select_units,
)
from seq2see.documents.placeholder_removal_and_insertion import (
    find_placeholders,
    find_sentences,
)
from seq2see.documents.plain_text_translation import check_is_text
from seq2see.documents.protected_translation import translate_protected
from seq2see.documents.unit_translator import TextUnitTranslator

__all__ = [
    "UNSUPPORTED_EXTENSIONS",
    "BilingualDocument",
    "Document",
    "DocumentFormat",
    "DocumentLanguages",
    "DocumentReport",
    "IndexRange",
    "ParsedDocument",
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
    "parse_html",
    "select_units",
    "supported_formats",
    "translate_document",
    "translate_html",
    "translate_parsed_document",
    "translate_protected",
    "translate_text",
]
