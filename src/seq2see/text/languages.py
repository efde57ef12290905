"""Language tags and names, and word boundaries in scripts with and without spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable

_UNSPACED_LANGUAGES = frozenset({"bo", "cmn", "ja", "km", "lo", "my", "th", "yue", "zh"})


def primary_language(tag: str | None) -> str:
    """Return the language of a tag such as zh-Hans or pt_BR; of none, an empty text."""
    return (tag or "").lower().replace("_", "-").partition("-")[0]


def is_written_without_spaces(tag: str | None) -> bool:
    """Tell whether a language has no spaces between its words."""
    return primary_language(tag) in _UNSPACED_LANGUAGES


def is_same_language(one: str, other: str) -> bool:
    """Tell if two tags name the same language."""
    return primary_language(one) == primary_language(other)


_SHORT = {
    **dict.fromkeys(("zh", "zh-cn", "zh-sg"), "zh-hans"),
    **dict.fromkeys(("zt", "zh-tw", "zh-hk", "zh-mo"), "zh-hant"),
    "pb": "pt-br",
}


_SCRIPT = 4
"""Letters of the part of a code that names a script."""


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


def normalize_language_code(code: str) -> str:
    """Return the form by which codes are compared."""
    plain = code.strip().lower().replace("_", "-")
    return _SHORT.get(plain, plain)


def normalize_primary_language(code: str) -> str:
    """Return the language of a code, without script and region."""
    return normalize_language_code(code).split("-")[0]


def find_script(code: str) -> str | None:
    """Return the script of a code, if it names one."""
    return next(
        (part for part in normalize_language_code(code).split("-")[1:] if len(part) == _SCRIPT),
        None,
    )


def language_name(code: str) -> str:
    """Return what English calls a language; for one that is not in the list, its code."""
    form = normalize_language_code(code)
    return LANGUAGE_NAMES.get(form) or LANGUAGE_NAMES.get(normalize_primary_language(form)) or code


def match_language(code: str, languages: Iterable[str]) -> str | None:
    """Return which of the known codes is meant, or None."""
    by_form = {normalize_language_code(k): k for k in languages}
    if found := by_form.get(normalize_language_code(code)):
        return found
    alike = [
        k
        for k in by_form.values()
        if normalize_primary_language(k) == normalize_primary_language(code) and _may_share(k, code)
    ]
    return alike[0] if len(alike) == 1 else None


def _may_share(one: str, other: str) -> bool:
    """Tell if two codes may be of one script: not if each names its own."""
    scripts = {find_script(one), find_script(other)}
    return None in scripts or len(scripts) == 1


UNSPACED_CHARACTERS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # radicals, 々, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


_WORD_END = re.compile(rf"[^\W{UNSPACED_CHARACTERS}]")


_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|\S")


_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED_CHARACTERS}]")


def continues_word(character: str) -> bool:
    """Tell whether a character behind a word makes it another word."""
    return _WORD_END.match(character) is not None


def find_word_offsets(text: str, cuts: set[int]) -> list[tuple[int, int]]:
    """Return where words and punctuation marks stand; without spaces, cut where pieces are."""
    spans = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if _UNSPACED_CHARACTER.search(match[0]):
            inside = [cut for cut in sorted(cuts) if start < cut < end]
            ends = [*inside, end]
            spans += list(zip([start, *inside], ends, strict=True))
        else:
            spans.append((start, end))
    return spans
