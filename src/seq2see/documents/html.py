"""Translate HTML: text is translated, everything else is copied character by character.

Tags inside a sentence are placed around the translations of their words. Only text is written anew
and it is always escaped, so a translation cannot add or remove a tag or a script.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2see.documents.html_tokenizer import HtmlToken, find_attribute_value_spans, tokenize_html
from seq2see.documents.parsed_document import DocumentLanguages, ParsedDocument, UnitTranslation
from seq2see.documents.plain_text import DecodedText
from seq2see.markup.text_units import (
    ClosingTag,
    MarkupNode,
    OpeningTag,
    StandaloneTag,
    TextUnit,
)
from seq2see.text.languages import has_letter, is_same_language


def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


INLINE_ELEMENTS = _split_names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark "
    "nobr q rp rt ruby s samp small span strike strong sub sup time tt u var wbr"
)
"""Elements that may be inside a sentence. All other elements, also unknown ones, end it."""
VOID_ELEMENTS = _split_names("area base br col embed hr img input link meta param source track wbr")
"""Elements without a closing tag."""
UNTRANSLATED_ELEMENTS = _split_names("code kbd math pre rp rt samp svg textarea tt var")
"""Elements that are not translated unless they have the attribute `translate="yes"`."""
_TRANSLATED_ATTRIBUTES = _split_names("alt title placeholder aria-label")
_TRANSLATED_METADATA = _split_names(
    "description og:title og:description og:image:alt og:site_name "
    "twitter:title twitter:description twitter:image:alt"
)
_SPACE_CHARACTERS = " \t\n\f\r"
_SPACES = re.compile(f"[{_SPACE_CHARACTERS}]+")
_CHARSET = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)
_INVALID_REFERENCE = re.compile(r"&#[0-9]{1000,};?")
"""Character references that are too large for a character, and for Python's int()."""
_MAX_REFERENCE_TOKENS = 64
"""Maximum number of tokens of a note reference; longer elements are not examined."""
_MAX_PROTECTED_CHARACTERS = 60
"""Maximum length of untranslated text that is shown to the model; longer text confuses it."""


def parse(data: bytes, file_name: str) -> ParsedDocument[bytes]:
    """Parse an HTML file; the encoding is the one that the page declares."""
    decoded = DecodedText.from_bytes(data, file_name, _find_charset(data))
    return decoded.encode_rendered(parse_html(decoded.text), errors="xmlcharrefreplace")


def parse_html(html: str) -> ParsedDocument[str]:
    """Parse a page or a fragment."""
    parser = _HtmlParser()
    parser.parse(html)

    def render(translations: Sequence[UnitTranslation], languages: DocumentLanguages) -> str:
        return "".join(
            _render_node(node, translations, languages)
            for part in parser.parts
            for node in ([part] if isinstance(part, _RawHtml) else translations[part].nodes)
        )

    return ParsedDocument(parser.units, render)


def _render_node(
    node: MarkupNode | _RawHtml,
    translations: Sequence[UnitTranslation],
    languages: DocumentLanguages,
) -> str:
    if isinstance(node, str):
        return _escape(node)
    html = node if isinstance(node, _RawHtml) else node.payload
    return html.render(translations, languages)


def _quote_attribute(text: str, quote: str) -> str:
    """Return the value of an attribute for these quotes; without quotes, add double quotes."""
    value = _escape(text).replace(quote or '"', "&#39;" if quote == "'" else "&quot;")
    return value if quote else f'"{value}"'


def _unescape(text: str) -> str:
    return entities.unescape(_INVALID_REFERENCE.sub("\ufffd", text))


def _escape(text: str) -> str:
    return entities.escape(text, quote=False).replace("\u00a0", "&nbsp;")


def _find_charset(data: bytes) -> str:
    """Return the encoding that a page declares, as browsers interpret it."""
    match = _CHARSET.search(data[:4096])
    label = match[1].decode("ascii").lower() if match else "utf-8"
    if label.startswith(("utf-16", "utf-32")):
        return "utf-8"  # the declaration was found in single bytes, so it is wrong
    return "windows-1252" if label in {"iso-8859-1", "latin1", "us-ascii", "ascii"} else label


