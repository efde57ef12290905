"""Messages of gettext PO files, which are training data or documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from seq2see.errors import InputError

_CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w:.-]+)', re.MULTILINE)
_FIELD = re.compile(
    r"\s*(?P<obsolete>#~\s*)?(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<index>\d+)\])?)\s*"
    r'(?P<string>".*")\s*'
)
_CONTINUATION = re.compile(r'\s*(?:#~\s*)?(".*")\s*')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE_SEQUENCE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|(.))")
PO_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class PoField:
    """A keyword with its string, on the lines from `start` up to, but not including, `end`."""

    key: str
    start: int
    end: int
    line_texts: list[str]
    """Part of the string on each line."""

    @property
    def text(self) -> str:
        """The complete string."""
        return "".join(self.line_texts)


@dataclass(slots=True)
class PoEntry:
    """A message of a PO file."""

    start: int
    fields: list[PoField] = field(default_factory=list)
    flags_line: int | None = None
    """Number of the line with the flags, or None if there is none."""
    flags: list[str] = field(default_factory=list)
    is_obsolete: bool = False

    def get_text(self, key: str) -> str | None:
        """Return the string of a keyword, or None if the message does not have it."""
        return next((one.text for one in self.fields if one.key == key), None)

    @property
    def translations(self) -> list[PoField]:
        """The translations: one, or one per plural form."""
        return [one for one in self.fields if one.key.startswith("msgstr")]

    @property
    def is_message(self) -> bool:
        """Return whether this is a message that programs use, not the header or an old message."""
        return bool(self.translations) and not self.is_header and not self.is_obsolete

    @property
    def has_translation(self) -> bool:
        """Return whether a translation is not empty."""
        return any(one.text for one in self.translations)

    @property
    def is_fuzzy(self) -> bool:
        """Return whether the translation must be reviewed."""
        return "fuzzy" in self.flags

    @property
    def is_header(self) -> bool:
        """Return whether this is the header of the file, the message with an empty msgid."""
        has_context = self.get_text("msgctxt") is not None
        return self.get_text("msgid") == "" and not has_context and not self.is_obsolete


def parse_po_entries(lines: Iterable[str], file_name: str) -> Iterator[PoEntry]:
    """Yield the messages of a file; raise InputError for a line that is not PO syntax."""
    entry = PoEntry(0)
    for number, line in enumerate(lines):
        match = _FIELD.fullmatch(line)
        if _starts_next_entry(entry, line, match):
            yield entry
            entry = PoEntry(number)
        if match:
            text = _parse_string(match["string"], file_name, number)
            entry.fields.append(PoField(match["key"], number, number + 1, [text]))
            entry.is_obsolete = bool(match["obsolete"])
        elif (continuation := _CONTINUATION.fullmatch(line)) and entry.fields:
            entry.fields[-1].line_texts.append(_parse_string(continuation[1], file_name, number))
            entry.fields[-1].end = number + 1
        elif line.startswith("#,"):
            entry.flags_line = number
            entry.flags = [flag.strip() for flag in line[2:].split(",")]
        elif line.strip() and not line.lstrip().startswith("#"):
            raise _syntax_error(file_name, number)
    if entry.fields:
        yield entry


def _starts_next_entry(entry: PoEntry, line: str, match: re.Match[str] | None) -> bool:
    if not entry.fields or not entry.fields[-1].key.startswith("msgstr"):
        return False
    if match:
        return not match["key"].startswith("msgstr")
    return line.startswith("#") and not _CONTINUATION.fullmatch(line)


def _parse_string(string: str, file_name: str, number: int) -> str:
    match = _STRING.fullmatch(string)
    if not match:
        raise _syntax_error(file_name, number)
    return _ESCAPE_SEQUENCE.sub(_unescape, match[1])


def _unescape(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if letter is None:
        return chr(int(octal, 8) if octal else int(hexadecimal, 16))
    return PO_ESCAPES.get(letter, letter)


def _syntax_error(file_name: str, number: int) -> InputError:
    return InputError(f"{file_name}, line {number + 1} must be a line of a PO file, but is none")


_ACCELERATOR_SIGNS = frozenset("_&")
_MARKUP_CHARACTERS = frozenset("<>{}%$\n")
_WORD = re.compile(r"[^\W\d_][^\W_]*")


def strip_menu_accelerator(text: str) -> tuple[str, str]:
    """Return a menu label without its accelerator, and the accelerator: a sign and a letter.

    The accelerator of `_File` is `_F`, that of `Sa&ve` is `&v`. It is empty if there is none, as in
    `my_name`, `AT&T` and `&amp;`, and in strings with markup, where a sign may mean something else.
    """
    offsets = [offset for offset, character in enumerate(text) if character in _ACCELERATOR_SIGNS]
    if len(offsets) != 1 or _MARKUP_CHARACTERS & set(text):
        return text, ""
    (offset,) = offsets
    word = _WORD.match(text, offset + 1)
    if not word or text[word.end() : word.end() + 1] == ";":
        return text, ""
    start = offset
    while start and text[start - 1].isalnum():
        start -= 1
    if start < offset and not (text[start].isupper() and word[0][0].islower()):
        return text, ""
    return text[:offset] + text[offset + 1 :], text[offset : offset + 2]


def find_po_charset(data: bytes) -> str:
    """Return the character set that the header names, by default UTF-8."""
    match = _CHARSET.search(data)
    label = match[1].decode("ascii") if match else "utf-8"
    return "utf-8" if label == "CHARSET" else label
