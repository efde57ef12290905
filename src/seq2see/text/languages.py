"""Tags of languages: which language they name, and whether it puts spaces between its words."""

from __future__ import annotations

_UNSPACED = frozenset({"bo", "cmn", "ja", "km", "lo", "my", "th", "yue", "zh"})


def primary(tag: str | None) -> str:
    """Return the language of a tag such as zh-Hans or pt_BR; of none, an empty text."""
    return (tag or "").lower().replace("_", "-").partition("-")[0]


def is_unspaced(tag: str | None) -> bool:
    """Tell whether a language has no spaces between its words."""
    return primary(tag) in _UNSPACED
