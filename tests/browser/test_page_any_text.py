"""Views with unusual texts: long, empty, in other scripts, and HTML."""

from __future__ import annotations

from typing import Any

import pytest

TEXTS = {
    "long": " ".join(["the old animal didn't cross the wide street because it slept"] * 5),
    "Chinese": "两只狗在草地上奔跑。",
    "right-to-left": "שלום עולם, הכלב רץ",
    "emoji": "the 🐕 slept",
}
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&amp;'


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_views_accept_any_text(open_browser: Any, text: str) -> None:
    page = open_browser(390).open("translate", text=text)
    page.wait("translate")
    assert page.locator(".source-text").input_value() == text
    for view in ("attention", "decoding"):
        page.open_view(view)
        page.wait(view)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_views_accept_empty_text(open_browser: Any) -> None:
    page = open_browser().open("translate", text="")
    page.wait_for_selector('[data-key="example"]')
    assert page.locator(".target-text .word").count() == 0
    for view in ("attention", "decoding", "intervene"):
        page.open_view(view)
        page.wait_until("document.querySelector('.sentence .status')?.textContent")
        assert page.locator(".status.error").count() == 0


def test_sentence_to_explain_is_chosen(open_browser: Any) -> None:
    page = open_browser().open("decoding")
    page.wait("decoding")
    assert page.locator('[data-key="choice"]').count() == 0
    page.set_state("decoding", text="The animal slept. It was wide.")
    page.wait("decoding")
    choice = page.locator('[data-key="choice"]')
    assert choice.locator("option").all_inner_texts() == ["1. The animal slept.", "2. It was wide."]
    first = page.locator(".sentence .output").inner_text()
    choice.select_option("1")
    page.wait_until("location.hash.includes('sentence=1')")
    page.wait_until(f"document.querySelector('.sentence .output').textContent !== {first!r}")
    assert page.locator(".status.error").count() == 0


def test_texts_cannot_inject_scripts(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("translate", text=HOSTILE, prefix="<b>x</b>", glossary="a=<i>b")
    page.wait("translate")
    file = {"name": HOSTILE.replace("/", "") + ".md", "mimeType": "text/plain", "buffer": b"a"}
    page.set_input_files("#files", file)
    page.wait_for_selector(".files .error")  # an unsupported format
    assert page.locator("main script, main img").count() == 0
    view.errors.clear()  # browsers log responses with an error status
    outcome = {
        "number": 1, "status": "ok", "seconds": 1, "verdict": "holds", "figures": [],
        "parts": [{"claim": {"en": "x"}, "verdict": "holds", "text": {"en": HOSTILE}, "rules": []}],
        "measurements": [],
    }  # fmt: skip
    outcome["figures"] = [
        {
            "caption": {"en": HOSTILE},
            "svg": {"en": f'<svg xmlns="http://www.w3.org/2000/svg">{HOSTILE}</svg>'},
        }
    ]
    view.context.route("**/api/v1/lab/1", lambda route: route.fulfill(json=outcome))
    for name in ("attention", "intervene", "training", "lab"):
        page.open_view(name)
        page.wait(name)
    page.locator('[data-key="run:1"]').click()
    page.wait_for_selector(".picture img")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main iframe, main img:not(.picture img)").count() == 0
    page = view.visit(f"{view.home}#{HOSTILE}?text=%3Cscript%3E&lang={HOSTILE}")
    page.wait_for_selector("h1")
    assert page.evaluate("window.hacked") is None
