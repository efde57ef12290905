"""Plain text files: decode, translate line by line, and encode."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from seq2see.documents.document_translator import DocumentTranslator
from seq2see.errors import InputError

_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


_KNOWN = re.compile(
    r"utf-8|cp125\d|cp874|cp866|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|gbk|gb2312|gb18030"
    r"|big5|euc_jp|iso2022_jp|shift_jis|euc_kr"
)
"""What browsers know, by Python's names. Python knows more, some of which can hide a tag."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text, and how it was written."""

    text: str
    file_name: str
    """Of the file, for messages."""
    encoding: str = "utf-8"
    has_bom: bool = False

    @classmethod
    def from_bytes(cls, data: bytes, file_name: str, encoding: str = "utf-8") -> DecodedText:
        """Decode a file; what is not in its encoding is refused."""
        check_is_text(data, file_name)
        has_bom = data.startswith(codecs.BOM_UTF8)
        body = data.removeprefix(codecs.BOM_UTF8)
        encoding = "utf-8" if has_bom else _known(encoding, file_name)
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            raise InputError(_refusal(data, file_name, encoding, error.start)) from None
        return cls(text, file_name, encoding, has_bom)

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Return another text, written in the same way."""
        mark = codecs.BOM_UTF8 if self.has_bom else b""
        try:
            return mark + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.file_name} must be UTF-8 for this translation, which has "
                f"{text[error.start]!r}, but is {self.encoding.upper()}: convert it first"
            ) from None


def check_is_text(data: bytes, file_name: str) -> None:
    """Raise an error if a file, or its beginning, cannot be read byte by byte."""
    if data.startswith(_WIDE):
        what = "but is UTF-16 or UTF-32: convert it, with `iconv -f UTF-16 -t UTF-8` for example"
        raise InputError(f"{file_name} must be UTF-8, {what}")
    if b"\0" in data:
        what = "but has zero bytes: is it another format, or UTF-16, which iconv converts?"
        raise InputError(f"{file_name} must be a text in UTF-8, {what}")


def _known(label: str, name: str) -> str:
    try:
        encoding = codecs.lookup(label).name
    except LookupError:
        encoding = ""
    if not _KNOWN.fullmatch(encoding):
        raise InputError(f"{name} must be UTF-8, but says that it is {label}: convert it")
    return encoding


def _refusal(data: bytes, name: str, encoding: str, place: int) -> str:
    line = data.count(b"\n", 0, place) + 1
    return (
        f"{name}, line {line} must be {encoding.upper()}, but has the byte 0x{data[place]:02x}: "
        f"convert it, with `iconv -f WINDOWS-1252 -t UTF-8` for example"
    )


_LINE_END = re.compile(r"(\r\n|\n|\r)")


_BULLET = re.compile(r"\s*(?:[-*+•–—‣◦]|#{1,6}|>|\(?(?:\d{1,3}|[a-z])[.)])\s+")
"""What stands before the words of an item in a list."""


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate a text file."""
    decoded = DecodedText.from_bytes(data, file_name)
    return decoded.encode(translate_plain_text(decoded.text, translator))


def translate_plain_text(text: str, translator: DocumentTranslator) -> str:
    """Translate the lines of a text; their ends, indents and bullets stay."""
    parts = _LINE_END.split(text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    bullets = [find_list_marker(line) for line in lines]
    words = [line[len(start) :] for line, start in zip(lines, bullets, strict=True)]
    places = [f"line {number}" for number in range(1, len(lines) + 1)]
    rows = zip(bullets, translator.translate_texts(words, places), ends, strict=True)
    return "".join(part for row in rows for part in row)


def find_list_marker(line: str) -> str:
    """Return what stands before the words of a line, if it is an item of a list."""
    match = _BULLET.match(line)
    return match[0] if match else ""
