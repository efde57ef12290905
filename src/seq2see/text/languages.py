"""Language tags and names, and word boundaries in scripts with and without spaces.

Language codes are compared without case, and short forms of LibreTranslate are expanded (zh is
zh-Hans, pb is pt-BR). If no model supports the region of a code, the language without region is
used: en for en-GB. Scripts are never replaced: zh-Hant does not match zh-Hans.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache

_UNSPACED_LANGUAGES = frozenset({"bo", "cmn", "ja", "km", "lo", "my", "th", "yue", "zh"})
_ALIASES = {
    **dict.fromkeys(("zh", "zh-cn", "zh-sg"), "zh-hans"),
    **dict.fromkeys(("zt", "zh-tw", "zh-hk", "zh-mo"), "zh-hant"),
    "pb": "pt-br",
}
_SCRIPT_LENGTH = 4
"""Number of letters of a script subtag."""


_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu
hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb
lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om
or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
ISO_639_1 = frozenset(_CODES.split())
"""Two-letter codes of languages."""


def normalize_tag(tag: str) -> str:
    """Return a language tag in lower case, with hyphens."""
    return tag.strip().lower().replace("_", "-")


def normalize_language_code(code: str) -> str:
    """Return a normalized tag, with aliases replaced."""
    normalized = normalize_tag(code)
    return _ALIASES.get(normalized, normalized)


def primary_language(tag: str | None) -> str:
    """Return the language of a tag such as zh-Hans or pt_BR, or an empty string for None."""
    return normalize_language_code(tag or "").partition("-")[0]


def is_written_without_spaces(tag: str | None) -> bool:
    """Return whether a language is written without spaces between words."""
    return primary_language(tag) in _UNSPACED_LANGUAGES


def find_sentence_separator(source: str, target: str) -> str:
    """Return the text between the translations of sentences without a space between them.

    It is a space from Chinese to English, for example, and empty within languages of one kind.
    """
    source_has_spaces = not is_written_without_spaces(source)
    return "" if source_has_spaces or is_written_without_spaces(target) else " "


def is_same_language(one: str, other: str) -> bool:
    """Return whether two tags have the same language, ignoring script and region."""
    return primary_language(one) == primary_language(other)


def is_regional_form(one: str, other: str) -> bool:
    """Return whether two tags are equal, or only one of them has a script or region."""
    if normalize_language_code(one) == normalize_language_code(other):
        return True
    shorter, longer = sorted((normalize_tag(one), normalize_tag(other)), key=len)
    return longer.startswith(f"{shorter}-")


_NAMES = """
af Afrikaans,ar Arabic,az Azerbaijani,be Belarusian,bg Bulgarian,bn Bengali,bs Bosnian,ca Catalan,
cs Czech,cy Welsh,da Danish,de German,el Greek,en English,eo Esperanto,es Spanish,et Estonian,
eu Basque,fa Persian,fi Finnish,fr French,ga Irish,gl Galician,gu Gujarati,he Hebrew,hi Hindi,
hr Croatian,hu Hungarian,hy Armenian,id Indonesian,is Icelandic,it Italian,ja Japanese,ka Georgian,
kk Kazakh,ko Korean,ky Kyrgyz,la Latin,lt Lithuanian,lv Latvian,mk Macedonian,mn Mongolian,
mr Marathi,ms Malay,mt Maltese,nb Norwegian Bokmål,nl Dutch,nn Norwegian Nynorsk,no Norwegian,
pa Punjabi,pl Polish,pt Portuguese,pt-br Portuguese (Brazil),ro Romanian,ru Russian,sk Slovak,
sl Slovenian,so Somali,sq Albanian,sr Serbian,sv Swedish,sw Swahili,ta Tamil,te Telugu,th Thai,
tl Tagalog,tr Turkish,uk Ukrainian,ur Urdu,uz Uzbek,vi Vietnamese,yi Yiddish,zh-hans Chinese,
zh-hant Chinese (Traditional),zu Zulu
"""
LANGUAGE_NAMES = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    normalized = normalize_language_code(code)
    return LANGUAGE_NAMES.get(normalized) or LANGUAGE_NAMES.get(primary_language(code)) or code


def match_language(code: str, languages: Iterable[str]) -> str | None:
    """Return the language that matches a code, or None if there is none or more than one."""
    by_normalized = {normalize_language_code(language): language for language in languages}
    if exact := by_normalized.get(normalize_language_code(code)):
        return exact
    matches = [
        language
        for language in by_normalized.values()
        if is_same_language(language, code) and _may_share_script(language, code)
    ]
    return matches[0] if len(matches) == 1 else None


def _may_share_script(one: str, other: str) -> bool:
    """Return False if both codes have a script and the scripts are different."""
    subtags = (normalize_language_code(code).split("-")[1:] for code in (one, other))
    first, second = ([part for part in parts if len(part) == _SCRIPT_LENGTH] for parts in subtags)
    return not first or not second or first[0] == second[0]


UNSPACED_CHARACTERS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # radicals, 々, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts without spaces between words, as ranges of a regular expression."""
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED_CHARACTERS}]")

SPACED_WORD_CHARACTER = rf"[^\W{UNSPACED_CHARACTERS}]"
"""A character of a word in a script with spaces between words, as a regular expression."""
_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|\S")


def has_letter(text: str) -> bool:
    """Return whether a text contains a letter; text without letters is not translated."""
    return any(map(str.isalpha, text))


@lru_cache(None)
def find_script_of_letter(character: str) -> str | None:
    """Return the first word of a letter's Unicode name, LATIN, CJK, HIRAGANA …, or None."""
    if not character.isalpha():
        return None
    first, _, rest = unicodedata.name(character, "").partition(" ")
    return rest.split(" ")[0] if first in {"FULLWIDTH", "HALFWIDTH"} else first or None


def is_spaced_word_character(character: str) -> bool:
    """Return whether a character is part of a word in a script with spaces between words."""
    return re.match(SPACED_WORD_CHARACTER, character) is not None


def find_word_offsets(text: str, piece_starts: set[int]) -> list[tuple[int, int]]:
    """Return the offsets of words and punctuation marks.

    Words in scripts without spaces are split at the starts of pieces.
    """
    offsets = []
    starts = sorted(piece_starts)
    for match in _WORD.finditer(text):
        start, end = match.span()
        if UNSPACED_CHARACTER.search(match[0]):
            inner = starts[bisect_right(starts, start) : bisect_left(starts, end)]
            offsets += list(zip([start, *inner], [*inner, end], strict=True))
        else:
            offsets.append((start, end))
    return offsets
