"""Parse untrusted XML without entities and network access; convert inline elements to tags and
back.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from seq2see.documents.markup import CloseTag, MarkupNode, OpenTag, StandaloneTag
from seq2see.errors import InputError

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


_DECLARATION = re.compile(rb"\s*<\?xml[^>]*\?>\s*")


_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


InlineKind = Literal["paired", "open", "close", "standalone", "protected"]
"""What an element inside a text is: around words, one half of two, a thing, or kept words."""


@dataclass(frozen=True, slots=True)
class InlineElementType:
    """What an element is, and what it has in common with its other half."""

    kind: InlineKind
    pair_key: object = None


InlineClassifier = Callable[[etree._Element], InlineElementType]


def parse_xml(data: bytes, file_name: str, expected_type: str) -> etree._ElementTree:
    """Read XML. Entities of its own are refused: they may be bombs, or reach for other files."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_pis=False
    )
    try:
        tree = etree.ElementTree(etree.fromstring(data, parser))
    except etree.XMLSyntaxError as error:
        raise InputError(f"{file_name} must be {expected_type}, but: {error.msg}") from None
    declared = tree.docinfo.internalDTD
    if declared is not None and any(declared.iterentities()):  # type: ignore[attr-defined]
        raise InputError(f"{file_name} must have its text written out, but declares entities")
    return tree


def serialize_xml(tree: etree._ElementTree, original: bytes) -> bytes:
    """Write XML in the encoding, and with the declaration, of the file that it came from."""
    encoding = tree.docinfo.encoding or "UTF-8"
    body = original.removeprefix(codecs.BOM_UTF8)
    mark = original[: len(original) - len(body)]
    declaration = _DECLARATION.match(body)
    if declaration is None and encoding.upper() != "UTF-8":  # UTF-16: not to be cut in bytes
        return _bytes(tree, encoding, declaration=True)
    written = _bytes(tree, encoding, declaration=False)
    end = b"\n" if body.endswith(b"\n") else b""
    return mark + (declaration[0] if declaration else b"") + written.rstrip(b"\n") + end


def _bytes(tree: etree._ElementTree, encoding: str, *, declaration: bool) -> bytes:
    written = etree.tostring(tree, encoding=encoding, xml_declaration=declaration)
    assert isinstance(written, bytes)
    return written


def local_name(element: etree._Element) -> str:
    """Return the name of an element without its namespace; of a comment, nothing."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def sibling_tag(element: etree._Element, name: str) -> str:
    """Return the tag of another element in the same namespace."""
    return str(etree.QName(etree.QName(element).namespace, name))


def parse_inline_elements(
    container: etree._Element, classify: InlineClassifier
) -> Iterator[MarkupNode]:
    """Yield the words of an element, and the elements between them."""
    if container.text:
        yield container.text
    for child in container:
        yield from _events_of(child, classify)
        if child.tail:
            yield child.tail


def _events_of(child: etree._Element, classify: InlineClassifier) -> Iterator[MarkupNode]:
    inline = classify(child) if isinstance(child.tag, str) else InlineElementType("standalone")
    match inline.kind:
        case "paired":
            yield OpenTag(key := _Around(child), child)
            yield from parse_inline_elements(child, classify)
            yield CloseTag(key, child)
        case "open":
            yield OpenTag(inline.pair_key, child)
        case "close":
            yield CloseTag(inline.pair_key, child)
        case "protected":
            yield StandaloneTag(child, " ".join(_words(child).split()))
        case "standalone":
            yield StandaloneTag(child)


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """The key of an element that is around words: no other has the same."""

    element: etree._Element


def set_inline_content(container: etree._Element, nodes: Iterable[MarkupNode]) -> None:
    """Put words and copies of the elements between them into an element, which loses its own."""
    for child in list(container):
        container.remove(child)
    container.text = None
    inside = [container]
    for event in nodes:
        if isinstance(event, str):
            append_text(inside[-1], event)
        elif isinstance(event, StandaloneTag) or not isinstance(event.key, _Around):
            copy = deepcopy(event.payload)
            copy.tail = None
            inside[-1].append(copy)
        elif isinstance(event, OpenTag):
            old = event.payload
            inside.append(etree.SubElement(inside[-1], old.tag, dict(old.attrib), old.nsmap))
        else:
            inside.pop()


def append_text(element: etree._Element, text: str) -> None:
    """Put text at the end of an element, without the characters that XML cannot hold."""
    text = _FORBIDDEN.sub("", text)
    last = next(element.iterchildren(reversed=True), None)  # len() would count all of them
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text


def insert_after(element: etree._Element, new: etree._Element) -> None:
    """Put an element behind its elder sister, with the same white space before it."""
    parent = element.getparent()
    assert parent is not None
    new.tail = element.tail
    before = element.getprevious()
    element.tail = parent.text if before is None else before.tail
    parent.insert(parent.index(element) + 1, new)


def has_text(element: etree._Element | None) -> bool:
    """Tell if an element has any text."""
    return element is not None and bool(_words(element).strip())


def _words(element: etree._Element) -> str:
    return "".join(map(str, element.itertext()))
