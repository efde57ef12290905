"""Translate documents without changing their structure: HTML, subtitles, PO, Word, TMX, XLIFF."""

from seq2see.documents.file_translation import (
    TranslatedDocument as TranslatedDocument,
    parse_document as parse_document,
    read_document as read_document,
    translate_document as translate_document,
    translate_html as translate_html,
    translate_parsed_document as translate_parsed_document,
)
from seq2see.documents.html import parse_html as parse_html
from seq2see.documents.parsed_document import (
    BilingualDocument as BilingualDocument,
    Document as Document,
    DocumentLanguages as DocumentLanguages,
    DocumentReport as DocumentReport,
    ParsedDocument as ParsedDocument,
    UnitIssue as UnitIssue,
    UnitTranslation as UnitTranslation,
    select_units as select_units,
)
from seq2see.documents.plain_text import check_is_text as check_is_text
from seq2see.documents.unit_translator import TextUnitTranslator as TextUnitTranslator
