"""Translate gettext PO files.

Messages without a translation get one with the flag `fuzzy`: msgfmt ignores such messages until a
person has reviewed them and removed the flag. All other lines are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seq2see.documents import markup
from seq2see.documents.document_translator import DocumentTranslator, TranslatedUnit
from seq2see.documents.markup import TextUnit
from seq2see.documents.plain_text import DecodedText
from seq2see.errors import InputError

_CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w:.-]+)', re.MULTILINE)


_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,3})")


_MOST_FORMS = 6


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate the messages of a file that have no translation yet."""
    decoded = DecodedText.from_bytes(data, file_name, _declared(data))
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    lines = decoded.text.replace("\r\n", "\n").split("\n")
    found = list(parse_po_entries(lines, file_name))
    if not found and decoded.text.strip():
        raise InputError(f"{file_name} must be a PO file, but has no message")
    header = next((entry for entry in found if entry.is_header), None)
    metadata = _Metadata.of(header, translator.target_language)
    messages = [entry for entry in found if _is_wanted(entry, translator)]
    changes = dict(_Messages(messages, metadata.forms, translator).changes(lines))
    if header:
        changes.update(_replaced(header, [metadata.text]))
    return decoded.encode(line_end.join(_changed(lines, changes)))


def _declared(data: bytes) -> str:
    match = _CHARSET.search(data)
    label = match[1].decode("ascii") if match else "utf-8"
    return "utf-8" if label == "CHARSET" else label


def _is_wanted(entry: PoEntry, job: DocumentTranslator) -> bool:
    """Tell if a message is to be translated; count those that keep what they have."""
    if entry.is_header or entry.is_obsolete or not entry.translations:
        return False
    has_one = any(one.text for one in entry.translations)
    job.report.num_already_translated += has_one and not job.overwrite
    return not has_one or job.overwrite


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The header's text with the language in it, and the number of plural forms."""

    text: str
    forms: int

    @classmethod
    def of(cls, header: PoEntry | None, language: str) -> _Metadata:
        old = (header.get_text("msgstr") if header else None) or ""
        fields = dict(line.split(":", 1) for line in old.splitlines() if ":" in line)
        count = _COUNT.search(fields.get("Plural-Forms", ""))
        if not count:
            fields["Plural-Forms"] = f" {get_plural_forms_header(language)}"
            count = _COUNT.search(fields["Plural-Forms"])
        assert count
        fields["Language"] = f" {language.replace('-', '_')}"
        fields["X-Generator"] = " seq2see"
        text = "".join(f"{key}:{value}\n" for key, value in fields.items())
        return cls(text, min(max(int(count[1]), 1), _MOST_FORMS))


LineEdit = tuple[tuple[int, int], list[str]]
"""Lines, from the first to before the last, and what comes in their place."""


class _Messages:
    """The messages that get a translation."""

    def __init__(self, messages: Sequence[PoEntry], forms: int, job: DocumentTranslator) -> None:
        self._messages, self._forms, self._job = messages, forms, job

    def changes(self, lines: Sequence[str]) -> list[LineEdit]:
        """Translate all messages; return which lines change."""
        singular = [entry.get_text("msgid") or "" for entry in self._messages]
        plural = [entry.get_text("msgid_plural") or "" for entry in self._messages]
        places = [f"line {entry.fields[0].start + 1}" for entry in self._messages]
        found = _translated([*singular, *plural], places * 2, self._job)
        changes: list[LineEdit] = []
        half = len(self._messages)
        rows = zip(self._messages, found[:half], found[half:], strict=True)
        for entry, one, many in rows:
            if one is not None and many is not None:
                changes += _replaced(entry, self._strings(entry, one, many))
                changes.append(_fuzzy(entry, lines))
        return changes

    def _strings(self, entry: PoEntry, one: str, many: str) -> list[str]:
        if entry.get_text("msgid_plural") is None:
            return [one]
        return [many] if self._forms == 1 else [one, *[many] * (self._forms - 1)]


