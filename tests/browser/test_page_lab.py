"""The view of the lab."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.lab.experiment import Language
from seq2see.lab.words import NOTES


def test_where_experiments_do_not_run_the_page_says_so(watched: Any) -> None:
    def public(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "can_run": False})

    view = watched(390)
    view.context.route("**/api/v1/lab", public)
    page = view.open("lab")
    page.wait("lab")
    assert not page.locator('[data-key="run:1"]').is_enabled()
    assert "on the same machine" in page.locator(".status").first.inner_text()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_notes_are_explained(watched: Any, lang: Language) -> None:
    page = watched().open("lab", lang=lang)
    page.wait("lab")
    assert "S0" in page.locator(".lead").inner_text()
    badge = page.locator("#e1 .badge", has_text="S1")
    badge.hover()
    assert page.locator("#tooltip").inner_text() == NOTES["S1"].said(lang)
