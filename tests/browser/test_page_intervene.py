"""The view of interventions."""

from __future__ import annotations

from typing import Any


def test_numbers_of_an_intervention(watched: Any, site: Any) -> None:
    off = {"kind": "heads_off", "stack": "decoder", "layer": 1, "attention": "cross", "heads": [0]}
    hide = {"kind": "hide", "stack": "encoder", "attention": "self", "keys": [1, 2]}
    change = site.explained(interventions=[off, hide], detail={"layers": "none"})["change"]
    page = watched().open("intervene", off="decoder.1.cross.0", hide="encoder.self:1,2")
    page.wait_for_selector('[data-number="now"]')
    page.assert_shows("before", change["baseline"]["log_prob"])
    page.assert_shows("now", change["baseline_now"])
    page.locator('[data-key="reset"]').click()
    page.until("!document.querySelector('[data-number=now]')")


def test_attentions_are_named_in_the_language_of_the_page(watched: Any) -> None:
    page = watched().open("intervene", lang="zh")
    page.wait("intervene")
    assert page.locator('[data-key="site"] option:checked').inner_text() == (
        "解码器第 0 层 · 交叉注意力"
    )


def test_what_each_head_is_good_for(watched: Any, site: Any, sentence: str) -> None:
    trace = site.explained(detail={"layers": "none", "top": 60})
    text, word = trace["translation"]["text"], trace["target"]["tokens"][0]["text"].strip()
    assert text.startswith(word)
    pair = {"text": sentence, "one": text, "other": "zzz" + text.removeprefix(word)}
    answer = site.ask("api/v1/heads", {**pair, "source": "en", "target": "de"})
    assert len(answer["removals"]) == 12  # two heads in two, two and two attentions
    page = watched().open("intervene", a=sentence, b=sentence, he=word, she="zzz")
    page.locator('[data-key="removals:0"]').click()
    page.wait_for_selector('[data-key="matrix:removals:0"]')
    page.assert_shows("removals:0", max(abs(each["change"]) for each in answer["removals"]))
    assert page.locator('[data-key="removals:0"]').count() == 0
