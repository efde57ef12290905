"""The view of the lab."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.lab.experiment import Language
from seq2see.lab.words import NOTES


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_notes_are_explained(watched: Any, lang: Language) -> None:
    page = watched().open("lab", lang=lang)
    page.wait("lab")
    assert "S0" in page.locator(".lead").inner_text()
    badge = page.locator("#e1 .badge", has_text="S1")
    badge.hover()
    assert page.locator("#tip").inner_text() == NOTES["S1"].said(lang)
