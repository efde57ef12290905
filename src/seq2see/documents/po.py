"""Gettext's PO files: what has no translation gets one, marked as fuzzy.

Fuzzy means that a person should look at it: msgfmt leaves such entries out until the mark is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.documents import accelerators, tagged
from seq2see.documents.encodings import Decoded
from seq2see.documents.job import Job, Translated
from seq2see.documents.passages import Passage
from seq2see.documents.plurals import plural_forms
from seq2see.documents.po_file import Entry, entries, written
from seq2see.errors import InputError

_CHARSET = re.compile(rb'^"Content-Type:[^"\n]*charset=([\w:.-]+)', re.MULTILINE)
_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,3})")
_MOST_FORMS = 6


def translate(data: bytes, name: str, job: Job) -> bytes:
    """Translate the messages of a file that have no translation yet."""
    decoded = Decoded.of(data, name, _declared(data))
    line_end = "\r\n" if "\r\n" in decoded.text else "\n"
    lines = decoded.text.replace("\r\n", "\n").split("\n")
    found = list(entries(lines, name))
    if not found and decoded.text.strip():
        raise InputError(f"{name} must be a PO file, but has no message")
    header = next((entry for entry in found if entry.is_header), None)
    metadata = _Metadata.of(header, job.target)
    messages = [entry for entry in found if _is_wanted(entry, job)]
    changes = dict(_Messages(messages, metadata.forms, job).changes(lines))
    if header:
        changes.update(_replaced(header, [metadata.text]))
    return decoded.encode(line_end.join(_changed(lines, changes)))


def _declared(data: bytes) -> str:
    match = _CHARSET.search(data)
    label = match[1].decode("ascii") if match else "utf-8"
    return "utf-8" if label == "CHARSET" else label


def _is_wanted(entry: Entry, job: Job) -> bool:
    """Tell if a message is to be translated; count those that keep what they have."""
    if entry.is_header or entry.is_obsolete or not entry.translations:
        return False
    has_one = any(one.text for one in entry.translations)
    job.report.kept += has_one and not job.overwrite
    return not has_one or job.overwrite


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The header's text with the language in it, and the number of plural forms."""

    text: str
    forms: int

    @classmethod
    def of(cls, header: Entry | None, language: str) -> _Metadata:
        old = (header.text("msgstr") if header else None) or ""
        fields = dict(line.split(":", 1) for line in old.splitlines() if ":" in line)
        count = _COUNT.search(fields.get("Plural-Forms", ""))
        if not count:
            fields["Plural-Forms"] = f" {plural_forms(language)}"
            count = _COUNT.search(fields["Plural-Forms"])
        assert count
        fields["Language"] = f" {language.replace('-', '_')}"
        fields["X-Generator"] = " seq2see"
        text = "".join(f"{key}:{value}\n" for key, value in fields.items())
        return cls(text, min(max(int(count[1]), 1), _MOST_FORMS))


Change = tuple[tuple[int, int], list[str]]
"""Lines, from the first to before the last, and what comes in their place."""


class _Messages:
    """The messages that get a translation."""

    def __init__(self, messages: Sequence[Entry], forms: int, job: Job) -> None:
        self._messages, self._forms, self._job = messages, forms, job

    def changes(self, lines: Sequence[str]) -> list[Change]:
        """Translate all messages; return which lines change."""
        singular = [entry.text("msgid") or "" for entry in self._messages]
        plural = [entry.text("msgid_plural") or "" for entry in self._messages]
        places = [f"line {entry.fields[0].start + 1}" for entry in self._messages]
        found = _translated([*singular, *plural], places * 2, self._job)
        changes: list[Change] = []
        half = len(self._messages)
        rows = zip(self._messages, found[:half], found[half:], strict=True)
        for entry, one, many in rows:
            if one is not None and many is not None:
                changes += _replaced(entry, self._strings(entry, one, many))
                changes.append(_fuzzy(entry, lines))
        return changes

    def _strings(self, entry: Entry, one: str, many: str) -> list[str]:
        if entry.text("msgid_plural") is None:
            return [one]
        return [many] if self._forms == 1 else [one, *[many] * (self._forms - 1)]


def _translated(texts: Sequence[str], places: Sequence[str], job: Job) -> list[str | None]:
    """Translate strings line by line, since a program breaks lines on purpose; None: it failed."""
    stripped = [accelerators.without(text) for text in texts]
    cut = [text.split("\n") for text, _ in stripped]
    rows = zip(cut, places, strict=True)
    passages = [Passage.of(tagged.events(line), place) for lines, place in rows for line in lines]
    found = iter(job.translate(passages))
    results = ([next(found) for _ in lines] for lines in cut)
    return [_joined(lines, letter) for lines, (_, letter) in zip(results, stripped, strict=True)]


def _joined(lines: Sequence[Translated], letter: str) -> str | None:
    if any(line.has_failed for line in lines):
        return None
    return accelerators.with_one("\n".join(tagged.text_of(line.events) for line in lines), letter)


def _replaced(entry: Entry, strings: Sequence[str]) -> list[Change]:
    """Put strings in the place of an entry's translations."""
    old = entry.translations
    has_plurals = entry.text("msgid_plural") is not None
    keys = [f"msgstr[{n}]" if has_plurals else "msgstr" for n in range(len(strings))]
    new = [line for key, text in zip(keys, strings, strict=True) for line in written(key, text)]
    return [((old[0].start, old[-1].end), new)]


def _fuzzy(entry: Entry, lines: Sequence[str]) -> Change:
    """Mark an entry as not yet looked at."""
    if entry.flags is None:
        start = entry.fields[0].start
        while start > entry.start and lines[start - 1].startswith("#|"):
            start -= 1
        return (start, start), ["#, fuzzy"]
    flags = [flag.strip() for flag in lines[entry.flags][2:].split(",")]
    others = [flag for flag in flags if flag not in {"", "fuzzy"}]
    return (entry.flags, entry.flags + 1), [f"#, {', '.join(['fuzzy', *others])}"]


def _changed(lines: Sequence[str], changes: dict[tuple[int, int], list[str]]) -> list[str]:
    result, done = [], 0
    for (start, end), new in sorted(changes.items()):
        result += [*lines[done:start], *new]
        done = end
    return [*result, *lines[done:]]
