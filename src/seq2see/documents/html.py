"""HTML: words are translated, and everything else stays as it was written, to the letter.

Tags inside of a sentence go where its words went. Nothing of a page is written anew but words, so
no translation can bring a tag or a script into it, or take one away.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2see.documents.document_translator import DocumentTranslator, TranslatedUnit
from seq2see.documents.html_tokenizer import HtmlToken, parse_attributes, tokenize_html
from seq2see.documents.markup import (
    CloseTag,
    MarkupNode,
    OpenTag,
    StandaloneTag,
    TextUnit,
    has_letter,
)
from seq2see.documents.plain_text import DecodedText
from seq2see.text.languages import is_same_language


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


INLINE_ELEMENTS = _names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark "
    "nobr q rp rt ruby s samp small span strike strong sub sup time tt u var wbr"
)
"""Elements that a sentence may go through. All others, unknown ones too, end it."""
VOID_ELEMENTS = _names("area base br col embed hr img input link meta param source track wbr")
"""Elements without an end."""
UNTRANSLATED_ELEMENTS = _names("code kbd math pre rp rt samp svg textarea tt var")
"""Elements whose words are not translated unless they say `translate="yes"`."""
_READ = _names("alt title placeholder aria-label")
"""Attributes that people read."""
_META = _names(
    "description og:title og:description og:image:alt og:site_name "
    "twitter:title twitter:description twitter:image:alt"
)
_BLANK = " \t\n\f\r"
_WHITE = re.compile(f"[{_BLANK}]+")
_CHARSET = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)
_ENDLESS = re.compile(r"&#[0-9]{1000,};?")
"""No character has such a number, and Python refuses to read it as one."""
_LONGEST_NOTE = 64
"""Tags and texts of a reference to a note; what has more is not looked through."""
_MOST_WORDS = 60
"""Characters of kept words that a model is shown; longer ones would only lead it astray."""


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate a page, in the encoding that it declares."""
    decoded = DecodedText.from_bytes(data, file_name, _declared(data))
    return decoded.encode(translate_html_text(decoded.text, translator), errors="xmlcharrefreplace")


def translate_html_text(html: str, translator: DocumentTranslator) -> str:
    """Translate a page or a fragment."""
    reader = _Reader(translator)
    reader.read(html)
    translated = translator.translate(reader.passages)
    return "".join(_written(part, translated) for part in reader.parts)


def _written(part: _Part, translated: Sequence[TranslatedUnit]) -> str:
    if isinstance(part, _Tag):
        return part.written(translated)
    return "".join(
        _escaped(event) if isinstance(event, str) else event.payload.written(translated)
        for event in translated[part].nodes
    )


def _quoted(text: str, quote: str) -> str:
    """Return the value of an attribute in the quotes that it has, or in some if it has none."""
    value = _escaped(text).replace(quote or '"', "&#39;" if quote == "'" else "&quot;")
    return value if quote else f'"{value}"'


def _unescaped(text: str) -> str:
    return entities.unescape(_ENDLESS.sub("\ufffd", text))


def _escaped(text: str) -> str:
    return entities.escape(text, quote=False).replace("\u00a0", "&nbsp;")