@dataclass(frozen=True, slots=True)
class _RawHtml:
    """HTML that is copied, except for some values of attributes."""

    html: str
    replacements: list[tuple[int, int, str, int | None]] = field(default_factory=list)
    """Start and end of a value, its quotes, and the index of its unit, or None for a language."""

    def render(self, translations: Sequence[UnitTranslation], languages: DocumentLanguages) -> str:
        parts, done = [], 0
        for start, end, quote, unit in self.replacements:
            if unit is not None:
                new = translations[unit].text
            elif is_same_language(_unescape(self.html[start:end]).strip(), languages.source):
                new = languages.target
            else:
                continue
            parts += [self.html[done:start], _quote_attribute(new, quote)]
            done = end
        return "".join([*parts, self.html[done:]])


_PagePart = _RawHtml | int
"""HTML that is copied, or the index of a unit."""


class _HtmlParser:
    """Splits a page into text units and the HTML between them."""

    def __init__(self) -> None:
        self.parts: list[_PagePart] = []
        self.units: list[TextUnit] = []
        self._pending: list[tuple[MarkupNode, _RawHtml]] = []
        """Nodes of the current sentence, each with its HTML."""
        self._line = 1

    def parse(self, html: str) -> None:
        tokens = list(tokenize_html(html))
        ends = _find_element_ends(tokens)
        index = 0
        while index < len(tokens):
            token, next_index = tokens[index], index + 1
            if token.kind == "start" and self._is_untranslated(token):
                next_index = ends[index]
                element = tokens[index:next_index]
                self._add_protected(element, _RawHtml("".join(one.raw for one in element)))
            elif _is_numeric_reference(tokens, index, ends[index]):
                next_index = ends[index]
                element = tokens[index:next_index]
                is_shown = not _is_note_reference(element)
                self._add_protected(element, self._build_element(element), is_shown=is_shown)
            else:
                self._add_token(token)
            self._line += sum(token.raw.count("\n") for token in tokens[index:next_index])
            index = next_index
        self._finish_unit()

    def _add_token(self, token: HtmlToken) -> None:
        if token.kind == "text":
            text = _unescape(_SPACES.sub(" ", token.raw))
            self._pending.append((text, _RawHtml(token.raw)))
        elif token.kind == "other":
            self._pending.append((StandaloneTag(tag := _RawHtml(token.raw)), tag))
        elif token.name not in INLINE_ELEMENTS:
            self._finish_unit()
            self.parts.append(self._build_tag(token))
        else:
            tag = self._build_tag(token)
            self._pending.append((_to_node(token, tag), tag))

    def _add_protected(
        self, element: Sequence[HtmlToken], html: _RawHtml, *, is_shown: bool = True
    ) -> None:
        """Add an element that is not translated; an element that is not inline ends the unit."""
        if not _is_inline(element):
            self._finish_unit()
            self.parts.append(html)
            return
        text = " ".join(_get_text(element).split())
        is_long = len(text) > _MAX_PROTECTED_CHARACTERS
        if not is_shown or is_long or not any(map(str.isalnum, text)):
            text = ""
        self._pending.append((StandaloneTag(html, text), html))

    def _finish_unit(self) -> None:
        """Make a unit of the current sentence; the white space around it is copied."""
        pending, self._pending = self._pending, []
        if not any(isinstance(node, str) and has_letter(node) for node, _ in pending):
            self.parts += [html for _, html in pending]
            return
        first, last = pending[0][1].html, pending[-1][1].html
        nodes = [node for node, _ in pending]
        line = self._line - sum(html.html.count("\n") for _, html in pending)
        if isinstance(nodes[0], str):
            nodes[0] = nodes[0].lstrip(_SPACE_CHARACTERS)
            space = first[: len(first) - len(first.lstrip(_SPACE_CHARACTERS))]
            self.parts.append(_RawHtml(space))
            line += space.count("\n")
        self.parts.append(len(self.units))
        if isinstance(nodes[-1], str):
            nodes[-1] = nodes[-1].rstrip(_SPACE_CHARACTERS)
            self.parts.append(_RawHtml(last[len(last.rstrip(_SPACE_CHARACTERS)) :]))
        self.units.append(TextUnit.from_nodes(nodes, f"line {line}"))

    def _is_untranslated(self, token: HtmlToken) -> bool:
        attributes = _get_attributes(token)
        if "translate" in attributes:
            return attributes["translate"].strip().lower() == "no"
        classes = attributes.get("class", "").split()
        return token.name in UNTRANSLATED_ELEMENTS or "notranslate" in classes

    def _build_tag(self, token: HtmlToken) -> _RawHtml:
        """Return a tag in which translated attributes and the language are replaced."""
        tag = _RawHtml(token.raw)
        if token.kind == "end" or self._is_untranslated(token):
            return tag
        attributes = _get_attributes(token)
        for name, start, end, quote in find_attribute_value_spans(token.raw):
            if name in {"lang", "xml:lang"}:
                tag.replacements.append((start, end, quote, None))
            elif _is_translated_attribute(token.name, name, attributes):
                self.units.append(
                    TextUnit(attributes[name], (), f"line {self._line}, attribute {name}")
                )
                tag.replacements.append((start, end, quote, len(self.units) - 1))
        return tag

    def _build_element(self, element: Sequence[HtmlToken]) -> _RawHtml:
        """Return an element whose text is copied and whose attributes are translated."""
        html, offset = _RawHtml("".join(token.raw for token in element)), 0
        for token in element:
            if token.kind == "start":
                html.replacements.extend(
                    (offset + start, offset + end, quote, new)
                    for start, end, quote, new in self._build_tag(token).replacements
                )
            offset += len(token.raw)
        return html


