"""The view of interventions."""

from __future__ import annotations

from typing import Any


def test_numbers_of_an_intervention(watched: Any, site: Any) -> None:
    off = {
        "kind": "ablate_heads",
        "stack": "decoder",
        "layer": 1,
        "attention": "cross",
        "heads": [0],
    }
    hide = {"kind": "mask_keys", "stack": "encoder", "attention": "self", "keys": [1, 2]}
    change = site.explained(interventions=[off, hide], trace_options={"layers": "none"})[
        "intervention_effect"
    ]
    page = watched().open("intervene", ablate="decoder.1.cross.0", mask="encoder.self:1,2")
    page.wait_for_selector('[data-number="after"]')
    page.assert_shows("before", change["baseline"]["log_prob"])
    page.assert_shows("after", change["baseline_log_prob_after"])
    page.locator('[data-key="reset"]').click()
    page.until("!document.querySelector('[data-number=after]')")


def test_attentions_are_named_in_the_language_of_the_page(watched: Any) -> None:
    page = watched().open("intervene", lang="zh")
    page.wait("intervene")
    assert page.locator('[data-key="scaled"] option:checked').inner_text() == (
        "解码器第 0 层 · 交叉注意力"
    )


def test_what_each_head_is_good_for(watched: Any, site: Any, sentence: str) -> None:
    trace = site.explained(trace_options={"layers": "none", "top_k": 60})
    text, word = trace["translation"]["text"], trace["target"]["tokens"][0]["text"].strip()
    assert text.startswith(word)
    pair = {
        "text": sentence,
        "translation": text,
        "contrastive_translation": "zzz" + text.removeprefix(word),
    }
    answer = site.ask("api/v1/head-ablation", {**pair, "source": "en", "target": "de"})
    assert len(answer["ablations"]) == 12  # two heads in two, two and two attentions
    page = watched().open(
        "intervene", sentence_a=sentence, sentence_b=sentence, word_a=word, word_b="zzz"
    )
    page.locator('[data-key="head-ablation:0"]').click()
    page.wait_for_selector('[data-key="matrix:head-ablation:0"]')
    page.assert_shows("head-ablation:0", max(abs(each["change"]) for each in answer["ablations"]))
    assert page.locator('[data-key="head-ablation:0"]').count() == 0