def _translated(
    texts: Sequence[str], places: Sequence[str], job: DocumentTranslator
) -> list[str | None]:
    """Translate strings line by line, since a program breaks lines on purpose; None: it failed."""
    stripped = [strip_accelerator(text) for text in texts]
    cut = [text.split("\n") for text, _ in stripped]
    rows = zip(cut, places, strict=True)
    passages = [
        TextUnit.from_nodes(markup.parse_inline_tags(line), place)
        for lines, place in rows
        for line in lines
    ]
    found = iter(job.translate(passages))
    results = ([next(found) for _ in lines] for lines in cut)
    return [_joined(lines, letter) for lines, (_, letter) in zip(results, stripped, strict=True)]


def _joined(lines: Sequence[TranslatedUnit], letter: str) -> str | None:
    if any(line.has_failed for line in lines):
        return None
    return insert_accelerator(
        "\n".join(markup.render_inline_tags(line.nodes) for line in lines), letter
    )


def _replaced(entry: PoEntry, strings: Sequence[str]) -> list[LineEdit]:
    """Put strings in the place of an entry's translations."""
    old = entry.translations
    has_plurals = entry.get_text("msgid_plural") is not None
    keys = [f"msgstr[{n}]" if has_plurals else "msgstr" for n in range(len(strings))]
    new = [
        line for key, text in zip(keys, strings, strict=True) for line in format_po_field(key, text)
    ]
    return [((old[0].start, old[-1].end), new)]


def _fuzzy(entry: PoEntry, lines: Sequence[str]) -> LineEdit:
    """Mark an entry as not yet looked at."""
    if entry.flags_line is None:
        start = entry.fields[0].start
        while start > entry.start and lines[start - 1].startswith("#|"):
            start -= 1
        return (start, start), ["#, fuzzy"]
    flags = [flag.strip() for flag in lines[entry.flags_line][2:].split(",")]
    others = [flag for flag in flags if flag not in {"", "fuzzy"}]
    return (entry.flags_line, entry.flags_line + 1), [f"#, {', '.join(['fuzzy', *others])}"]


def _changed(lines: Sequence[str], changes: dict[tuple[int, int], list[str]]) -> list[str]:
    result, done = [], 0
    for (start, end), new in sorted(changes.items()):
        result += [*lines[done:start], *new]
        done = end
    return [*result, *lines[done:]]


_FIELD = re.compile(
    r"\s*(?P<old>#~\s*)?(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<index>\d+)\])?)\s*"
    r'(?P<string>".*")\s*'
)


_MORE = re.compile(r'\s*(?:#~\s*)?(".*")\s*')


_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|(.))")


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


_WRITTEN = {"\\": "\\\\", '"': '\\"'} | {value: f"\\{key}" for key, value in _ESCAPED.items()}


_WIDTH = 79


@dataclass(slots=True)
class PoField:
    """A keyword with its string, over the lines from `start` to before `end`."""

    key: str
    start: int
    end: int
    line_texts: list[str]
    """What stands on each of its lines."""

    @property
    def text(self) -> str:
        """The whole string."""
        return "".join(self.line_texts)


@dataclass(slots=True)
class PoEntry:
    """A message."""

    start: int
    fields: list[PoField] = field(default_factory=list)
    flags_line: int | None = None
    """The line of its flags, if it has one."""
    is_obsolete: bool = False

    def get_text(self, key: str) -> str | None:
        """Return the string of a keyword."""
        return next((one.text for one in self.fields if one.key == key), None)

    @property
    def translations(self) -> list[PoField]:
        """Its strings in the other language: one, or one for each plural."""
        return [one for one in self.fields if one.key.startswith("msgstr")]

    @property
    def is_complete(self) -> bool:
        """Tell if it has come to its translations, behind which nothing else belongs to it."""
        return bool(self.fields) and self.fields[-1].key.startswith("msgstr")

    @property
    def is_header(self) -> bool:
        """Tell if it holds what is to know about the file."""
        return (
            self.get_text("msgid") == ""
            and self.get_text("msgctxt") is None
            and not self.is_obsolete
        )


