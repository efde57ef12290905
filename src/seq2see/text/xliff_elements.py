"""Units of XLIFF 1.2 and 2.0 files, which are training data or documents."""

from __future__ import annotations

from typing import Literal

from lxml import etree

XliffElementKind = Literal["paired", "open", "close", "protected", "standalone"]
XLIFF_LANGUAGE_ATTRIBUTES = {
    "1": ("source-language", "target-language"),
    "2": ("srcLang", "trgLang"),
}
"""Names of the attributes with the source and target language, by the major version."""


def is_translatable(element: etree._Element) -> bool:
    """Return whether the nearest `translate` attribute, if any, allows translation."""
    elements = [element, *element.iterancestors()]
    return next((one.get("translate") for one in elements if one.get("translate")), "yes") != "no"


def classify_xliff_element(element: etree._Element) -> XliffElementKind:
    """Return whether an element of a segment encloses text, or is a code or protected text."""
    name = etree.QName(element).localname if isinstance(element.tag, str) else ""
    match name:
        case "mrk" if element.get("mtype") == "protected" or element.get("translate") == "no":
            return "protected"
        case "g" | "pc" | "mrk":
            return "paired"
        case "bpt" | "bx" | "sc" | "sm":
            return "open"
        case "ept" | "ex" | "ec" | "em":
            return "close"
        case _:
            return "standalone"
