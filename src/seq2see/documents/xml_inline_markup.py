"""Parse untrusted XML, convert its inline elements to markup nodes and back, and serialize it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from seq2see.errors import InputError
from seq2see.markup.text_units import ClosingTag, MarkupNode, OpeningTag, StandaloneTag

_DECLARATION = re.compile(rb"\s*<\?xml[^>]*\?>\s*")
_INVALID_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_xml(data: bytes, file_name: str, expected_type: str) -> etree._ElementTree:
    """Parse XML.

    Raises InputError if it is not well-formed, or if it declares entities, which could exhaust the
    memory or include other files.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_pis=False
    )
    try:
        tree = etree.ElementTree(etree.fromstring(data, parser))
    except etree.XMLSyntaxError as error:
        raise InputError(f"{file_name} must be {expected_type}, but: {error.msg}") from None
    dtd = tree.docinfo.internalDTD
    if dtd is not None and any(dtd.iterentities()):  # type: ignore[attr-defined]
        raise InputError(
            f"{file_name} must not declare entities, but does: replace them by their text"
        )
    return tree


def serialize_xml(tree: etree._ElementTree, original: bytes) -> bytes:
    """Return XML in the encoding and with the declaration of the original file."""
    encoding = tree.docinfo.encoding or "UTF-8"
    body = original.removeprefix(codecs.BOM_UTF8)
    bom = original[: len(original) - len(body)]
    declaration = _DECLARATION.match(body)
    is_utf_16 = declaration is None and encoding.upper() != "UTF-8"
    content = etree.tostring(tree, encoding=encoding, xml_declaration=is_utf_16)
    assert isinstance(content, bytes)
    if is_utf_16:  # its bytes cannot be split
        return content
    end = b"\n" if body.endswith(b"\n") else b""
    return bom + (declaration[0] if declaration else b"") + content.rstrip(b"\n") + end


def local_name(element: etree._Element) -> str:
    """Return the name of an element without its namespace, or "" for a comment."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def tag_in_same_namespace(element: etree._Element, name: str) -> str:
    """Return the qualified name of a tag in the namespace of an element."""
    return str(etree.QName(etree.QName(element).namespace, name))


def append_text(element: etree._Element, text: str) -> None:
    """Append text to the content of an element, without characters that XML does not allow."""
    text = _INVALID_CHARACTERS.sub("", text)
    last = next(element.iterchildren(reversed=True), None)  # len() would count all children
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text


def insert_element_after(element: etree._Element, new: etree._Element) -> None:
    """Insert an element after its sibling, with the same white space before it."""
    parent = element.getparent()
    assert parent is not None
    new.tail = element.tail
    previous = element.getprevious()
    element.tail = parent.text if previous is None else previous.tail
    parent.insert(parent.index(element) + 1, new)


def has_text(element: etree._Element | None) -> bool:
    """Return whether an element exists and contains text."""
    return element is not None and bool(get_inner_text(element).strip())


def get_inner_text(element: etree._Element) -> str:
    """Return the text of an element and of all elements in it."""
    return "".join(map(str, element.itertext()))


InlineKind = Literal["paired", "open", "close", "standalone", "protected"]
"""How an element inside a text is treated.

paired      its content is translated; the element becomes a pair of tags
open        opening half of two elements
close       closing half of two elements
standalone  copied
protected   copied; its text is shown to the model
"""


@dataclass(frozen=True, slots=True)
class InlineClassification:
    """The kind of an inline element, and the key that it shares with its other half."""

    kind: InlineKind
    pair_key: object = None


InlineClassifier = Callable[[etree._Element], InlineClassification]


def convert_element_to_nodes(
    container: etree._Element, classify: InlineClassifier
) -> Iterator[MarkupNode]:
    """Yield the text of an element and the elements inside it as nodes."""
    if container.text:
        yield container.text
    for child in container:
        yield from _to_nodes(child, classify)
        if child.tail:
            yield child.tail


def _to_nodes(child: etree._Element, classify: InlineClassifier) -> Iterator[MarkupNode]:
    inline = classify(child) if isinstance(child.tag, str) else InlineClassification("standalone")
    match inline.kind:
        case "paired":
            yield OpeningTag(child, child)
            yield from convert_element_to_nodes(child, classify)
            yield ClosingTag(child, child)
        case "open":
            yield OpeningTag(inline.pair_key, child)
        case "close":
            yield ClosingTag(inline.pair_key, child)
        case "protected":
            yield StandaloneTag(child, " ".join(get_inner_text(child).split()))
        case "standalone":
            yield StandaloneTag(child)


def write_markup_nodes_into_element(container: etree._Element, nodes: Iterable[MarkupNode]) -> None:
    """Replace the content of an element by text and copies of the inline elements."""
    for child in list(container):
        container.remove(child)
    container.text = None
    parents = [container]
    for node in nodes:
        if isinstance(node, str):
            append_text(parents[-1], node)
        elif isinstance(node, StandaloneTag) or not isinstance(node.key, etree._Element):
            copy = deepcopy(node.payload)
            copy.tail = None
            parents[-1].append(copy)
        elif isinstance(node, OpeningTag):
            old = node.payload
            parents.append(etree.SubElement(parents[-1], old.tag, dict(old.attrib), old.nsmap))
        else:
            parents.pop()