def _to_node(token: HtmlToken, tag: _RawHtml) -> MarkupNode:
    if token.name in VOID_ELEMENTS:
        return StandaloneTag(tag)
    return (ClosingTag if token.kind == "end" else OpeningTag)(token.name, tag)


def _is_inline(tokens: Sequence[HtmlToken]) -> bool:
    tags = (token for token in tokens if token.kind in {"start", "end"})
    return all(token.name in INLINE_ELEMENTS for token in tags)


def _is_numeric_reference(tokens: Sequence[HtmlToken], start: int, end: int) -> bool:
    """Return whether an element is a superscript or linked number that no word continues."""
    first, last = tokens[start], tokens[end - 1]
    if first.kind != "start" or first.name not in {"a", "sup"}:
        return False
    if end - start > _MAX_REFERENCE_TOKENS:
        return False
    element = tokens[start:end]
    if (last.kind, last.name) != ("end", first.name) or not _is_inline(element):
        return False
    text = _get_text(element)
    is_reference = any(map(str.isdigit, text)) if first.name == "a" else bool(text)
    is_continued = (
        end < len(tokens) and tokens[end].kind == "text" and tokens[end].raw[:1].isalnum()
    )
    return is_reference and not has_letter(text) and not is_continued


def _is_note_reference(element: Sequence[HtmlToken]) -> bool:
    """Return whether a number refers to a note; a linked year is part of its sentence instead."""
    href = _get_attributes(element[0]).get("href", "")
    has_bracket = _get_text(element).strip()[:1] in {"[", "("}
    return element[0].name == "sup" or has_bracket or href.startswith("#")


def _get_text(tokens: Sequence[HtmlToken]) -> str:
    return _unescape("".join(token.raw for token in tokens if token.kind == "text"))


def _get_attributes(token: HtmlToken) -> dict[str, str]:
    spans = find_attribute_value_spans(token.raw)
    return {name: _unescape(token.raw[start:end]) for name, start, end, _ in spans}


def _is_translated_attribute(element: str, name: str, attributes: dict[str, str]) -> bool:
    """Return whether the value of an attribute is text for readers."""
    if not has_letter(attributes[name]):
        return False
    if element == "meta":
        key = attributes.get("name") or attributes.get("property") or ""
        return name == "content" and key.lower() in _TRANSLATED_METADATA
    if element == "input" and name == "value":
        return attributes.get("type", "").lower() in {"button", "reset", "submit"}
    is_label = name == "label" and element in {"option", "optgroup", "track"}
    return name in _TRANSLATED_ATTRIBUTES or is_label


def _find_element_ends(tokens: Sequence[HtmlToken]) -> list[int]:
    """Return for each token the index after its element, or after the token if it opens none.

    An element that is never closed ends where the next block element starts or ends.
    """
    ends = [index + 1 for index in range(len(tokens))]
    open_tags: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        if token.kind == "start" and not _is_empty(token):
            open_tags.setdefault(token.name, []).append(index)
        elif token.kind == "end" and open_tags.get(token.name):
            ends[open_tags[token.name].pop()] = index + 1
    unclosed = {index for indices in open_tags.values() for index in indices}
    next_block = len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        if index in unclosed:
            ends[index] = next_block
        if tokens[index].kind in {"start", "end"} and tokens[index].name not in INLINE_ELEMENTS:
            next_block = index
    return ends


def _is_empty(token: HtmlToken) -> bool:
    is_closed = token.name in {"svg", "math"} and token.raw.endswith("/>")
    return token.name in VOID_ELEMENTS or is_closed
