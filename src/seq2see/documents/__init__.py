"""Documents in and out through a translator, their structure kept."""

from seq2see.documents.documents import translate_document, translate_html, translate_text
from seq2see.documents.formats import Format, formats
from seq2see.documents.placeholders import translate_protected
from seq2see.documents.report import DocumentReport, Finding

__all__ = [
    "DocumentReport",
    "Finding",
    "Format",
    "formats",
    "translate_document",
    "translate_html",
    "translate_protected",
    "translate_text",
]
