"""The codes of languages as clients write them, and their names.

Codes are compared without case and by LibreTranslate's short forms (zh is zh-Hans, pb is pt-BR); a
region that no model knows falls back to the language: en-GB to en. A script does not: whoever
reads Traditional Chinese did not ask for Simplified.
"""

from __future__ import annotations

from collections.abc import Iterable

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
NAMES = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))


def canonical(code: str) -> str:
    """Return the form by which codes are compared."""
    plain = code.strip().lower().replace("_", "-")
    return _SHORT.get(plain, plain)


def primary(code: str) -> str:
    """Return the language of a code, without script and region."""
    return canonical(code).split("-")[0]


def script(code: str) -> str | None:
    """Return the script of a code, if it names one."""
    return next((part for part in canonical(code).split("-")[1:] if len(part) == _SCRIPT), None)


def name(code: str) -> str:
    """Return what English calls a language; for one that is not in the list, its code."""
    form = canonical(code)
    return NAMES.get(form) or NAMES.get(primary(form)) or code


def match(code: str, known: Iterable[str]) -> str | None:
    """Return which of the known codes is meant, or None."""
    by_form = {canonical(k): k for k in known}
    if found := by_form.get(canonical(code)):
        return found
    alike = [k for k in by_form.values() if primary(k) == primary(code) and _may_share(k, code)]
    return alike[0] if len(alike) == 1 else None


def _may_share(one: str, other: str) -> bool:
    """Tell if two codes may be of one script: not if each names its own."""
    scripts = {script(one), script(other)}
    return None in scripts or len(scripts) == 1
