"""Language codes as clients write them, their names, and language identification."""

from __future__ import annotations

import pytest

from seq2see.errors import InputError
from seq2see.text import language_detection
from seq2see.text.language_detection import DetectedLanguage, LanguageIdentifier
from seq2see.text.languages import language_name, match_language


@pytest.mark.parametrize(
    ("code", "languages", "expected"),
    [
        ("EN", ["en"], "en"),
        ("en-GB", ["en"], "en"),
        ("zh", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zt", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant", ["zh"], None),
        ("zt", ["en", "zh"], None),
        ("zh-HK", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant-TW", ["zh", "zh-Hant"], "zh-Hant"),
        ("zh-Hans-CN", ["zh"], "zh"),
        ("sr-Latn", ["sr"], "sr"),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pt", ["pt", "pt-BR"], "pt"),
        ("zz", ["en", "de"], None),
        ("", ["en"], None),
        ("pt-AO", ["pt-PT", "pt-BR"], None),
    ],
)
def test_codes_match_by_language_script_and_region(
    code: str, languages: list[str], expected: str | None
) -> None:
    assert match_language(code, languages) == expected


def test_language_names() -> None:
    names = [language_name(code) for code in ("de", "pb", "xx")]
    assert names == ["German", "Portuguese (Brazil)", "xx"]


def test_only_given_languages_are_identified() -> None:
    identifier = LanguageIdentifier(["en", "de"])
    assert identifier.rank_languages("Das ist ein Haus.")[0].language == "de"
    ranked = identifier.rank_languages("C'est une maison.")
    assert {each.language for each in ranked} <= {"en", "de"}
    assert identifier.rank_languages("123 !?")[0].confidence == 0


def test_language_without_evidence_has_no_confidence() -> None:
    for languages in (["xx", "en"], ["xx"], ["en"]):
        identifier = LanguageIdentifier(languages)
        assert identifier.rank_languages("Das ist ein Haus.") == [
            DetectedLanguage(languages[0], 0.0)
        ]


def test_missing_lingua_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_detection, "is_lingua_installed", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'seq2see\[serve\]'"):
        LanguageIdentifier(["en", "de"])
