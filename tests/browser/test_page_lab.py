"""Lab view."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.lab.texts import Language, source_titles


def test_page_says_that_experiments_cannot_run(open_browser: Any) -> None:
    def public(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "can_run": False})

    view = open_browser(390)
    view.context.route("**/api/v1/lab", public)
    page = view.open("lab")
    page.wait("lab")
    assert not page.locator('[data-key="run:1"]').is_enabled()
    assert "on the same machine" in page.locator(".status").first.inner_text()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_study_notes_have_tooltips(open_browser: Any, lang: Language) -> None:
    page = open_browser().open("lab", lang=lang)
    page.wait("lab")
    assert "S0" in page.locator(".lead").inner_text()
    badge = page.locator("#e1 .badge", has_text="S1")
    badge.hover()
    title = source_titles()["S1"].get(lang)
    assert page.locator("#tooltip").inner_text().startswith(f"{title}: ")
