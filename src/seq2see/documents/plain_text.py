"""Plain text files: decode, translate line by line, and encode."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.documents.parsed_document import DocumentLanguages, ParsedDocument, UnitTranslation
from seq2see.errors import InputError
from seq2see.markup.text_units import TextUnit
from seq2see.registries import SUPPORTED_FORMATS_MESSAGE

_UTF16_32_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""The mark of little-endian UTF-32 begins with that of UTF-16."""
_SUPPORTED_ENCODINGS = re.compile(
    r"utf-8|cp125\d|cp874|cp866|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|gbk|gb2312|gb18030"
    r"|big5|euc_jp|iso2022_jp|shift_jis|euc_kr"
)
"""Encodings that browsers support, by Python's names. Some others that Python supports can hide
tags."""
_LINE_END = re.compile(r"(\r\n|\n|\r)")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of a file, with its encoding."""

    text: str
    file_name: str
    """Used in error messages."""
    encoding: str = "utf-8"
    has_bom: bool = False

    @classmethod
    def from_bytes(cls, data: bytes, file_name: str, encoding: str = "utf-8") -> DecodedText:
        """Decode the content of a file; raise InputError if it is not in this encoding."""
        check_is_text(data, file_name)
        has_bom = data.startswith(codecs.BOM_UTF8)
        body = data.removeprefix(codecs.BOM_UTF8)
        encoding = "utf-8" if has_bom else _find_encoding(encoding, file_name)
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{file_name}, line {line} must be {encoding.upper()}, but has the byte "
                f"0x{data[error.start]:02x}: convert the file, for example with "
                "`iconv -f WINDOWS-1252 -t UTF-8`"
            ) from None
        return cls(text, file_name, encoding, has_bom)

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Encode another text in the same way; raise InputError if that is not possible."""
        bom = codecs.BOM_UTF8 if self.has_bom else b""
        try:
            return bom + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.file_name} must be UTF-8, because its translation contains "
                f"{text[error.start]!r}, but is {self.encoding.upper()}: convert it first"
            ) from None

    def encode_rendered(
        self, document: ParsedDocument[str], errors: str = "strict"
    ) -> ParsedDocument[bytes]:
        """Return a document whose rendered text is encoded in the same way."""
        return ParsedDocument(
            document.units, lambda *arguments: self.encode(document.render(*arguments), errors)
        )


def check_is_text(data: bytes, file_name: str) -> None:
    """Raise InputError if the content of a file, or its beginning, is UTF-16 or binary."""
    if data.startswith(_UTF16_32_BOMS):
        raise InputError(
            f"{file_name} must be UTF-8, but is UTF-16 or UTF-32: convert it, for example with "
            "`iconv -f UTF-16 -t UTF-8`"
        )
    check_no_zero_bytes(data, file_name)


def check_no_zero_bytes(data: bytes, file_name: str) -> None:
    """Raise InputError if a part of a file has zero bytes, which text does not have."""
    if b"\0" in data:
        raise InputError(
            f"{file_name} must be text in UTF-8, but has zero bytes: "
            f"{SUPPORTED_FORMATS_MESSAGE}; convert it, with iconv if it is UTF-16"
        )


def _find_encoding(label: str, file_name: str) -> str:
    """Return Python's name of an encoding."""
    try:
        encoding = codecs.lookup(label).name
    except LookupError:
        encoding = ""
    if not _SUPPORTED_ENCODINGS.fullmatch(encoding):
        raise InputError(f"{file_name} must be UTF-8, but declares {label}: convert it")
    return encoding


def parse(data: bytes, file_name: str) -> ParsedDocument[bytes]:
    """Parse a text file."""
    decoded = DecodedText.from_bytes(data, file_name)
    return decoded.encode_rendered(parse_plain_text(decoded.text))


def parse_plain_text(text: str) -> ParsedDocument[str]:
    """Parse a text; each line is a unit. Line ends are copied."""
    parts = _LINE_END.split(text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    units = [TextUnit(line, (), f"line {number}") for number, line in enumerate(lines, 1)]

    def render(translations: Sequence[UnitTranslation], _: DocumentLanguages) -> str:
        rows = zip(translations, ends, strict=True)
        return "".join(translation.text + end for translation, end in rows)

    return ParsedDocument(units, render)
