"""Language tags."""

from __future__ import annotations

import pytest

from seq2see.text.languages import is_regional_form, is_written_without_spaces, primary_language


@pytest.mark.parametrize(
    ("tag", "language"),
    [("de", "de"), ("zh-Hans", "zh"), ("PT_br", "pt"), ("th-TH", "th"), ("", ""), (None, "")],
)
def test_primary_language_of_tag(tag: str | None, language: str) -> None:
    assert primary_language(tag) == language


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("en", "EN_gb", True),
        ("pt-BR", "pt", True),
        ("zh-CN", "zh-Hans", True),
        ("pb", "pt-BR", True),
        ("pt-BR", "pt-PT", False),
        ("en", "eng", False),
        ("", "en", False),
    ],
)
def test_tag_and_its_regional_forms(one: str, other: str, expected: bool) -> None:
    assert is_regional_form(one, other) is is_regional_form(other, one) is expected


def test_languages_written_without_spaces() -> None:
    without = ("zh_CN", "yue", "cmn", "JA", "th", "lo", "km", "my", "bo")
    assert all(map(is_written_without_spaces, without))
    assert not any(map(is_written_without_spaces, ("de", "ko", "und", "thx", "", None)))
