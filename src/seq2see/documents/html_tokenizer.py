"""Split HTML into tokens by the rules of browsers' tokenizers.

The concatenated tokens are the page, character by character: what is not translated is copied and
cannot change its meaning. Every input is accepted, as in browsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from seq2see.cancellation import check_cancelled

HtmlTokenKind = Literal["text", "start", "end", "other"]


@dataclass(frozen=True, slots=True)
class HtmlToken:
    """A text, a tag, or another part of a page."""

    kind: HtmlTokenKind
    """`other` is invisible: comments, declarations, the content of scripts."""
    raw: str
    """The HTML of the token."""
    name: str = ""
    """Name of a tag in lower case."""


class HtmlAttributeSpan(NamedTuple):
    """An attribute of a tag, with the offsets of its value in the HTML of the tag."""

    name: str
    start: int
    end: int
    quote: str


RAW_TEXT_ELEMENTS = frozenset(
    {"script", "style", "xmp", "iframe", "noembed", "noframes", "noscript"}
)
"""Elements whose content is not shown as text. Only their own closing tag ends them."""
RCDATA_ELEMENTS = frozenset({"title", "textarea"})
"""Elements with text that cannot contain tags. Only their own closing tag ends them."""

_SPACE = r"\t\n\f\r "
_ATTRIBUTE = re.compile(
    rf"([^{_SPACE}/>][^{_SPACE}/>=]*+)"  # a leading = is part of the name
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+"
    rf"""(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<unquoted>(?!["'])[^{_SPACE}>]*+))"""
    rf"|(?![{_SPACE}]*+=))"
)
_QUOTES = {"double": '"', "single": "'", "unquoted": ""}
_TAG_NAME = re.compile(rf"</?([A-Za-z][^{_SPACE}/>]*+)")
_TAG_REST = re.compile(rf"(?:[{_SPACE}/]*+{_ATTRIBUTE.pattern})*+[{_SPACE}/]*+>")
_COMMENT = re.compile(r"<!--(?:>|->|.*?--!?>)", re.DOTALL)
_BOGUS_COMMENT = re.compile(r"<(?:!|\?|/(?![A-Za-z]))[^>]*>")
_TEXT = re.compile(r"<?[^<]*+(?:<(?![A-Za-z!?/])[^<]*+)*+")  # a < that starts no tag is text
_SCRIPT_MARKUP = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE)


def tokenize_html(html: str) -> Iterator[HtmlToken]:
    """Yield the tokens of a page or a fragment."""
    offset = 0
    while offset < len(html):
        check_cancelled()
        token = _read_token(html, offset)
        yield token
        offset += len(token.raw)
        if token.kind == "start" and (content := _read_raw_text(html, offset, token.name)):
            yield content
            offset += len(content.raw)


def find_attribute_value_spans(tag: str) -> list[HtmlAttributeSpan]:
    """Return the attributes of a tag that have a value; like browsers, the first of each name."""
    tag_name = _TAG_NAME.match(tag)
    assert tag_name
    spans: dict[str, HtmlAttributeSpan] = {}
    for match in _ATTRIBUTE.finditer(tag, tag_name.end()):
        if (group := match.lastgroup) in _QUOTES:
            name = match[1].lower()
            spans.setdefault(name, HtmlAttributeSpan(name, *match.span(group), _QUOTES[group]))
    return list(spans.values())


def _read_token(html: str, offset: int) -> HtmlToken:
    if name := _TAG_NAME.match(html, offset):
        rest = _TAG_REST.match(html, name.end())
        if rest is None:  # browsers ignore an unclosed tag and everything after it
            return HtmlToken("other", html[offset:])
        kind: HtmlTokenKind = "end" if html[offset + 1] == "/" else "start"
        return HtmlToken(kind, name[0] + rest[0], name[1].lower())
    if html.startswith(("<!", "<?", "</"), offset) and len(html) > offset + 2:
        pattern = _COMMENT if html.startswith("<!--", offset) else _BOGUS_COMMENT
        comment = pattern.match(html, offset)
        return HtmlToken("other", comment[0] if comment else html[offset:])
    text = _TEXT.match(html, offset)
    assert text
    return HtmlToken("text", text[0])


def _read_raw_text(html: str, offset: int, name: str) -> HtmlToken | None:
    """Return the content of an element that cannot contain tags, or None for other elements."""
    if name == "plaintext":
        end = len(html)
    elif name == "script":
        end = _find_script_end(html, offset)
    elif name in RAW_TEXT_ELEMENTS | RCDATA_ELEMENTS:
        close_tag = re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE).search(html, offset)
        end = close_tag.start() if close_tag else len(html)
    else:
        return None
    content = html[offset:end]
    # Content with "<" is not translated, because another parser may find tags in it.
    is_text = name in RCDATA_ELEMENTS and "<" not in content
    return HtmlToken("text" if is_text else "other", content) if content else None


def _find_script_end(html: str, offset: int) -> int:
    """Return the offset where a script ends; a script nested in a comment does not end it."""
    in_comment = in_nested_script = False
    while match := _SCRIPT_MARKUP.search(html, offset):
        offset = match.end()
        if match[0] == "<!--":
            in_comment = True
            offset -= 2  # its dashes may also close it: <!-->
        elif match[0] == "-->":
            in_comment = in_nested_script = False
        elif match[1]:
            if not in_nested_script:
                return match.start()
            in_nested_script = False
        elif in_comment:
            in_nested_script = True
    return len(html)
