"""Translation memories (TMX) and XLIFF files.

Formatting codes inside the text are left out. White space around a line break becomes one space.
Files are parsed element by element, so that memory does not grow with their size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from lxml import etree

from seq2see.data.formats.opened_corpus import (
    CorpusRequest,
    LanguagePair,
    OpenedCorpus,
    shorten_language_tags,
)
from seq2see.data.readers import SentencePair, SkippedUnitCallback, open_decompressed_binary
from seq2see.errors import InputError
from seq2see.text.languages import is_same_language, normalize_tag, primary_language
from seq2see.text.tmx_elements import classify_inline_element, find_variant, get_variant_language
from seq2see.text.xliff_elements import (
    XLIFF_LANGUAGE_ATTRIBUTES,
    classify_xliff_element,
    is_translatable,
)

_SAMPLE_UNITS = 1000
"""Number of units by which the languages are found."""
_BREAK = re.compile(r"[\r\n]")
_SPACE_AROUND_BREAK = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_UNTRANSLATED_STATES = frozenset({"new", "needs-translation"})
"""States of XLIFF 1.2 whose target is empty or a copy of the source."""


# --- TMX ---


def open_tmx(request: CorpusRequest) -> OpenedCorpus:
    """Open a translation memory.

    The languages are the configured ones, or else the only two of the first units, with the source
    language of the header first. Raises ConfigError if there are more than two.
    """
    languages = request.columns or request.languages
    if languages is None or not (request.columns or request.is_bilingual):
        languages = _find_tmx_languages(request)
    source, target = map(str, languages)
    return OpenedCorpus(
        lambda on_skipped: read_tmx(request.path, (source, target), on_skipped),
        shorten_language_tags(source, target),
    )


def _find_tmx_languages(request: CorpusRequest) -> tuple[str, str]:
    """Return the two languages of a memory."""
    counts, source = Counter[str](), ""
    for element in islice(_iterate_elements(request.path, "TMX", "header", "tu"), _SAMPLE_UNITS):
        if etree.QName(element).localname == "header":
            source = normalize_tag(element.get("srclang", ""))
        variants = element.iterchildren("{*}tuv")
        counts.update({normalize_tag(get_variant_language(one)): 1 for one in variants})
    tags = [tag for tag in counts if tag]
    first_tags = list({primary_language(tag): tag for tag in reversed(tags)}.values())[::-1]
    if len(first_tags) == 1:
        first_tags = tags  # for example en-US and en-GB
    if len(first_tags) != 2:
        request.raise_columns_unknown("languages", first_tags)
    first, second = first_tags
    if source and is_same_language(source, second) and not is_same_language(source, first):
        first, second = second, first
    return shorten_language_tags(first, second)


def read_tmx(
    path: str, languages: tuple[str, str], on_skipped: SkippedUnitCallback = lambda _: None
) -> Iterator[SentencePair]:
    """Yield the units of a translation memory (TMX) that have both languages.

    `en` matches en-GB and en_GB too. White space around a line break becomes one space.
    `on_skipped` is called with the number of each unit that lacks one of the languages. Raises
    InputError if the file is not TMX or no unit has both languages.
    """
    other_languages, num_units, num_pairs = set[str](), 0, 0
    for num_units, unit in enumerate(_iterate_elements(path, "TMX", "tu"), 1):
        source, target = (find_variant(unit, language) for language in languages)
        if source is None or target is None or source is target:
            variants = unit.iterchildren("{*}tuv")
            other_languages.update(normalize_tag(get_variant_language(one)) for one in variants)
            on_skipped(num_units)
        else:
            num_pairs += 1
            yield SentencePair(_get_segment(source), _get_segment(target))
    if not num_pairs:
        tags = ", ".join(sorted(other_languages - {""}))
        without_tags = "units without language tags instead" if num_units else "none"
        raise InputError(
            f"{path} must have units in both {' and '.join(languages)}, but has "
            f"{f'{tags} instead' if tags else without_tags}"
        )


def _get_segment(variant: etree._Element) -> str:
    """Return the text of a variant without formatting codes."""
    segment = variant.find("{*}seg")
    return "" if segment is None else _get_text(segment, classify_inline_element)


# --- XLIFF ---


def open_xliff(request: CorpusRequest) -> OpenedCorpus:
    """Open an XLIFF file; the languages are those that it declares."""
    source, target = _find_xliff_languages(request.path)
    languages: LanguagePair = (source, target)
    if source and target:
        languages = shorten_language_tags(source, target)
    is_reversed = (
        request.languages is not None
        and request.is_bilingual
        and source is not None
        and is_same_language(source, request.languages[1])
    )
    if is_reversed:
        languages = languages[1], languages[0]
    for found, expected in zip(languages, request.languages or (), strict=False):
        if found and not is_same_language(found, expected):
            raise InputError(
                f"{request.path} must be in {' and '.join(request.languages or ())}, but is in "
                f"{source} and {target} instead"
            )

    def read(on_skipped: SkippedUnitCallback) -> Iterator[SentencePair]:
        pairs = read_xliff(request.path, on_skipped)
        return (SentencePair(*reversed(pair)) for pair in pairs) if is_reversed else pairs

    return OpenedCorpus(read, languages)


def _find_xliff_languages(path: str) -> LanguagePair:
    with open_decompressed_binary(path) as file:
        try:
            for _, element in etree.iterparse(file, events=("start",), resolve_entities=False):
                name = etree.QName(element).localname
                if name == "xliff" and element.get("version", "")[:2] not in {"1.", "2."}:
                    raise InputError(f"{path} must be XLIFF 1 or 2, but is another version")
                for source, target in XLIFF_LANGUAGE_ATTRIBUTES.values():
                    if element.get(source):
                        return element.get(source), element.get(target)
                if name not in {"xliff", "file"}:
                    break
        except etree.XMLSyntaxError as error:
            raise InputError(f"{path} must be XLIFF, but: {error.msg}") from None
    return None, None


def read_xliff(
    path: str, on_skipped: SkippedUnitCallback = lambda _: None
) -> Iterator[SentencePair]:
    """Yield the translated units of an XLIFF file.

    `on_skipped` is called with the number of each unit without a translation. Raises InputError if
    no unit has one.
    """
    num_pairs = 0
    for number, unit in enumerate(_iterate_elements(path, "XLIFF", "trans-unit", "segment"), 1):
        source, target = unit.find("{*}source"), unit.find("{*}target")
        texts: list[str] = []
        if source is not None and target is not None and is_translatable(unit):
            texts = [_get_text(one, classify_xliff_element) for one in (source, target)]
        is_translated = target is not None and target.get("state") not in _UNTRANSLATED_STATES
        if is_translated and texts and texts[1]:
            num_pairs += 1
            yield SentencePair(*texts)
        else:
            on_skipped(number)
    if not num_pairs:
        raise InputError(f"{path} must have translated units, but has none")


# --- XML ---


def _iterate_elements(path: str, file_type: str, *names: str) -> Iterator[etree._Element]:
    """Yield each element with one of the names; it is freed afterwards."""
    with open_decompressed_binary(path) as file:
        elements = etree.iterparse(
            file,
            tag=[f"{{*}}{name}" for name in names],
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
        )
        try:
            for number, (_, element) in enumerate(elements, 1):
                for entity in element.iter(etree.Entity):  # not resolved, so text would be lost
                    raise InputError(
                        f"{path}, unit {number} must not contain entities, but has the entity "
                        f"`{entity.text}`: replace it by its text"
                    )
                yield element
                element.clear()
                parent = element.getparent()
                while parent is not None and element.getprevious() is not None:
                    del parent[0]
        except etree.XMLSyntaxError as error:
            raise InputError(f"{path} must be {file_type}, but: {error.msg}") from None


def _get_text(element: etree._Element, classify: Callable[[etree._Element], str]) -> str:
    """Return the text of an element without formatting codes."""
    text = "".join(_iterate_text(element, classify)) if len(element) else element.text or ""
    return _SPACE_AROUND_BREAK.sub(" ", text).strip() if _BREAK.search(text) else text


def _iterate_text(
    element: etree._Element, classify: Callable[[etree._Element], str]
) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if classify(child) in {"paired", "protected"}:
            yield from _iterate_text(child, classify)
        yield child.tail or ""
