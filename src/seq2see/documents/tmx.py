"""Translation memories: units without the target language get it."""

from __future__ import annotations

from lxml import etree

from seq2see.documents import inline_xml
from seq2see.documents.document_translator import Job
from seq2see.documents.markup import Passage
from seq2see.errors import InputError
from seq2see.text.languages import is_same

CREATOR = "seq2see"
"""Who made a translation, so that nobody takes it for a person's."""


def translate(data: bytes, name: str, job: Job) -> bytes:
    """Translate the units of a memory that have no translation yet."""
    tree = inline_xml.parse(data, name, "TMX")
    units = list(tree.getroot().iter("{*}tu"))
    sources = [_variant(unit, job.source) for unit in units]
    if units and not any(source is not None for source in sources):
        raise InputError(f"{name} must have units in {job.source}, but has none")
    rows = [
        (unit, variant, number)
        for number, (unit, variant) in enumerate(zip(units, sources, strict=True), 1)
        if variant is not None and _is_wanted(unit, job)
    ]
    passages = [
        Passage.of(inline_xml.events(_segment(variant), _inline), f"unit {number}")
        for _, variant, number in rows
    ]
    for (unit, variant, _), result in zip(rows, job.translate(passages), strict=True):
        if not result.has_failed:
            inline_xml.fill(_segment(_target(unit, variant, job.target)), result.events)
    return inline_xml.serialise(tree, data)


def _is_wanted(unit: etree._Element, job: Job) -> bool:
    target = _variant(unit, job.target)
    has_one = target is not None and inline_xml.has_words(_segment(target))
    job.report.kept += has_one and not job.overwrite
    return not has_one or job.overwrite


def _variant(unit: etree._Element, language: str) -> etree._Element | None:
    """Return the variant of a unit in a language, or else in one of its regions."""
    variants = list(unit.iterchildren("{*}tuv"))
    exact = [one for one in variants if _language(one).lower() == language.lower()]
    kin = [one for one in variants if is_same(_language(one), language)]
    return next(iter(exact + kin), None)


def _language(variant: etree._Element) -> str:
    return variant.get(inline_xml.XML_LANGUAGE) or variant.get("lang") or ""


def _segment(variant: etree._Element) -> etree._Element:
    segment = variant.find("{*}seg")
    return (
        etree.SubElement(variant, inline_xml.sister(variant, "seg")) if segment is None else segment
    )


def _target(unit: etree._Element, source: etree._Element, language: str) -> etree._Element:
    """Return the variant in the target language, which is made if there is none."""
    found = _variant(unit, language)
    if found is not None:
        return found
    new = etree.Element(source.tag, {inline_xml.XML_LANGUAGE: language, "creationid": CREATOR})
    etree.SubElement(new, inline_xml.sister(source, "seg"))
    inline_xml.insert_behind(source, new)
    return new


def _inline(element: etree._Element) -> inline_xml.Inline:
    match inline_xml.local_name(element):
        case "hi":
            return inline_xml.Inline("around")
        case "bpt":
            return inline_xml.Inline("opening", element.get("i"))
        case "ept":
            return inline_xml.Inline("closing", element.get("i"))
        case _:
            return inline_xml.Inline("thing")
