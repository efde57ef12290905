"""Interventions view."""

from __future__ import annotations

from typing import Any

import pytest


def test_displayed_effect_equals_the_trace(open_browser: Any, service: Any) -> None:
    ablation = {
        "kind": "ablate_heads",
        "stack": "decoder",
        "layer": 1,
        "attention": "cross",
        "heads": [0],
    }
    mask = {"kind": "mask_keys", "stack": "encoder", "attention": "self", "keys": [1, 2]}
    effect = service.explain(interventions=[ablation, mask], trace_options={"layers": "none"})[
        "intervention_effect"
    ]
    page = open_browser().open("intervene", ablate="decoder.1.cross.0", mask="encoder.self:1,2")
    page.wait_for_selector('[data-number="after"]')
    page.assert_shows("before", effect["baseline"]["log_prob"])
    page.assert_shows("after", effect["baseline_log_prob_after"])
    page.locator('[data-key="reset"]').click()
    page.wait_until("!document.querySelector('[data-number=after]')")


def test_attention_names_are_localized(open_browser: Any) -> None:
    page = open_browser().open("intervene", lang="zh")
    page.wait("intervene")
    assert page.locator('[data-key="scaled"] option:checked').inner_text() == (
        "解码器第 0 层 · 交叉注意力"
    )


def test_head_ablation_figure_equals_the_service(
    open_browser: Any, service: Any, sentence: str
) -> None:
    trace = service.explain(trace_options={"layers": "none", "top_k": 60})
    text, word = trace["translation"]["text"], trace["target"]["tokens"][0]["text"].strip()
    assert text.startswith(word)
    pair = {
        "text": sentence,
        "translation": text,
        "contrastive_translation": "zzz" + text.removeprefix(word),
    }
    response = service.request("api/v1/head-ablation", {**pair, "source": "en", "target": "de"})
    assert len(response["ablations"]) == 12  # two heads in each of six attention modules
    page = open_browser().open(
        "intervene", sentence_a=sentence, sentence_b=sentence, word_a=word, word_b="zzz"
    )
    page.locator('[data-key="head-ablation:0"]').click()
    page.wait_for_selector('[data-key="matrix:head-ablation:0"]')
    page.assert_shows("head-ablation:0", max(abs(each["change"]) for each in response["ablations"]))
    assert page.locator('[data-key="head-ablation:0"]').count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_contrast_of_two_sentences_is_drawn(
    open_browser: Any, service: Any, sentence: str, width: int
) -> None:
    trace = service.explain(trace_options={"layers": "none", "top_k": 60})
    text, word = trace["translation"]["text"], trace["target"]["tokens"][0]["text"].strip()
    other = sentence.replace("wide", "old")
    request = {
        "text": sentence,
        "contrastive_text": other,
        "translation": text,
        "contrastive_translation": "zzz" + text.removeprefix(word),
        "word": "it",
    }
    response = service.request("api/v1/contrast", {**request, "source": "en", "target": "de"})
    page = open_browser(width).open(
        "intervene", sentence_a=sentence, sentence_b=other, word_a=word, word_b="zzz"
    )
    page.locator('[data-key="contrast"]').click()
    page.wait_for_selector(".pronoun h4")
    for each in response["sentences"]:
        assert (
            f"{each['preference']:.3f}".replace("-", "−") in page.locator(".pronoun").inner_text()
        )
    num_matrices = page.locator('[data-key^="matrix:contrast:"]').count()
    assert num_matrices == (2 if response["patching_problem"] else 3)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
