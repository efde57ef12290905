"""Translate XLIFF 1.2 and 2.0: units without a target get one, marked as machine translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

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
    local_name,
    parse_xml,
    serialize_xml,
    tag_in_same_namespace,
    write_markup_nodes_into_element,
)
from seq2see.errors import InputError
from seq2see.markup.text_units import TextUnit
from seq2see.text.languages import is_same_language
from seq2see.text.xliff_elements import (
    XLIFF_LANGUAGE_ATTRIBUTES,
    classify_xliff_element,
    is_translatable,
)

_REVIEW_STATE = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
"""Attributes of a machine-translated target in XLIFF 1.2."""


def parse(data: bytes, file_name: str) -> BilingualDocument:
    """Parse a file; each unit or segment is a unit."""
    tree = parse_xml(data, file_name, "XLIFF")
    root = tree.getroot()
    version = root.get("version", "")
    if local_name(root) != "xliff" or version[:2] not in {"1.", "2."}:
        raise InputError(f"{file_name} must be XLIFF 1 or 2, but is {root.tag} {version} instead")
    names = XLIFF_LANGUAGE_ATTRIBUTES[version[0]]
    declarations = list(root.iter("{*}file")) if version[0] == "1" else [root]

    def read_units(languages: DocumentLanguages) -> list[BilingualUnit]:
        for declaration in declarations:
            for name, expected in zip(names, languages, strict=True):
                found = declaration.get(name)
                if found and not is_same_language(found, expected):
                    raise InputError(
                        f"the {name} of {file_name} must be {expected}, but is {found} instead"
                    )
        return list(_read_units(root))

    def render(languages: DocumentLanguages) -> bytes:
        for declaration in declarations:
            if not declaration.get(names[1]):
                declaration.set(names[1], languages.target)
        return serialize_xml(tree, data)

    return BilingualDocument(read_units, render)


def _build_unit(parent: etree._Element, source: etree._Element, unit_id: str) -> BilingualUnit:
    """Return a trans-unit (XLIFF 1) or segment (XLIFF 2) with the target that is created for it."""
    is_segment = local_name(parent) == "segment"
    target = etree.Element(
        tag_in_same_namespace(source, "target"), {} if is_segment else _REVIEW_STATE
    )
    segmented = parent.find("{*}seg-source")
    # The elements that get translations are the target itself, or the segments inside it.
    slots = [] if segmented is None else _copy_segments(segmented, target)
    nodes_of_sources = [convert_element_to_nodes(one, _classify) for one in slots or [source]]
    text_units = [TextUnit.from_nodes(nodes, f"unit {unit_id}") for nodes in nodes_of_sources]

    def write(translations: Sequence[UnitTranslation]) -> None:
        for slot, translation in zip(slots or [target], translations, strict=True):
            write_markup_nodes_into_element(slot, translation.nodes)
        if is_segment:
            parent.set("state", "translated")
        _attach_target(parent, target)

    return BilingualUnit(text_units, has_text(parent.find("{*}target")), write)


def _attach_target(parent: etree._Element, target: etree._Element) -> None:
    """Insert a target after the source, or in place of an existing target."""
    old = parent.find("{*}target")
    if old is not None:
        target.tail = old.tail
        parent.replace(old, target)
    else:
        sources = [one for one in parent if local_name(one) in {"source", "seg-source"}]
        insert_element_after(sources[-1], target)


def _copy_segments(segmented: etree._Element, target: etree._Element) -> list[etree._Element]:
    """Copy the segments of a source to its target and return the outermost segments."""
    target.text = segmented.text
    target.extend(deepcopy(list(segmented)))
    segments = [one for one in target.iter("{*}mrk") if _is_segment(one)]
    return [one for one in segments if not any(map(_is_segment, one.iterancestors()))]


def _is_segment(element: etree._Element) -> bool:
    return element.get("mtype") == "seg"


def _read_units(root: etree._Element) -> Iterator[BilingualUnit]:
    """Yield the trans-units of an XLIFF 1 file, or the segments of an XLIFF 2 file."""
    for parent in root.iter("{*}trans-unit", "{*}segment"):
        source, unit = parent.find("{*}source"), parent.getparent()
        if source is not None and unit is not None and is_translatable(parent):
            named = unit if local_name(parent) == "segment" else parent
            yield _build_unit(parent, source, named.get("id", ""))


def _classify(element: etree._Element) -> InlineClassification:
    """Return the type of an element inside a text, in either version."""
    kind = classify_xliff_element(element)
    if kind not in {"open", "close"}:
        return InlineClassification(kind)
    is_reference = local_name(element) in {"ec", "em"}
    key = element.get("startRef") if is_reference else element.get("rid") or element.get("id")
    return InlineClassification(kind, key)
