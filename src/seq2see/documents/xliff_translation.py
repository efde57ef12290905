"""Translate XLIFF 1.2 and 2.0: units without a target get one, marked as machine translation."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from seq2see.documents.inline_xml import (
    InlineClassification,
    convert_element_to_nodes,
    write_markup_nodes_into_element,
)
from seq2see.documents.markup import TextUnit
from seq2see.documents.unit_translator import TextUnitTranslator
from seq2see.documents.xml_parsing_and_editing import (
    has_text,
    insert_element_after,
    local_name,
    parse_xml,
    serialize_xml,
    tag_in_same_namespace,
)
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language

_REVIEW_STATE = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
"""Attributes of a machine-translated target in XLIFF 1.2."""


def translate_file_content(data: bytes, file_name: str, translator: TextUnitTranslator) -> bytes:
    """Translate the units of a file that have no target."""
    tree = parse_xml(data, file_name, "XLIFF")
    root = tree.getroot()
    version = root.get("version", "")
    if local_name(root) != "xliff" or version[:2] not in {"1.", "2."}:
        raise InputError(f"{file_name} must be XLIFF 1 or 2, but is {root.tag} {version} instead")
    read_units = _read_units_v1 if version.startswith("1.") else _read_units_v2
    units = [
        unit
        for unit in read_units(root, file_name, translator)
        if _needs_translation(unit.parent, translator)
    ]
    text_units = [text_unit for unit in units for text_unit in unit.text_units]
    translated = iter(translator.translate(text_units))
    for unit in units:
        results = [next(translated) for _ in unit.slots]
        if not any(result.has_failed for result in results):
            for slot, result in zip(unit.slots, results, strict=True):
                write_markup_nodes_into_element(slot, result.nodes)
            unit.attach_target()
    return serialize_xml(tree, data)


def check_language_attribute(file_name: str, attribute: str, found: str, expected: str) -> None:
    """Raise InputError if a file declares another language than that of the translator."""
    if found and not is_same_language(found, expected):
        raise InputError(
            f"the {attribute} of {file_name} must be {expected}, but is {found} instead"
        )


@dataclass(frozen=True, slots=True)
class _TranslationUnit:
    """A unit or segment without a target, and the target that is created for it."""

    parent: etree._Element
    """The trans-unit (XLIFF 1) or segment (XLIFF 2)."""
    target: etree._Element
    slots: list[etree._Element]
    """Elements that get the translations: the target itself, or the segments inside it."""
    text_units: list[TextUnit]

    def attach_target(self) -> None:
        """Insert the target after the source, or in place of an existing target."""
        old = self.parent.find("{*}target")
        if local_name(self.parent) == "segment":
            self.parent.set("state", "translated")
        if old is not None:
            self.target.tail = old.tail
            self.parent.replace(old, self.target)
            return
        sources = [one for one in self.parent if local_name(one) in {"source", "seg-source"}]
        insert_element_after(sources[-1], self.target)


def _needs_translation(parent: etree._Element, translator: TextUnitTranslator) -> bool:
    """Return whether a unit is translated; count units that have a target already."""
    has_translation = has_text(parent.find("{*}target"))
    translator.report.num_already_translated += has_translation and not translator.overwrite
    return not has_translation or translator.overwrite


def _read_units_v1(
    root: etree._Element, file_name: str, translator: TextUnitTranslator
) -> Iterator[_TranslationUnit]:
    """Yield the units of an XLIFF 1 file."""
    source_language, target_language = translator.source_language, translator.target_language
    for file in root.iter("{*}file"):
        declared_source = file.get("source-language", "")
        declared_target = file.get("target-language", "")
        check_language_attribute(file_name, "source-language", declared_source, source_language)
        check_language_attribute(file_name, "target-language", declared_target, target_language)
        if not declared_target:
            file.set("target-language", target_language)
    for parent in root.iter("{*}trans-unit"):
        if parent.find("{*}source") is not None and _is_translatable(parent):
            yield _build_unit_v1(parent)


def _build_unit_v1(parent: etree._Element) -> _TranslationUnit:
    location = f"unit {parent.get('id', '')}"
    source, segmented = parent.find("{*}source"), parent.find("{*}seg-source")
    assert source is not None
    target = etree.Element(tag_in_same_namespace(source, "target"), _REVIEW_STATE)
    slots = _copy_segments(segmented, target) if segmented is not None else []
    if not slots:
        return _TranslationUnit(parent, target, [target], [_build_text_unit(source, location)])
    text_units = [_build_text_unit(slot, location) for slot in slots]
    return _TranslationUnit(parent, target, slots, text_units)


def _build_text_unit(element: etree._Element, location: str) -> TextUnit:
    return TextUnit.from_nodes(convert_element_to_nodes(element, _classify), location)


def _copy_segments(segmented: etree._Element, target: etree._Element) -> list[etree._Element]:
    """Copy the segments of a source to its target and return the outermost segments."""
    target.text = segmented.text
    target.extend(deepcopy(list(segmented)))
    segments = [one for one in target.iter("{*}mrk") if _is_segment(one)]
    return [one for one in segments if not any(map(_is_segment, one.iterancestors()))]


def _is_segment(element: etree._Element) -> bool:
    return element.get("mtype") == "seg"


def _read_units_v2(
    root: etree._Element, file_name: str, translator: TextUnitTranslator
) -> Iterator[_TranslationUnit]:
    """Yield the segments of an XLIFF 2 file."""
    check_language_attribute(
        file_name, "srcLang", root.get("srcLang", ""), translator.source_language
    )
    check_language_attribute(
        file_name, "trgLang", root.get("trgLang", ""), translator.target_language
    )
    if not root.get("trgLang"):
        root.set("trgLang", translator.target_language)
    for segment in root.iter("{*}segment"):
        source = segment.find("{*}source")
        if source is not None and _is_translatable(segment):
            unit = segment.getparent()
            location = f"unit {unit.get('id', '') if unit is not None else ''}"
            target = etree.Element(tag_in_same_namespace(source, "target"))
            text_units = [_build_text_unit(source, location)]
            yield _TranslationUnit(segment, target, [target], text_units)


def _is_translatable(element: etree._Element) -> bool:
    """Return whether the nearest `translate` attribute, if any, allows translation."""
    elements = [element, *element.iterancestors()]
    return next((one.get("translate") for one in elements if one.get("translate")), "yes") != "no"


def _classify(element: etree._Element) -> InlineClassification:
    """Return the type of an element inside a text, in either version."""
    name, key = local_name(element), element.get("rid") or element.get("id")
    match name:
        case "mrk" if element.get("mtype") == "protected" or element.get("translate") == "no":
            return InlineClassification("protected")
        case "g" | "pc" | "mrk":
            return InlineClassification("paired")
        case "bpt" | "bx" | "sc" | "sm":
            return InlineClassification("open", key)
        case "ept" | "ex":
            return InlineClassification("close", key)
        case "ec" | "em":
            return InlineClassification("close", element.get("startRef"))
        case _:
            return InlineClassification("standalone")
