"""Translation memories: units without the target language get it."""

from __future__ import annotations

from lxml import etree

from seq2see.documents import inline_xml
from seq2see.documents.document_translator import DocumentTranslator
from seq2see.documents.markup import TextUnit
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language

CREATION_ID = "seq2see"
"""Who made a translation, so that nobody takes it for a person's."""


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate the units of a memory that have no translation yet."""
    tree = inline_xml.parse_xml(data, file_name, "TMX")
    units = list(tree.getroot().iter("{*}tu"))
    sources = [_variant(unit, translator.source_language) for unit in units]
    if units and not any(source is not None for source in sources):
        raise InputError(
            f"{file_name} must have units in {translator.source_language}, but has none"
        )
    rows = [
        (unit, variant, number)
        for number, (unit, variant) in enumerate(zip(units, sources, strict=True), 1)
        if variant is not None and _is_wanted(unit, translator)
    ]
    passages = [
        TextUnit.from_nodes(
            inline_xml.parse_inline_elements(_segment(variant), _inline), f"unit {number}"
        )
        for _, variant, number in rows
    ]
    for (unit, variant, _), result in zip(rows, translator.translate(passages), strict=True):
        if not result.has_failed:
            inline_xml.set_inline_content(
                _segment(_target(unit, variant, translator.target_language)), result.nodes
            )
    return inline_xml.serialize_xml(tree, data)


def _is_wanted(unit: etree._Element, job: DocumentTranslator) -> bool:
    target = _variant(unit, job.target_language)
    has_one = target is not None and inline_xml.has_text(_segment(target))
    job.report.num_already_translated += has_one and not job.overwrite
    return not has_one or job.overwrite


def _variant(unit: etree._Element, language: str) -> etree._Element | None:
    """Return the variant of a unit in a language, or else in one of its regions."""
    variants = list(unit.iterchildren("{*}tuv"))
    exact = [one for one in variants if _language(one).lower() == language.lower()]
    kin = [one for one in variants if is_same_language(_language(one), language)]
    return next(iter(exact + kin), None)


def _language(variant: etree._Element) -> str:
    return variant.get(inline_xml.XML_LANGUAGE) or variant.get("lang") or ""


def _segment(variant: etree._Element) -> etree._Element:
    segment = variant.find("{*}seg")
    return (
        etree.SubElement(variant, inline_xml.sibling_tag(variant, "seg"))
        if segment is None
        else segment
    )


def _target(unit: etree._Element, source: etree._Element, language: str) -> etree._Element:
    """Return the variant in the target language, which is made if there is none."""
    found = _variant(unit, language)
    if found is not None:
        return found
    new = etree.Element(source.tag, {inline_xml.XML_LANGUAGE: language, "creationid": CREATION_ID})
    etree.SubElement(new, inline_xml.sibling_tag(source, "seg"))
    inline_xml.insert_after(source, new)
    return new


def _inline(element: etree._Element) -> inline_xml.InlineElementType:
    match inline_xml.local_name(element):
        case "hi":
            return inline_xml.InlineElementType("paired")
        case "bpt":
            return inline_xml.InlineElementType("open", element.get("i"))
        case "ept":
            return inline_xml.InlineElementType("close", element.get("i"))
        case _:
            return inline_xml.InlineElementType("standalone")
