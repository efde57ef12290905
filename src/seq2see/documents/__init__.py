"""Documents in and out through a translator, their structure kept."""

from seq2see.documents.document_translator import DocumentReport, Finding
from seq2see.documents.protected_translation import translate_protected
from seq2see.documents.translate import (
    Format,
    formats,
    translate_document,
    translate_html,
    translate_text,
)

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
