"""Translate gettext PO files.

Messages without a translation get one with the flag `fuzzy`: msgfmt ignores such messages until a
person has reviewed them and removed the flag. All other lines are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from seq2see.documents.parsed_document import (
    BilingualDocument,
    BilingualUnit,
    DocumentLanguages,
    UnitTranslation,
)
from seq2see.documents.plain_text import DecodedText
from seq2see.errors import InputError
from seq2see.markup.text_units import TextUnit, parse_markup_nodes, render_markup_nodes
from seq2see.text.languages import normalize_language_code, primary_language

_CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w:.-]+)', re.MULTILINE)
_NUM_PLURALS = re.compile(r"nplurals\s*=\s*(\d{1,3})")
_MAX_PLURALS = 6


def parse(data: bytes, file_name: str) -> BilingualDocument:
    """Parse a file; each line of a message is a unit."""
    decoded = DecodedText.from_bytes(data, file_name, _find_charset(data))
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    lines = decoded.text.replace("\r\n", "\n").split("\n")
    entries = list(parse_po_entries(lines, file_name))
    if not entries and decoded.text.strip():
        raise InputError(f"{file_name} must be a PO file, but has no message")
    header = next((entry for entry in entries if entry.is_header), None)
    output = [[line] for line in lines]
    """The lines that replace each line."""

    def read_units(languages: DocumentLanguages) -> list[BilingualUnit]:
        _, num_plurals = _update_header(header, languages.target)
        return [build_unit(entry, num_plurals) for entry in entries if entry.is_message]

    def build_unit(entry: PoEntry, num_plurals: int) -> BilingualUnit:
        strings = _find_strings(entry)

        def write(translations: Sequence[UnitTranslation]) -> None:
            remaining = iter(translations)
            texts = [string.render([next(remaining) for _ in string.units]) for string in strings]
            _replace_translations(entry, _fill_plural_forms(texts, num_plurals), output)
            _mark_fuzzy(entry, output)

        units = [unit for string in strings for unit in string.units]
        return BilingualUnit(units, entry.has_translation, write)

    def render(languages: DocumentLanguages) -> bytes:
        if header:
            header_text, _ = _update_header(header, languages.target)
            _replace_translations(header, [header_text], output)
        return decoded.encode(line_end.join(chain.from_iterable(output)))

    return BilingualDocument(read_units, render)


def _find_charset(data: bytes) -> str:
    match = _CHARSET.search(data)
    label = match[1].decode("ascii") if match else "utf-8"
    return "utf-8" if label == "CHARSET" else label


def _update_header(entry: PoEntry | None, language: str) -> tuple[str, int]:
    """Return the text of the header for the target language, and the number of plural forms."""
    old = (entry.get_text("msgstr") if entry else None) or ""
    fields = dict(line.split(":", 1) for line in old.splitlines() if ":" in line)
    count = _NUM_PLURALS.search(fields.get("Plural-Forms", ""))
    if not count:
        fields["Plural-Forms"] = f" {get_plural_forms_header(language)}"
        count = _NUM_PLURALS.search(fields["Plural-Forms"])
    assert count
    fields["Language"] = f" {language.replace('-', '_')}"
    fields["X-Generator"] = " seq2see"
    text = "".join(f"{key}:{value}\n" for key, value in fields.items())
    return text, min(max(int(count[1]), 1), _MAX_PLURALS)


@dataclass(frozen=True, slots=True)
class _MessageString:
    """The singular or plural of a message. Each line is a unit, because programs use line breaks
    on purpose."""

    accelerator: str
    units: list[TextUnit]

    @classmethod
    def from_text(cls, text: str, location: str) -> _MessageString:
        text, accelerator = strip_menu_accelerator(text)
        nodes_of_lines = map(parse_markup_nodes, text.split("\n"))
        return cls(accelerator, [TextUnit.from_nodes(nodes, location) for nodes in nodes_of_lines])

    def render(self, translations: Sequence[UnitTranslation]) -> str:
        text = "\n".join(render_markup_nodes(one.nodes) for one in translations)
        return insert_menu_accelerator(text, self.accelerator)


def _find_strings(entry: PoEntry) -> list[_MessageString]:
    singular, plural = entry.get_text("msgid") or "", entry.get_text("msgid_plural")
    texts = [singular] if plural is None else [singular, plural]
    location = f"line {entry.fields[0].start + 1}"
    return [_MessageString.from_text(text, location) for text in texts]


def _fill_plural_forms(strings: Sequence[str], num_plurals: int) -> list[str]:
    """Return the translations of a message: one, or one per plural form."""
    singular, *plural = strings
    return [singular, *plural * (num_plurals - 1)] if num_plurals > 1 else [strings[-1]]


def _replace_translations(entry: PoEntry, strings: Sequence[str], output: list[list[str]]) -> None:
    """Replace the lines of the translations of a message."""
    start, end = entry.translations[0].start, entry.translations[-1].end
    has_plurals = entry.get_text("msgid_plural") is not None
    keys = [f"msgstr[{n}]" if has_plurals else "msgstr" for n in range(len(strings))]
    rows = zip(keys, strings, strict=True)
    new = [line for key, text in rows for line in format_po_field(key, text)]
    output[start:end] = [new, *[[]] * (end - start - 1)]


def _mark_fuzzy(entry: PoEntry, output: list[list[str]]) -> None:
    """Add the flag `fuzzy` to a message."""
    if entry.flags_line is None:
        start = entry.fields[0].start
        while start > entry.start and output[start - 1][0].startswith("#|"):
            start -= 1
        output[start].insert(0, "#, fuzzy")
        return
    flags = [flag.strip() for flag in output[entry.flags_line][0][2:].split(",")]
    others = [flag for flag in flags if flag not in {"", "fuzzy"}]
    output[entry.flags_line] = [f"#, {', '.join(['fuzzy', *others])}"]


_FIELD = re.compile(
    r"\s*(?P<obsolete>#~\s*)?(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<index>\d+)\])?)\s*"
    r'(?P<string>".*")\s*'
)
_CONTINUATION = re.compile(r'\s*(?:#~\s*)?(".*")\s*')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE_SEQUENCE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {"\\": "\\\\", '"': '\\"'} | {value: f"\\{key}" for key, value in _ESCAPES.items()}
_MAX_LINE_LENGTH = 79


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
    def is_header(self) -> bool:
        """Return whether this is the header of the file, the message with an empty msgid."""
        has_context = self.get_text("msgctxt") is not None
        return self.get_text("msgid") == "" and not has_context and not self.is_obsolete


def parse_po_entries(lines: Sequence[str], file_name: str) -> Iterator[PoEntry]:
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
    return _ESCAPES.get(letter, letter)


def _syntax_error(file_name: str, number: int) -> InputError:
    return InputError(f"{file_name}, line {number + 1} must be a line of a PO file, but is none")


def format_po_field(key: str, text: str) -> list[str]:
    """Return the lines of a keyword with its string, wrapped like gettext's own tools do."""
    escaped = "".join(_ESCAPED.get(character, character) for character in text)
    if "\\n" not in escaped[:-2] and len(key) + len(escaped) + 3 <= _MAX_LINE_LENGTH:
        return [f'{key} "{escaped}"']
    parts = re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\.)+$", escaped)
    return [f'{key} ""', *(f'"{line}"' for part in parts for line in _wrap(part))]


