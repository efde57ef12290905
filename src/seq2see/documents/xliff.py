"""Translate XLIFF 1.2 and 2.0: units without a target get one, marked as machine translation."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from seq2see.documents import inline_xml
from seq2see.documents.document_translator import DocumentTranslator
from seq2see.documents.markup import TextUnit
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language


def check_language(file_name: str, attribute: str, found: str, expected: str) -> None:
    """Raise an error if a file is in another language than the translator."""
    if found and not is_same_language(found, expected):
        raise InputError(
            f"the {attribute} of {file_name} must be {expected}, but is {found} instead"
        )


_REVIEW = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
"""What a target of XLIFF 1.2 says about itself."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """What gets a translation, and the target that is made for it."""

    owner: etree._Element
    """The trans-unit, or the segment."""
    target: etree._Element
    slots: list[etree._Element]
    """Where the translations go: the target itself, or the segments inside it."""
    passages: list[TextUnit]

    def attach(self) -> None:
        """Put the target behind the source, or in the place of an old one."""
        old = self.owner.find("{*}target")
        if inline_xml.local_name(self.owner) == "segment":
            self.owner.set("state", "translated")
        if old is not None:
            self.target.tail = old.tail
            self.owner.replace(old, self.target)
            return
        sources = [
            one for one in self.owner if inline_xml.local_name(one) in {"source", "seg-source"}
        ]
        inline_xml.insert_after(sources[-1], self.target)


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate the units of a file that have no target yet."""
    tree = inline_xml.parse_xml(data, file_name, "XLIFF")
    root = tree.getroot()
    version = root.get("version", "")
    if inline_xml.local_name(root) != "xliff" or version[:2] not in {"1.", "2."}:
        raise InputError(f"{file_name} must be XLIFF 1 or 2, but is {root.tag} {version} instead")
    read = _first if version.startswith("1.") else _second
    units = [
        unit for unit in read(root, file_name, translator) if _is_wanted(unit.owner, translator)
    ]
    found = iter(translator.translate([passage for unit in units for passage in unit.passages]))
    for unit in units:
        results = [next(found) for _ in unit.slots]
        if not any(result.has_failed for result in results):
            for slot, result in zip(unit.slots, results, strict=True):
                inline_xml.set_inline_content(slot, result.nodes)
            unit.attach()
    return inline_xml.serialize_xml(tree, data)


def _is_wanted(owner: etree._Element, job: DocumentTranslator) -> bool:
    has_one = inline_xml.has_text(owner.find("{*}target"))
    job.report.num_already_translated += has_one and not job.overwrite
    return not has_one or job.overwrite


def _first(root: etree._Element, name: str, job: DocumentTranslator) -> Iterator[_Unit]:
    """Yield the units of XLIFF 1."""
    for file in root.iter("{*}file"):
        check_language(
            name, "source-language", file.get("source-language", ""), job.source_language
        )
        check_language(
            name, "target-language", file.get("target-language", ""), job.target_language
        )
        if not file.get("target-language"):
            file.set("target-language", job.target_language)
    for owner in root.iter("{*}trans-unit"):
        if owner.find("{*}source") is not None and _may_change(owner):
            yield _first_unit(owner)


def _first_unit(owner: etree._Element) -> _Unit:
    place = f"unit {owner.get('id', '')}"
    source, segmented = owner.find("{*}source"), owner.find("{*}seg-source")
    assert source is not None
    target = etree.Element(inline_xml.sibling_tag(source, "target"), _REVIEW)
    slots = _segments(segmented, target) if segmented is not None else []
    if not slots:
        return _Unit(
            owner,
            target,
            [target],
            [TextUnit.from_nodes(inline_xml.parse_inline_elements(source, _inline), place)],
        )
    passages = [
        TextUnit.from_nodes(inline_xml.parse_inline_elements(slot, _inline), place)
        for slot in slots
    ]
    return _Unit(owner, target, slots, passages)


def _segments(segmented: etree._Element, target: etree._Element) -> list[etree._Element]:
    """Copy the segments of a source to its target, and return the outermost ones."""
    target.text = segmented.text
    target.extend(deepcopy(list(segmented)))
    found = [one for one in target.iter("{*}mrk") if one.get("mtype") == "seg"]
    return [one for one in found if not any(a.get("mtype") == "seg" for a in one.iterancestors())]


def _second(root: etree._Element, name: str, job: DocumentTranslator) -> Iterator[_Unit]:
    """Yield the segments of XLIFF 2."""
    check_language(name, "srcLang", root.get("srcLang", ""), job.source_language)
    check_language(name, "trgLang", root.get("trgLang", ""), job.target_language)
    if not root.get("trgLang"):
        root.set("trgLang", job.target_language)
    for owner in root.iter("{*}segment"):
        source = owner.find("{*}source")
        if source is not None and _may_change(owner):
            unit = owner.getparent()
            place = f"unit {unit.get('id', '') if unit is not None else ''}"
            target = etree.Element(inline_xml.sibling_tag(source, "target"))
            yield _Unit(
                owner,
                target,
                [target],
                [TextUnit.from_nodes(inline_xml.parse_inline_elements(source, _inline), place)],
            )


def _may_change(element: etree._Element) -> bool:
    """Tell if nothing around an element forbids its translation; the nearest word counts."""
    around = [element, *element.iterancestors()]
    return next((one.get("translate") for one in around if one.get("translate")), "yes") != "no"


def _inline(element: etree._Element) -> inline_xml.InlineElementType:
    """Tell what an element inside a text is, in either version."""
    name, key = inline_xml.local_name(element), element.get("rid") or element.get("id")
    match name:
        case "mrk" if element.get("mtype") == "protected" or element.get("translate") == "no":
            return inline_xml.InlineElementType("protected")
        case "g" | "pc" | "mrk":
            return inline_xml.InlineElementType("paired")
        case "bpt" | "bx" | "sc" | "sm":
            return inline_xml.InlineElementType("open", key)
        case "ept" | "ex":
            return inline_xml.InlineElementType("close", key)
        case "ec" | "em":
            return inline_xml.InlineElementType("close", element.get("startRef"))
        case _:
            return inline_xml.InlineElementType("standalone")
