"""Views on small screens."""

from __future__ import annotations

from typing import Any

WIDE = "the old animal didn't cross the wide street because it slept , and it was old ."


def test_long_text_scrolls_in_its_field(open_browser: Any) -> None:
    page = open_browser(390).open("translate", text="1\n" * 80)
    page.wait_for_selector('[data-key="clear"]')
    box = "name => document.querySelector(name)[{}]".format
    assert page.evaluate(box("'offsetHeight'"), ".source-text") <= 450
    page.evaluate("document.querySelector('.source-text').scrollTop = 300")
    page.wait_until("document.querySelector('.mirror').scrollTop === 300")
    for side in ("clientWidth", "clientHeight"):
        sizes = {page.evaluate(box(f"'{side}'"), name) for name in (".source-text", ".mirror")}
        assert len(sizes) == 1, f"highlights would not match the words: {side}"


def test_data_flows_upward_on_a_phone(open_browser: Any) -> None:
    page = open_browser(390).open("architecture")
    page.wait("architecture")
    top = "name => document.querySelector(`[data-module='${name}']`).getBoundingClientRect().top"
    names = "output", "decoder.layers.0", "decoder.embeddings", "encoder.layers.1"
    tops = [page.evaluate(top, name) for name in (*names, "encoder.embeddings")]
    assert tops == sorted(tops)


def test_experiment_table_fits_a_phone(open_browser: Any) -> None:
    text = "0.3333 (0.333333 … 0.333334)"
    measured = {"name": "ratio", "what": {"en": "a"}, "value": 1 / 3, "text": text}
    outcome = {"number": 1, "status": "ok", "seconds": 1, "verdict": "holds", "figures": []}
    outcome |= {"parts": [], "measurements": [measured]}
    view = open_browser(390)
    view.context.route("**/api/v1/lab/1", lambda route: route.fulfill(json=outcome))
    page = view.open("lab")
    page.locator('[data-key="run:1"]').click()
    page.wait_for_selector("#e1 table")
    table = "document.querySelector('#e1 .scroll')"
    assert page.evaluate(f"{table}.scrollWidth - {table}.clientWidth") == 0


def test_api_documentation_fits_a_phone(open_browser: Any) -> None:
    view = open_browser(390)
    page = view.visit(view.home + "docs")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_all_switches_fit_a_phone(open_browser: Any) -> None:
    def with_heads(route: Any) -> None:
        trace = route.fetch().json()
        route.fulfill(json={**trace, "model": {**trace["model"], "heads": 8}})

    view = open_browser(390)
    view.context.route("**/api/v1/explain", with_heads)
    page = view.open("intervene", lang="zh")
    page.wait("intervene")
    rights = "[...document.querySelectorAll('.switch')].map((e) => e.getBoundingClientRect().right)"
    assert max(page.evaluate(rights)) <= 390 - 14
