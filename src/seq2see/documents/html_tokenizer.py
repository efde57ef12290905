"""Split HTML into tokens by the rules of browsers' tokenizers.

The concatenated tokens are the page, character by character: text that is not translated is copied
and cannot change its meaning. Every input is accepted, as in browsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

HtmlTokenKind = Literal["text", "start", "end", "other"]


@dataclass(frozen=True, slots=True)
class HtmlToken:
    """A piece of a page."""

    kind: HtmlTokenKind
    """`other` is what no reader sees: comments, declarations, what stands inside of scripts."""
    raw: str
    name: str = ""
    """Of a tag, in lower case."""


class HtmlAttribute(NamedTuple):
    """An attribute of a tag, and where its value is in the tag's own text."""

    name: str
    start: int
    end: int
    quote: str


RAW_TEXT_ELEMENTS = frozenset(
    {"script", "style", "xmp", "iframe", "noembed", "noframes", "noscript"}
)
"""Elements that hold text for machines, in which no tag but their own end is one."""


RCDATA_ELEMENTS = frozenset({"title", "textarea"})
"""Elements that hold text for people, in which no tag but their own end is one."""


_WHITE = r"\t\n\f\r "


_TAG_NAME = re.compile(rf"</?([A-Za-z][^{_WHITE}/>]*)")


_BETWEEN = re.compile(rf"[{_WHITE}/]*")


_NAME = re.compile(rf"[^{_WHITE}/>][^{_WHITE}/>=]*")  # a = in front is part of the name


_EQUALS = re.compile(rf"[{_WHITE}]*=[{_WHITE}]*")


_BARE = re.compile(rf"[^{_WHITE}>]*")


_COMMENT = re.compile(r"<!--(?:>|->|.*?--!?>)", re.DOTALL)


_BOGUS = re.compile(r"<(?:!|\?|/(?![A-Za-z]))[^>]*>")


_TEXT = re.compile(r"<?[^<]*+(?:<(?![A-Za-z!?/])[^<]*+)*+")  # a < that starts nothing is text


_SCRIPT = re.compile(rf"<!--|-->|<(/?)script(?=[{_WHITE}/>])", re.IGNORECASE)


def tokenize_html(html: str) -> Iterator[HtmlToken]:
    """Yield the tokens of a page or a fragment."""
    place = 0
    while place < len(html):
        token = _next(html, place)
        yield token
        place += len(token.raw)
        if token.kind == "start" and (inside := _raw_text(html, place, token.name)):
            yield inside
            place += len(inside.raw)


def parse_attributes(tag: str) -> list[HtmlAttribute]:
    """Return the attributes of a tag that have a value."""
    found: list[HtmlAttribute] = []
    if "=" in tag:
        _end_of_tag(tag, 0, found)
    return found


def _next(html: str, place: int) -> HtmlToken:
    if html[place] != "<":
        return _text(html, place)
    if name := _TAG_NAME.match(html, place):
        end = _end_of_tag(html, place, [])
        if end is None:  # a browser drops it, and so all that follows
            return HtmlToken("other", html[place:])
        kind: HtmlTokenKind = "end" if html[place + 1] == "/" else "start"
        return HtmlToken(kind, html[place:end], name[1].lower())
    if html.startswith("<!--", place):
        comment = _COMMENT.match(html, place)
        return HtmlToken("other", comment[0] if comment else html[place:])
    if html.startswith(("<!", "<?", "</"), place) and len(html) > place + 2:
        bogus = _BOGUS.match(html, place)
        return HtmlToken("other", bogus[0] if bogus else html[place:])
    return _text(html, place)


def _text(html: str, place: int) -> HtmlToken:
    match = _TEXT.match(html, place)
    assert match
    return HtmlToken("text", match[0])


def _end_of_tag(html: str, place: int, found: list[HtmlAttribute]) -> int | None:
    """Return the place behind a tag, and note its attributes; None if it never ends."""
    name = _TAG_NAME.match(html, place)
    assert name
    start, place = place, name.end()
    while True:
        place = _skipped(_BETWEEN, html, place)
        if place >= len(html):
            return None
        if html[place] == ">":
            return place + 1
        key = html[place : (place := _skipped(_NAME, html, place))]
        if equals := _EQUALS.match(html, place):
            quote = html[equals.end() : equals.end() + 1]
            quote = quote if quote in {'"', "'"} else ""
            begin = equals.end() + len(quote)
            end = html.find(quote, begin) if quote else _skipped(_BARE, html, begin)
            if end < 0:
                return None
            found.append(HtmlAttribute(key.lower(), begin - start, end - start, quote))
            place = end + len(quote)


def _skipped(pattern: re.Pattern[str], html: str, place: int) -> int:
    match = pattern.match(html, place)
    return match.end() if match else place


def _raw_text(html: str, place: int, name: str) -> HtmlToken | None:
    """Return what is inside of an element in which tags are none."""
    if name == "plaintext":
        end = len(html)
    elif name == "script":
        end = _end_of_script(html, place)
    elif name in RAW_TEXT_ELEMENTS | RCDATA_ELEMENTS:
        closing = re.compile(rf"</{name}(?=[{_WHITE}/>])", re.IGNORECASE).search(html, place)
        end = closing.start() if closing else len(html)
    else:
        return None
    inside = html[place:end]
    for_people = name in RCDATA_ELEMENTS and "<" not in inside  # else somebody may read it as tags
    return HtmlToken("text" if for_people else "other", inside) if inside else None


def _end_of_script(html: str, place: int) -> int:
    """Return where a script ends: inside of a comment of its own, not at the end of another."""
    in_comment = in_script = False
    while match := _SCRIPT.search(html, place):
        place = match.end()
        if match[0] == "<!--":
            in_comment = True
            place -= 2  # its dashes may also close it: <!-->
        elif match[0] == "-->":
            in_comment = in_script = False
        elif match[1]:
            if not in_script:
                return match.start()
            in_script = False
        elif in_comment:
            in_script = True
    return len(html)