def _wrap(text: str) -> Iterator[str]:
    """Yield lines that are not too long, broken after spaces."""
    line = ""
    for word in re.findall(r"\S+\s*|\s+", text):
        if line and len(line) + len(word.rstrip()) > _MAX_LINE_LENGTH - 2:
            yield line
            line = ""
        line += word
    if line:
        yield line


_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)
_ONE_AND_OTHER = "nplurals=2; plural=(n != 1);"
_PLURAL_FORMS = {
    "nplurals=1; plural=0;": "bo dz id ja jv km ko lo ms my su th tt ug vi wo yo yue zh",
    "nplurals=2; plural=(n > 1);": "ak am br fa fil fr hy ln mg oc pt-br ti tr uz wa",
    _SLAVIC: "be bs hr ru sh sr uk",
    "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : "
    "(n%100>10 && n%100<20) ? 2 : 3);": "mt",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5);": "ar",
}
_PLURAL_FORMS_BY_LANGUAGE = {
    code: form for form, codes in _PLURAL_FORMS.items() for code in codes.split()
}


def get_plural_forms_header(language: str) -> str:
    """Return the value of `Plural-Forms` for a language.

    Unknown languages get two forms: one for the number 1 and one for all other numbers.
    """
    known = _PLURAL_FORMS_BY_LANGUAGE
    by_tag = known.get(normalize_language_code(language))
    return by_tag or known.get(primary_language(language)) or _ONE_AND_OTHER


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


def insert_menu_accelerator(text: str, accelerator: str) -> str:
    """Insert an accelerator before a word that starts with its letter, or before the first word."""
    if not accelerator:
        return text
    sign, letter = accelerator[0], accelerator[1]
    same_letter = re.search(rf"\b{re.escape(letter)}", text, re.IGNORECASE)
    word = same_letter or _WORD.search(text)
    return f"{text[: word.start()]}{sign}{text[word.start() :]}" if word else text
