"""Units of translation memories (TMX), which are training data or documents."""

from __future__ import annotations

from itertools import chain
from typing import Literal

from lxml import etree

from seq2see.text.languages import is_regional_form, normalize_tag

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

SegmentElementKind = Literal["paired", "open", "close", "standalone"]
_CODE_KINDS: dict[str, SegmentElementKind] = {
    "bpt": "open",
    "ept": "close",
    **dict.fromkeys(("ph", "it", "ut"), "standalone"),
}


def get_variant_language(variant: etree._Element) -> str:
    """Return the language tag of a variant, or ""."""
    return variant.get(XML_LANGUAGE) or variant.get("lang") or ""


def find_variant(unit: etree._Element, language: str) -> etree._Element | None:
    """Return the variant of a unit in a language, or else the first one in a regional form of it.

    `en` matches en-GB and en_GB, and the other way round, but en-GB does not match en-US.
    """
    by_tag = [(get_variant_language(one), one) for one in unit.iterchildren("{*}tuv")]
    same = (one for tag, one in by_tag if normalize_tag(tag) == normalize_tag(language))
    regional = (one for tag, one in by_tag if is_regional_form(tag, language))
    return next(chain(same, regional), None)


def classify_inline_element(element: etree._Element) -> SegmentElementKind:
    """Return whether an element of a segment encloses text, or is a formatting code."""
    if not isinstance(element.tag, str):  # a comment
        return "standalone"
    return _CODE_KINDS.get(etree.QName(element).localname, "paired")
