"""Recognize the names of columns and keys: languages, or words such as source and translation.

en, de-DE, English, text_en, translation.de    a language
source, src, original                          the source
target, tgt, translation                       the target
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from seq2see.text.languages import (
    ISO_639_1,
    LANGUAGE_NAMES,
    is_regional_form,
    normalize_tag,
)

_SOURCE = "source src original input from quelle quelltext ausgangstext origen 原文 源文 源语言"
_TARGET = """
target tgt trg translation translated output to ziel zieltext übersetzung cible traduction
traducción destino traduzione перевод 译文 翻译 目标语言
"""
_OTHER = """
text texts sentence sentences segment segments phrase string term terms column col lang language
field value data id no nr index line number key context comment note notes score domain url file
date author unnamed satz 句子
"""
_SOURCE_WORDS, _TARGET_WORDS, _OTHER_WORDS = (
    frozenset(words.split()) for words in (_SOURCE, _TARGET, _OTHER)
)
_LANGUAGE_WORDS = {
    **{
        name.casefold(): code
        for code, name in LANGUAGE_NAMES.items()
        if "-" not in code and " " not in name
    },
    "chinese": "zh",
    "中文": "zh",
    "汉语": "zh",
    "英文": "en",
    "英语": "en",
    "德语": "de",
    "deutsch": "de",
    "englisch": "en",
    "französisch": "fr",
    "spanisch": "es",
    "日本語": "ja",
    "français": "fr",
    "anglais": "en",
    "allemand": "de",
    "español": "es",
    "inglés": "en",
    "italiano": "it",
    "português": "pt",
    "русский": "ru",
    "polski": "pl",
    "nederlands": "nl",
}
_TAG = re.compile(r"[a-z]{2}(-[a-z]{4})?(-([a-z]{2}|\d{3}))?")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEPARATORS = re.compile(r"[\W_]+")
_TITLE_CASE_CODE = re.compile(r"[A-Z][a-z]")
"""A word such as It or Es, while codes are en or EN."""
_AMBIGUOUS_CODES = frozenset({"id", "no"})
"""Codes that are more often words: identifier and number."""


@dataclass(frozen=True, slots=True)
class ColumnName:
    """What the name of a column states."""

    language: str | None = None
    side: str | None = None
    """`source` or `target`."""
    is_known: bool = False
    """Whether all words of the name are known."""


@lru_cache(1024)
def parse_column_name(name: str) -> ColumnName:
    """Return the language and the side that the name of a column states."""
    words = _SEPARATORS.split(_CAMEL_CASE.sub(" ", name.strip()).casefold())
    words = [word for word in words if word]
    sides = {"source" for word in words if word in _SOURCE_WORDS}
    sides |= {"target" for word in words if word in _TARGET_WORDS}
    side = next(iter(sides)) if len(sides) == 1 else None
    known = _SOURCE_WORDS | _TARGET_WORDS | _OTHER_WORDS
    others = [word for word in words if word not in known]
    if len(words) == 1 and words[0] in _AMBIGUOUS_CODES:
        others = words
    is_word = _TITLE_CASE_CODE.fullmatch(name.strip()) is not None
    language = None if is_word else _parse_language(others)
    return ColumnName(language, side, bool(words) and (language is not None or not others))


def _parse_language(words: Sequence[str]) -> str | None:
    tag = normalize_tag("-".join(words))
    if _TAG.fullmatch(tag) and tag[:2] in ISO_639_1:
        return tag
    return _LANGUAGE_WORDS.get(words[0]) if len(words) == 1 else None


def choose_columns(
    names: Sequence[str], languages: tuple[str, str] | None = None
) -> tuple[int, int] | None:
    """Return the indices of the source and the target column by their names.

    They are those of `languages`, if these are given and different; otherwise the only two
    languages; otherwise a source and a target. Returns None if there is no such pair.
    """
    parsed = [parse_column_name(name) for name in names]
    if languages and languages[0] != languages[1]:
        source, target = (_find_language(parsed, names, language) for language in languages)
        if source is not None and target is not None and source != target:
            return source, target
    elif pair := _find_only_two_languages(parsed):
        return pair
    sides = [[i for i, one in enumerate(parsed) if one.side == s] for s in ("source", "target")]
    if len(sides[0]) == len(sides[1]) == 1:
        has_language = any(parsed[side[0]].language for side in sides)
        return None if has_language and languages else (sides[0][0], sides[1][0])
    return None


def _find_language(parsed: Sequence[ColumnName], names: Sequence[str], language: str) -> int | None:
    """Return the column of a language; of several, the only one with the shortest name."""
    matches = [
        i
        for i, one in enumerate(parsed)
        if one.language and is_regional_form(one.language, language)
    ]
    exact = [i for i in matches if parsed[i].language == normalize_tag(language)] or matches
    shortest = [i for i in exact if len(names[i]) == min(len(names[j]) for j in exact)]
    return shortest[0] if len(shortest) == 1 else None


def _find_only_two_languages(parsed: Sequence[ColumnName]) -> tuple[int, int] | None:
    found = [i for i, one in enumerate(parsed) if one.language]
    if len(found) > 2:
        found = [i for i in found if parsed[i].language not in _AMBIGUOUS_CODES]
    if len(found) != 2 or parsed[found[0]].language == parsed[found[1]].language:
        return None
    first, second = found
    is_reversed = parsed[first].side == "target" and parsed[second].side == "source"
    return (second, first) if is_reversed else (first, second)


def are_column_names(source: str, target: str) -> bool:
    """Return whether two cells are a header instead of a sentence and its translation.

    All of their words must be known, and they must name two languages, or a source and a target.
    """
    names = parse_column_name(source), parse_column_name(target)
    return all(name.is_known for name in names) and choose_columns([source, target]) is not None