def parse_po_entries(lines: Sequence[str], file_name: str) -> Iterator[PoEntry]:
    """Yield the messages of a file."""
    entry = PoEntry(0)
    for number, line in enumerate(lines):
        match = _FIELD.fullmatch(line)
        if _starts_another(entry, line, match):
            yield entry
            entry = PoEntry(number)
        if match:
            text = _unquoted(match["string"], file_name, number)
            entry.fields.append(PoField(match["key"], number, number + 1, [text]))
            entry.is_obsolete = bool(match["old"])
        elif (more := _MORE.fullmatch(line)) and entry.fields:
            entry.fields[-1].line_texts.append(_unquoted(more[1], file_name, number))
            entry.fields[-1].end = number + 1
        elif line.startswith("#,"):
            entry.flags_line = number
        elif line.strip() and not line.lstrip().startswith("#"):
            raise _refusal(file_name, number)
    if entry.fields:
        yield entry


def _starts_another(entry: PoEntry, line: str, match: re.Match[str] | None) -> bool:
    if not entry.is_complete:
        return False
    if match:
        return not match["key"].startswith("msgstr")
    return line.startswith("#") and not _MORE.fullmatch(line)


def _unquoted(string: str, name: str, number: int) -> str:
    match = _STRING.fullmatch(string)
    if not match:
        raise _refusal(name, number)
    return _ESCAPE.sub(_character, match[1])


def _character(match: re.Match[str]) -> str:
    octal, digits, letter = match.groups()
    if letter is None:
        return chr(int(octal, 8) if octal else int(digits, 16))
    return _ESCAPED.get(letter, letter)


def _refusal(name: str, number: int) -> InputError:
    return InputError(f"{name}, line {number + 1} must be a line of a PO file, but is none")


def format_po_field(key: str, text: str) -> list[str]:
    """Return the lines of a keyword and its string, broken as gettext's own tools do."""
    quoted = "".join(_WRITTEN.get(character, character) for character in text)
    if "\\n" not in quoted[:-2] and len(key) + len(quoted) + 3 <= _WIDTH:
        return [f'{key} "{quoted}"']
    parts = re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\.)+$", quoted)
    return [f'{key} ""', *(f'"{line}"' for part in parts for line in _wrapped(part))]


def _wrapped(text: str) -> Iterator[str]:
    """Yield pieces that fit on a line, cut behind spaces."""
    line = ""
    for word in re.findall(r"\S+\s*|\s+", text):
        if line and len(line) + len(word.rstrip()) > _WIDTH - 2:
            yield line
            line = ""
        line += word
    if line:
        yield line


_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)


_ONE_AND_OTHERS = "nplurals=2; plural=(n != 1);"


_FORMS = {
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


_BY_LANGUAGE = {code: form for form, codes in _FORMS.items() for code in codes.split()}


def get_plural_forms_header(language: str) -> str:
    """Return the header of a language; those not known have one form for 1 and one for the rest."""
    tag = language.lower().replace("_", "-")
    return _BY_LANGUAGE.get(tag) or _BY_LANGUAGE.get(re.split("-", tag)[0]) or _ONE_AND_OTHERS


_SIGNS, _MARKUP = frozenset("_&"), frozenset("<>{}%$\n")


_WORD = re.compile(r"[^\W\d_][^\W_]*")


def strip_accelerator(text: str) -> tuple[str, str]:
    """Return a string without its accelerator, and the sign with its letter, or nothing.

    `my_name`, `AT&T` and `&amp;` have none, and where there is markup, nothing is sure.
    """
    places = [place for place, character in enumerate(text) if character in _SIGNS]
    if len(places) != 1 or _MARKUP & set(text):
        return text, ""
    (place,) = places
    behind = _WORD.match(text, place + 1)
    if not behind or text[behind.end() : behind.end() + 1] == ";":
        return text, ""
    start = place
    while start and text[start - 1].isalnum():
        start -= 1
    if start < place and not (text[start].isupper() and behind[0][0].islower()):
        return text, ""
    return text[:place] + text[place + 1 :], text[place : place + 2]


def insert_accelerator(text: str, accelerator: str) -> str:
    """Return a string with the accelerator: at a word with the same letter, or at the first."""
    if not accelerator:
        return text
    sign, letter = accelerator[0], accelerator[1]
    same = re.search(rf"\b{re.escape(letter)}", text, re.IGNORECASE)
    first = same or _WORD.search(text)
    return f"{text[: first.start()]}{sign}{text[first.start() :]}" if first else text
