"""The page in a real browser: every view, on any screen, in both languages, by the keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

LONG = " ".join(["the old animal didn't cross the wide street because it slept"] * 5)
"""Some 60 tokens."""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_is_there_and_none_is_too_wide(
    watched: Any, views: tuple[str, ...], width: int
) -> None:
    page = watched(width, color_scheme="dark" if width == 390 else "light").open(
        "translate", text=LONG, lang="zh" if width == 390 else "en"
    )
    for view in views:
        page.turn_to(view)
        page.wait(view)
        assert page.locator("h1").inner_text()
        assert page.locator(".status.error").count() == 0, view
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{view} is {wide} px too wide"


def test_the_address_is_the_state(watched: Any) -> None:
    page = watched().open("attention", kind="encoder.self", layer=0, head=1, row=2, column=3)
    page.wait("attention")
    cell = page.shown("cell")
    page.locator('[data-key="Form:lines"]').click()
    page.wait_for_selector("svg.lines")
    assert "form=lines" in page.url
    page.reload()
    page.wait_for_selector("svg.lines")
    assert page.shown("cell") == cell
    page.turn_to("decoding")
    page.wait("decoding")
    page.go_back()
    page.wait_for_selector("svg.lines")


def test_two_languages_and_two_themes(watched: Any) -> None:
    page = watched(color_scheme="light").open("translate")
    page.wait("translate")
    title = page.locator("h1").inner_text()
    page.locator('[data-key="Page language:zh"]').click()
    page.wait_for_selector("html[lang=zh-Hans]")
    assert page.locator("h1").inner_text() != title
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator('[data-key="theme"]').click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_both_languages_say_everything() -> None:
    folder = Path(__file__).parents[2] / "src/seq2see/serve/page/js"
    said = {}
    for language in ("en", "zh"):
        text = (folder / f"locale/{language}.js").read_text("utf-8")
        pairs = re.findall(r'(?:"([^"]+)"|\b(\w+)): "((?:[^"\\]|\\.)*)"', text)
        said[language] = {a or b: set(re.findall(r"\{\w+\}", c)) for a, b, c in pairs}
    assert said["en"] == said["zh"]
    used = {
        name
        for path in folder.rglob("*.js")
        for name in re.findall(
            r'\bt\("([\w. ]+)"',
            re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE),
        )
    }
    assert used <= set(said["en"])


def test_no_words_for_light_and_dark() -> None:
    """What is dark in the one theme is bright in the other."""
    folder = Path(__file__).parents[2] / "src/seq2see/serve/page/js/locale"
    for path in folder.iterdir():
        text = re.sub(r'"theme\.\w+": "[^"]*"', "", path.read_text("utf-8"))
        assert re.findall(r"darker|lighter|brighter|深|浅", text) == []


def test_by_keyboard_alone(watched: Any, sentence: str) -> None:
    view = watched()
    page = view.visit(view.home)
    page.wait_for_selector(".source-text")
    page.wait_for_selector('[data-key="source"]')
    focus = "document.activeElement.matches({})"

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focus.format(repr(selector))):
                return
        raise AssertionError(f"no way to {selector} by the keyboard")

    tab_to(".source-text")
    page.keyboard.type(sentence)
    page.wait_for_selector(".target-text .word")
    tab_to(".target-text .word")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-key^="alternative:"]')
    tab_to('[data-key^="alternative:"]')
    page.keyboard.press("Enter")
    page.until("location.hash.includes('prefix=')")
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
    page.until("text => document.querySelector('.readout').innerText !== text", arg=before)
    assert page.evaluate(focus.format("'svg.matrix'")), "the focus was lost"
    page.evaluate("document.querySelector('.brand').focus()")
    tab_to('.views a[href^="#decoding"]')
    page.keyboard.press("Enter")
    page.wait("decoding")
    tab_to("svg.beam .node")
    page.keyboard.press("ArrowDown")  # hypotheses that lost are reached, too
    page.keyboard.press("Enter")
    page.until("location.hash.includes('node=')")
    assert page.evaluate(focus.format("'svg.beam .node:not(.path)'"))


BY_KEY = {
    "intervene": (".switch", "Space", "ablate=decoder.0.cross.0"),
    "positions": ('input[type="range"]', "ArrowRight", "row=6"),
    "lab": ('[data-key="Topics:heads"]', "Enter", "topic=heads"),
    "architecture": ('[data-module="decoder.layers.0"]', "Enter", "module=decoder.layers.0"),
}


def test_the_other_views_by_keyboard(watched: Any) -> None:
    page = watched().open("training")
    for view, (control, key, wanted) in BY_KEY.items():
        page.locator(f'.views a[href^="#{view}"]').focus()
        page.keyboard.press("Enter")
        page.wait(view)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("control => document.activeElement.matches(control)", control):
                break
        page.keyboard.press(key)
        page.until("wanted => location.hash.includes(wanted)", wanted)
        assert page.evaluate("control => document.activeElement.matches(control)", control)


def test_a_slider_waits_for_its_value(watched: Any) -> None:
    view = watched()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    view.context.route("**/positions", hold)
    page = view.open("positions")
    slider = page.locator('.positions input[type="range"]').first
    slider.wait_for()
    assert slider.is_disabled()  # it stands in the middle, and not at the position that is shown
    for _ in range(400):
        if held:
            break
        page.wait_for_timeout(50)
    held[0].continue_()
    page.locator(".positions .heat").first.wait_for()
    assert slider.is_enabled()
    assert slider.input_value() == "5"


def test_a_key_is_asked_for(watched: Any) -> None:
    view = watched()

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
    view.errors.clear()  # browsers log every answer with an error's status
