"""Translate XLIFF 1.2 and 2.0: units without a target get one, marked as machine translation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from seq2see.documents.markup import TextUnit
from seq2see.documents.parsed_document import (
    BilingualDocument,
    DocumentLanguages,
    ParsedDocument,
    UnitTranslation,
)
from seq2see.documents.xml_inline_markup import (
    InlineClassification,
    convert_element_to_nodes,
    has_text,
    insert_element_after,
    local_name,
    parse_xml,
    serialize_xml,
    tag_in_same_namespace,
    write_markup_nodes_into_element,
)
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language

_LANGUAGE_ATTRIBUTES = {
    "1": ("source-language", "target-language"),
    "2": ("srcLang", "trgLang"),
}
"""Names of the attributes with the source and target language, by the major version."""
_REVIEW_STATE = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
"""Attributes of a machine-translated target in XLIFF 1.2."""


def parse(data: bytes, file_name: str) -> BilingualDocument:
    """Parse a file; each unit or segment is a unit."""
    tree = parse_xml(data, file_name, "XLIFF")
    root = tree.getroot()
    version = root.get("version", "")
    if local_name(root) != "xliff" or version[:2] not in {"1.", "2."}:
        raise InputError(f"{file_name} must be XLIFF 1 or 2, but is {root.tag} {version} instead")
    read_units = _read_units_v1 if version.startswith("1.") else _read_units_v2
    names = _LANGUAGE_ATTRIBUTES[version[0]]
    declarations = list(root.iter("{*}file")) if version[0] == "1" else [root]

    def select(languages: DocumentLanguages, overwrite: bool) -> ParsedDocument[bytes]:
        for declaration in declarations:
            for name, expected in zip(names, languages, strict=True):
                check_language_attribute(file_name, name, declaration.get(name, ""), expected)
        units = list(read_units(root))
        selected = [unit for unit in units if overwrite or not unit.has_translation]

        def render(translations: Sequence[UnitTranslation], languages: DocumentLanguages) -> bytes:
            for declaration in declarations:
                if not declaration.get(names[1]):
                    declaration.set(names[1], languages.target)
            _attach_targets(selected, translations)
            return serialize_xml(tree, data)

        text_units = [text_unit for unit in selected for text_unit in unit.text_units]
        return ParsedDocument(text_units, render, len(units) - len(selected))

    return BilingualDocument(select)


def _attach_targets(
    units: Iterable[_TranslationUnit], translations: Iterable[UnitTranslation]
) -> None:
    """Write the translations of units into their targets, except where a sentence failed."""
    remaining = iter(translations)
    for unit in units:
        results = [next(remaining) for _ in unit.slots]
        if not any(result.has_failed for result in results):
            for slot, result in zip(unit.slots, results, strict=True):
                write_markup_nodes_into_element(slot, result.nodes)
            unit.attach_target()


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

    @property
    def has_translation(self) -> bool:
        """Return whether there is a target with text already."""
        return has_text(self.parent.find("{*}target"))

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


def _read_units_v1(root: etree._Element) -> Iterator[_TranslationUnit]:
    """Yield the units of an XLIFF 1 file."""
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


def _read_units_v2(root: etree._Element) -> Iterator[_TranslationUnit]:
    """Yield the segments of an XLIFF 2 file."""
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
