"""All views in a browser: screen sizes, languages, themes, keyboard control."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

LONG = " ".join(["the old animal didn't cross the wide street because it slept"] * 5)
"""About 60 tokens."""


@pytest.mark.parametrize("width", [1280, 390])
def test_all_views_fit_the_screen_width(
    open_browser: Any, views: tuple[str, ...], width: int
) -> None:
    page = open_browser(width, color_scheme="dark" if width == 390 else "light").open(
        "translate", text=LONG, lang="zh" if width == 390 else "en"
    )
    for view in views:
        page.open_view(view)
        page.wait(view)
        assert page.locator("h1").inner_text()
        assert page.locator(".status.error").count() == 0, view
        excess = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert excess <= 0, f"{view} is {excess} px too wide"


def test_url_contains_the_state(open_browser: Any) -> None:
    page = open_browser().open("attention", kind="encoder.self", layer=0, head=1, row=2, column=3)
    page.wait("attention")
    cell = page.read_number("cell")
    page.locator('[data-key="Form:lines"]').click()
    page.wait_for_selector("svg.lines")
    assert "form=lines" in page.url
    page.reload()
    page.wait_for_selector("svg.lines")
    assert page.read_number("cell") == cell
    page.open_view("decoding")
    page.wait("decoding")
    page.go_back()
    page.wait_for_selector("svg.lines")


def test_language_and_theme_can_be_changed(open_browser: Any) -> None:
    page = open_browser(color_scheme="light").open("translate")
    page.wait("translate")
    title = page.locator("h1").inner_text()
    page.locator('[data-key="Page language:zh"]').click()
    page.wait_for_selector("html[lang=zh-Hans]")
    assert page.locator("h1").inner_text() != title
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator('[data-key="theme"]').click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_locales_have_the_same_keys_and_placeholders() -> None:
    directory = Path(__file__).parents[2] / "src/seq2see/web/static/js"
    texts = {}
    for language in ("en", "zh"):
        text = (directory / f"locale/{language}.js").read_text("utf-8")
        pairs = re.findall(r'(?:"([^"]+)"|\b(\w+)): "((?:[^"\\]|\\.)*)"', text)
        texts[language] = {a or b: set(re.findall(r"\{\w+\}", c)) for a, b, c in pairs}
    assert texts["en"] == texts["zh"]
    used = {
        name
        for path in directory.rglob("*.js")
        for name in re.findall(
            r'\bt\("([\w. ]+)"',
            re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE),
        )
    }
    assert used <= set(texts["en"])


def test_texts_do_not_mention_light_or_dark() -> None:
    """Dark cells of one theme are light in the other."""
    directory = Path(__file__).parents[2] / "src/seq2see/web/static/js/locale"
    for path in directory.iterdir():
        text = re.sub(r'"theme\.\w+": "[^"]*"', "", path.read_text("utf-8"))
        assert re.findall(r"darker|lighter|brighter|深|浅", text) == []


def test_main_views_work_by_keyboard(open_browser: Any, sentence: str) -> None:
    view = open_browser()
    page = view.visit(view.home)
    page.wait_for_selector(".source-text")
    page.wait_for_selector('[data-key="source"]')
    focus = "document.activeElement.matches({})"

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focus.format(repr(selector))):
                return
        raise AssertionError(f"{selector} cannot be reached by keyboard")

    tab_to(".source-text")
    page.keyboard.type(sentence)
    page.wait_for_selector(".target-text .word")
    tab_to(".target-text .word")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-key^="alternative:"]')
    tab_to('[data-key^="alternative:"]')
    page.keyboard.press("Enter")
    page.wait_until("location.hash.includes('prefix=')")
    page.wait_for_selector(".chip.is")
    prefix = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('prefix')")
    assert page.locator(".target-text").inner_text().strip().startswith(prefix.strip())
    page.evaluate("document.querySelector('.brand').focus()")
    tab_to('.views a[href^="#attention"]')
    page.keyboard.press("Enter")
    page.wait("attention")
    tab_to("svg.matrix")
    before = page.locator(".readout").inner_text()
    page.keyboard.press("ArrowUp")
    page.wait_until("text => document.querySelector('.readout').innerText !== text", arg=before)
    assert page.evaluate(focus.format("'svg.matrix'")), "the focus was lost"
    page.evaluate("document.querySelector('.brand').focus()")
    tab_to('.views a[href^="#decoding"]')
    page.keyboard.press("Enter")
    page.wait("decoding")
    tab_to("svg.beam .node")
    page.keyboard.press("ArrowDown")  # pruned hypotheses can be reached too
    page.keyboard.press("Enter")
    page.wait_until("location.hash.includes('node=')")
    assert page.evaluate(focus.format("'svg.beam .node:not(.path)'"))


BY_KEY = {
    "intervene": (".switch", "Space", "ablate=decoder.0.cross.0"),
    "positions": ('input[type="range"]', "ArrowRight", "row=6"),
    "lab": ('[data-key="Topics:2"]', "Enter", "topic=2"),
    "architecture": ('[data-module="decoder.layers.0"]', "Enter", "module=decoder.layers.0"),
}


def test_other_views_work_by_keyboard(open_browser: Any) -> None:
    page = open_browser().open("training")
    for view, (control, key, expected) in BY_KEY.items():
        page.locator(f'.views a[href^="#{view}"]').focus()
        page.keyboard.press("Enter")
        page.wait(view)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("control => document.activeElement.matches(control)", control):
                break
        page.keyboard.press(key)
        page.wait_until("text => location.hash.includes(text)", expected)
        assert page.evaluate("control => document.activeElement.matches(control)", control)


def test_slider_is_disabled_until_it_has_a_value(open_browser: Any) -> None:
    view = open_browser()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    view.context.route("**/positions", hold)
    page = view.open("positions")
    slider = page.locator('.positions input[type="range"]').first
    slider.wait_for()
    assert slider.is_disabled()  # until then its position does not match the view
    for _ in range(400):
        if held:
            break
        page.wait_for_timeout(50)
    held[0].continue_()
    page.locator(".positions .heat").first.wait_for()
    assert slider.is_enabled()
    assert slider.input_value() == "5"


def test_page_asks_for_api_key(open_browser: Any) -> None:
    view = open_browser()

    def locked(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=403, json={"error": "Please contact the server operator"})

    view.context.route("**/api/v1/*", locked)
    page = view.open("decoding")
    page.locator("input[type=password]").fill("secret")
    page.keyboard.press("Enter")
    page.wait("decoding")
    assert "secret" not in page.url
    view.errors.clear()  # browsers log responses with an error status
