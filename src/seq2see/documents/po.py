"""Translate gettext PO files.

Messages without a translation get one with the flag `fuzzy`: msgfmt ignores such messages until a
person has reviewed them and removed the flag. All other lines are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from seq2see.text.po_entries import (
    PO_ESCAPES,
    PoEntry,
    find_po_charset,
    parse_po_entries,
    strip_menu_accelerator,
)

_NUM_PLURALS = re.compile(r"nplurals\s*=\s*(\d{1,3})")
_MAX_PLURALS = 6


def parse(data: bytes, file_name: str) -> BilingualDocument:
    """Parse a file; each line of a message is a unit."""
    decoded = DecodedText.from_bytes(data, file_name, find_po_charset(data))
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


_ESCAPED = {"\\": "\\\\", '"': '\\"'} | {value: f"\\{key}" for key, value in PO_ESCAPES.items()}
_MAX_LINE_LENGTH = 79


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


_WORD = re.compile(r"[^\W\d_][^\W_]*")


def insert_menu_accelerator(text: str, accelerator: str) -> str:
    """Insert an accelerator before a word that starts with its letter, or before the first word."""
    if not accelerator:
        return text
    sign, letter = accelerator[0], accelerator[1]
    same_letter = re.search(rf"\b{re.escape(letter)}", text, re.IGNORECASE)
    word = same_letter or _WORD.search(text)
    return f"{text[: word.start()]}{sign}{text[word.start() :]}" if word else text
