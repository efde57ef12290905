"""Convert inline elements of XML to markup nodes and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from seq2see.documents.markup import ClosingTag, MarkupNode, OpeningTag, StandaloneTag
from seq2see.documents.xml_parsing_and_editing import append_text, get_inner_text

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
            yield OpeningTag(key := _PairedKey(child), child)
            yield from convert_element_to_nodes(child, classify)
            yield ClosingTag(key, child)
        case "open":
            yield OpeningTag(inline.pair_key, child)
        case "close":
            yield ClosingTag(inline.pair_key, child)
        case "protected":
            yield StandaloneTag(child, " ".join(get_inner_text(child).split()))
        case "standalone":
            yield StandaloneTag(child)


@dataclass(frozen=True, slots=True, eq=False)
class _PairedKey:
    """Unique key of the two tags of a paired element."""

    element: etree._Element


def write_markup_nodes_into_element(container: etree._Element, nodes: Iterable[MarkupNode]) -> None:
    """Replace the content of an element by text and copies of the inline elements."""
    for child in list(container):
        container.remove(child)
    container.text = None
    parents = [container]
    for node in nodes:
        if isinstance(node, str):
            append_text(parents[-1], node)
        elif isinstance(node, StandaloneTag) or not isinstance(node.key, _PairedKey):
            copy = deepcopy(node.payload)
            copy.tail = None
            parents[-1].append(copy)
        elif isinstance(node, OpeningTag):
            old = node.payload
            parents.append(etree.SubElement(parents[-1], old.tag, dict(old.attrib), old.nsmap))
        else:
            parents.pop()