def _declared(data: bytes) -> str:
    """Return the encoding that a page says it has, as browsers understand it."""
    match = _CHARSET.search(data[:4096])
    label = match[1].decode("ascii").lower() if match else "utf-8"
    if label.startswith(("utf-16", "utf-32")):
        return "utf-8"  # it was read up to here byte by byte
    return "windows-1252" if label in {"iso-8859-1", "latin1", "us-ascii", "ascii"} else label


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag as it was written, and the values in it that change."""

    raw: str
    changes: list[tuple[int, int, str, int | str]] = field(default_factory=list)
    """From where to where, in which quotes, and the passage, or the text itself."""

    def written(self, translated: Sequence[TranslatedUnit]) -> str:
        parts, done = [], 0
        for start, end, quote, new in self.changes:
            text = new if isinstance(new, str) else translated[new].text
            parts += [self.raw[done:start], _quoted(text, quote)]
            done = end
        return "".join([*parts, self.raw[done:]])


_Part = _Tag | int
"""What stays, or the number of a passage."""


class _Reader:
    """Makes passages of a page."""

    def __init__(self, job: DocumentTranslator) -> None:
        self._languages = job.source_language, job.target_language
        self.parts: list[_Part] = []
        self.passages: list[TextUnit] = []
        self._run: list[tuple[MarkupNode, _Tag]] = []
        """What may become a passage: each event, and how it was written."""
        self._line = 1

    def read(self, html: str) -> None:
        row = list(tokenize_html(html))
        ends = _ends(row)
        place = 0
        while place < len(row):
            token, next_place = row[place], place + 1
            if token.kind == "start" and self._is_kept(token):
                next_place = ends[place]
                kept = row[place:next_place]
                self._keep(kept, _Tag("".join(each.raw for each in kept)))
            elif _is_reference(row, place, ends[place]):
                next_place = ends[place]
                reference = row[place:next_place]
                self._keep(reference, self._whole(reference), shown=not _is_note(reference))
            else:
                self._take(token)
            self._line += sum(token.raw.count("\n") for token in row[place:next_place])
            place = next_place
        self._flush()

    def _take(self, token: HtmlToken) -> None:
        if token.kind == "text":
            words = _unescaped(_WHITE.sub(" ", token.raw))
            self._run.append((words, _Tag(token.raw)))
        elif token.kind == "other":
            self._run.append((StandaloneTag(tag := _Tag(token.raw)), tag))
        elif token.name not in INLINE_ELEMENTS:
            self._flush()
            self.parts.append(self._tag(token))
        else:
            tag = self._tag(token)
            self._run.append((_event(token, tag), tag))

    def _keep(self, row: Sequence[HtmlToken], tag: _Tag, *, shown: bool = True) -> None:
        """Keep an element in one piece: inside of a sentence if it can be, or between two."""
        if any(
            token.name not in INLINE_ELEMENTS for token in row if token.kind in {"start", "end"}
        ):
            self._flush()
            self.parts.append(tag)
            return
        words = " ".join(_text(row).split())
        if not shown or len(words) > _MOST_WORDS or not any(map(str.isalnum, words)):
            words = ""
        self._run.append((StandaloneTag(tag, words), tag))

    def _flush(self) -> None:
        """End a passage; the white space around it stays as it was written."""
        run, self._run = self._run, []
        if not any(isinstance(event, str) and has_letter(event) for event, _ in run):
            self.parts += [tag for _, tag in run]
            return
        raw, behind = run[0][1].raw, run[-1][1].raw
        events = [event for event, _ in run]
        if isinstance(events[0], str):
            events[0] = events[0].lstrip(_BLANK)
            self.parts.append(_Tag(raw[: len(raw) - len(raw.lstrip(_BLANK))]))
        self.parts.append(len(self.passages))
        if isinstance(events[-1], str):
            events[-1] = events[-1].rstrip(_BLANK)
            self.parts.append(_Tag(behind[len(behind.rstrip(_BLANK)) :]))
        self.passages.append(TextUnit.from_nodes(events, f"line {self._line}"))

    def _is_kept(self, token: HtmlToken) -> bool:
        values = _values(token)
        if "translate" in values:
            return values["translate"].strip().lower() == "no"
        return (
            token.name in UNTRANSLATED_ELEMENTS or "notranslate" in values.get("class", "").split()
        )

    def _tag(self, token: HtmlToken) -> _Tag:
        """Return a tag, with its words and its language to be changed."""
        tag = _Tag(token.raw)
        if token.kind == "end" or self._is_kept(token):
            return tag
        values = _values(token)
        seen = set[str]()
        for name, start, end, quote in parse_attributes(token.raw):
            if name in seen:
                continue  # browsers take the first
            seen.add(name)
            new = self._new_value(token.name, name, values)
            if new is not None:
                tag.changes.append((start, end, quote, new))
        return tag

    def _whole(self, row: Sequence[HtmlToken]) -> _Tag:
        """Return an element as one tag: its text stays, and what its tags say changes."""
        tag, before = _Tag("".join(token.raw for token in row)), 0
        for token in row:
            for start, end, quote, new in self._tag(token).changes if token.kind == "start" else ():
                tag.changes.append((before + start, before + end, quote, new))
            before += len(token.raw)
        return tag

    def _new_value(self, element: str, name: str, values: dict[str, str]) -> int | str | None:
        value = values[name]
        if name in {"lang", "xml:lang"}:
            ours, theirs = self._languages
            return theirs if is_same_language(value.strip(), ours) else None
        if not _is_read(element, name, values) or not has_letter(value):
            return None
        self.passages.append(TextUnit(value, (), f"line {self._line}, attribute {name}"))
        return len(self.passages) - 1


def _event(token: HtmlToken, tag: _Tag) -> MarkupNode:
    if token.name in VOID_ELEMENTS:
        return StandaloneTag(tag)
    return (CloseTag if token.kind == "end" else OpenTag)(token.name, tag)


def _is_reference(row: Sequence[HtmlToken], start: int, end: int) -> bool:
    """Tell if a raised or linked number is there, behind which no word goes on."""
    first, last = row[start], row[end - 1]
    if first.kind != "start" or first.name not in {"a", "sup"} or end - start > _LONGEST_NOTE:
        return False
    inside = row[start:end]
    is_inline = all(
        token.name in INLINE_ELEMENTS for token in inside if token.kind in {"start", "end"}
    )
    if (last.kind, last.name) != ("end", first.name) or not is_inline:
        return False
    text = _text(inside)
    wanted = any(map(str.isdigit, text)) if first.name == "a" else bool(text)
    goes_on = end < len(row) and row[end].kind == "text" and row[end].raw[:1].isalnum()
    return wanted and not has_letter(text) and not goes_on


def _is_note(reference: Sequence[HtmlToken]) -> bool:
    """Tell if a number is that of a note, and no word of its sentence, as a linked year is."""
    href = _values(reference[0]).get("href", "")
    bracketed = _text(reference).strip()[:1] in {"[", "("}
    return reference[0].name == "sup" or bracketed or href.startswith("#")


def _text(row: Sequence[HtmlToken]) -> str:
    return _unescaped("".join(token.raw for token in row if token.kind == "text"))


def _values(token: HtmlToken) -> dict[str, str]:
    """Return the attributes of a tag; browsers take the first of a name."""
    found: dict[str, str] = {}
    for name, start, end, _ in parse_attributes(token.raw):
        found.setdefault(name, _unescaped(token.raw[start:end]))
    return found


def _is_read(element: str, name: str, values: dict[str, str]) -> bool:
    """Tell if people read the value of an attribute."""
    if element == "meta":
        key = values.get("name") or values.get("property") or ""
        return name == "content" and key.lower() in _META
    if element == "input" and name == "value":
        return values.get("type", "").lower() in {"button", "reset", "submit"}
    return name in _READ or (name == "label" and element in {"option", "optgroup", "track"})


def _ends(row: Sequence[HtmlToken]) -> list[int]:
    """Return for each tag that opens the place behind its element.

    One that is never closed ends where the next block starts or ends.
    """
    ends = [place + 1 for place in range(len(row))]
    still_open: dict[str, list[int]] = {}
    for place, token in enumerate(row):
        if token.kind == "start" and not _is_empty(token):
            still_open.setdefault(token.name, []).append(place)
        elif token.kind == "end" and still_open.get(token.name):
            ends[still_open[token.name].pop()] = place + 1
    unclosed = {place for places in still_open.values() for place in places}
    block = len(row)
    for place in range(len(row) - 1, -1, -1):
        if place in unclosed:
            ends[place] = block
        if row[place].kind in {"start", "end"} and row[place].name not in INLINE_ELEMENTS:
            block = place
    return ends


def _is_empty(token: HtmlToken) -> bool:
    return token.name in VOID_ELEMENTS or (
        token.name in {"svg", "math"} and token.raw.endswith("/>")
    )
