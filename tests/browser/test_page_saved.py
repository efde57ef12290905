"""Saved pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXTS_OF_A_VIEW = (
    "[...document.querySelectorAll('main :is(h1, h2, td, dd, .word, .output, [data-number])')]"
    ".filter(each => each.checkVisibility() && !each.closest('.drop'))"
    ".map(each => each.textContent).join('|')"
)


def test_saved_page_of_each_view_works_offline(
    open_browser: Any, views: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    page = open_browser().open("translate")
    offline = open_browser()
    offline.home = "file:"  # no other requests are allowed
    for view in views:
        names = {"ablate": "decoder.0.cross.1"} if view == "intervene" else {"word": 0}
        page.set_state(view, text=sentence.rstrip(".") + " </script>.", lang="zh", **names)
        page.wait(view)
        if view == "intervene":
            page.wait_for_selector('[data-key="head-ablation:0"], .pronoun .note')
        with page.expect_download() as download:
            page.locator('[data-key="save"]').click()
        path = tmp_path / f"{view}.html"
        download.value.save_as(path)
        file = offline.visit(path.as_uri())
        file.wait(view)
        file.wait_until(f"texts => {TEXTS_OF_A_VIEW} === texts", page.evaluate(TEXTS_OF_A_VIEW))
        assert file.locator(".status.error").count() == 0
        if view == "attention":  # controls that need no request work
            file.locator(".thumb").first.click()
            file.wait_until("document.querySelector('.thumb').ariaPressed === 'true'")
