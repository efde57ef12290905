"""Language tags."""

from __future__ import annotations

import pytest

from seq2see.text.languages import is_written_without_spaces, primary_language


@pytest.mark.parametrize(
    ("tag", "language"),
    [("de", "de"), ("zh-Hans", "zh"), ("PT_br", "pt"), ("th-TH", "th"), ("", ""), (None, "")],
)
def test_primary_language_of_tag(tag: str | None, language: str) -> None:
    assert primary_language(tag) == language


def test_languages_written_without_spaces() -> None:
    without = ("zh_CN", "yue", "cmn", "JA", "th", "lo", "km", "my", "bo")
    assert all(map(is_written_without_spaces, without))
    assert not any(map(is_written_without_spaces, ("de", "ko", "und", "thx", "", None)))
