"""PO files line by line: what is not changed stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seq2see.errors import InputError

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
class Field:
    """A keyword with its string, over the lines from `start` to before `end`."""

    key: str
    start: int
    end: int
    parts: list[str]
    """What stands on each of its lines."""

    @property
    def text(self) -> str:
        """The whole string."""
        return "".join(self.parts)


@dataclass(slots=True)
class Entry:
    """A message."""

    start: int
    fields: list[Field] = field(default_factory=list)
    flags: int | None = None
    """The line of its flags, if it has one."""
    is_obsolete: bool = False

    def text(self, key: str) -> str | None:
        """Return the string of a keyword."""
        return next((one.text for one in self.fields if one.key == key), None)

    @property
    def translations(self) -> list[Field]:
        """Its strings in the other language: one, or one for each plural."""
        return [one for one in self.fields if one.key.startswith("msgstr")]

    @property
    def is_complete(self) -> bool:
        """Tell if it has come to its translations, behind which nothing else belongs to it."""
        return bool(self.fields) and self.fields[-1].key.startswith("msgstr")

    @property
    def is_header(self) -> bool:
        """Tell if it holds what is to know about the file."""
        return self.text("msgid") == "" and self.text("msgctxt") is None and not self.is_obsolete


def entries(lines: Sequence[str], name: str) -> Iterator[Entry]:
    """Yield the messages of a file."""
    entry = Entry(0)
    for number, line in enumerate(lines):
        match = _FIELD.fullmatch(line)
        if _starts_another(entry, line, match):
            yield entry
            entry = Entry(number)
        if match:
            text = _unquoted(match["string"], name, number)
            entry.fields.append(Field(match["key"], number, number + 1, [text]))
            entry.is_obsolete = bool(match["old"])
        elif (more := _MORE.fullmatch(line)) and entry.fields:
            entry.fields[-1].parts.append(_unquoted(more[1], name, number))
            entry.fields[-1].end = number + 1
        elif line.startswith("#,"):
            entry.flags = number
        elif line.strip() and not line.lstrip().startswith("#"):
            raise _refusal(name, number)
    if entry.fields:
        yield entry


def _starts_another(entry: Entry, line: str, match: re.Match[str] | None) -> bool:
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


def written(key: str, text: str) -> list[str]:
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
