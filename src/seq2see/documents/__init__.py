"""Translate documents without changing their structure: HTML, subtitles, PO, Word, TMX, XLIFF."""

from seq2see.documents.file_translation import (
    TranslatedDocument,
    parse_document,
    read_document,
    translate_document,
    translate_html,
    translate_parsed_document,
    translate_text,
)
from seq2see.documents.html import parse_html
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
from seq2see.documents.plain_text import check_is_text
from seq2see.documents.unit_translator import TextUnitTranslator

__all__ = [
    "BilingualDocument",
    "Document",
    "DocumentLanguages",
    "DocumentReport",
    "ParsedDocument",
    "TextUnitTranslator",
    "TranslatedDocument",
    "UnitIssue",
    "UnitTranslation",
    "check_is_text",
    "parse_document",
    "parse_html",
    "read_document",
    "select_units",
    "translate_document",
    "translate_html",
    "translate_parsed_document",
    "translate_text",
]
