"""Translate translation memories (TMX): units without the target language get a translation."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from seq2see.documents.parsed_document import (
    BilingualDocument,
    BilingualUnit,
    DocumentLanguages,
    UnitTranslation,
)
from seq2see.documents.xml_inline_markup import (
    InlineClassification,
    convert_element_to_nodes,
    has_text,
    insert_element_after,
    parse_xml,
    serialize_xml,
    tag_in_same_namespace,
    write_markup_nodes_into_element,
)
from seq2see.errors import InputError
from seq2see.markup.text_units import TextUnit
from seq2see.text.tmx_elements import XML_LANGUAGE, classify_inline_element, find_variant

CREATION_ID = "seq2see"
"""Author of a translation, which marks it as machine translation."""


def parse(data: bytes, file_name: str) -> BilingualDocument:
    """Parse a memory; each segment in the source language is a unit."""
    tree = parse_xml(data, file_name, "TMX")
    elements = list(tree.getroot().iter("{*}tu"))

    def read_units(languages: DocumentLanguages) -> list[BilingualUnit]:
        units = [
            _build_unit(element, source, languages.target, f"unit {number}")
            for number, element in enumerate(elements, 1)
            if (source := find_variant(element, languages.source)) is not None
        ]
        if elements and not units:
            raise InputError(f"{file_name} must have units in {languages.source}, but has none")
        return units

    return BilingualDocument(read_units, lambda _: serialize_xml(tree, data))


def _build_unit(
    element: etree._Element, source: etree._Element, language: str, location: str
) -> BilingualUnit:
    nodes = convert_element_to_nodes(_get_segment(source), _classify)
    target = find_variant(element, language)

    def write(translations: Sequence[UnitTranslation]) -> None:
        segment = _get_segment(_get_target(element, source, language))
        write_markup_nodes_into_element(segment, translations[0].nodes)

    has_translation = target is not None and has_text(_get_segment(target))
    return BilingualUnit([TextUnit.from_nodes(nodes, location)], has_translation, write)


def _get_segment(variant: etree._Element) -> etree._Element:
    """Return the segment of a variant, which is created if it is missing."""
    segment = variant.find("{*}seg")
    if segment is None:
        return etree.SubElement(variant, tag_in_same_namespace(variant, "seg"))
    return segment


def _get_target(unit: etree._Element, source: etree._Element, language: str) -> etree._Element:
    """Return the variant in the target language, which is created if it is missing.

    It is marked as machine translation, also if it contained a translation by a person.
    """
    target = find_variant(unit, language)
    if target is None:
        target = etree.Element(source.tag, {XML_LANGUAGE: language})
        etree.SubElement(target, tag_in_same_namespace(source, "seg"))
        insert_element_after(source, target)
    for name in ("creationdate", "changeid", "changedate"):
        target.attrib.pop(name, "")
    target.set("creationid", CREATION_ID)
    return target


def _classify(element: etree._Element) -> InlineClassification:
    """Return the type of an element inside a segment."""
    kind = classify_inline_element(element)
    return InlineClassification(kind, element.get("i") if kind in {"open", "close"} else None)
