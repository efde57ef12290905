"""Units of translation memories (TMX), which are training data or documents."""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import Literal

from lxml import etree

from seq2see.text.languages import is_regional_form, normalize_tag

_NO_MATCH = 2
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
    variants = [
        (_rank_match(get_variant_language(variant), language), variant)
        for variant in unit.iterchildren("{*}tuv")
    ]
    rank, variant = min(variants, key=itemgetter(0), default=(_NO_MATCH, None))
    return variant if rank < _NO_MATCH else None


@lru_cache(256)
def _rank_match(tag: str, language: str) -> int:
    """Return 0 for the same tag, 1 for a regional form, 2 for another language."""
    if normalize_tag(tag) == normalize_tag(language):
        return 0
    return 1 if is_regional_form(tag, language) else _NO_MATCH


def classify_inline_element(element: etree._Element) -> SegmentElementKind:
    """Return whether an element of a segment encloses text, or is a formatting code."""
    if not isinstance(element.tag, str):  # a comment
        return "standalone"
    return _CODE_KINDS.get(etree.QName(element).localname, "paired")
