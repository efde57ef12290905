"""The page of one trace, in a file and in the frame of a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seq2see.explain import Trace

VIEWS = {
    "attention": "svg.matrix",
    "decoding": "svg.beam",
    "attribution": "svg.matrix",
    "intervene": ".difference",
}
"""Views of an exported trace, each with a selector that matches when it is drawn."""


@pytest.fixture(scope="module")
def trace(service: Any) -> Trace:
    options = {"layers": ["decoder.1"], "word_alternatives": True}
    methods = ["attention", "gradient_x_input", "occlusion"]
    ablation = {"kind": "ablate_sublayer", "stack": "encoder", "layer": 0, "sublayer": "self"}
    answer = service.explain(
        beam_size=3, trace_options={**options, "attributions": methods}, interventions=[ablation]
    )
    return Trace.model_validate(answer)


def open_file(open_browser: Any, path: Path, trace: Trace, **settings: Any) -> Any:
    trace.save(path)
    browser = open_browser(**settings)
    browser.home = "file:"  # no other requests are allowed
    return browser.visit(path.as_uri())


@pytest.mark.parametrize("width", [1280, 390])
def test_views_of_a_trace_work_without_a_service(
    open_browser: Any, trace: Trace, tmp_path: Path, width: int
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace, width=width)
    page.wait_for_selector(".views a")
    names = page.locator(".views a").evaluate_all("links => links.map(link => link.dataset.key)")
    assert names == list(VIEWS)
    for view, selector in VIEWS.items():
        page.open_view(view)
        page.wait_for_selector(selector)
        assert trace.translation.text in page.locator(".output").inner_text()
        assert page.locator(".status.error").count() == 0
        excess = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert excess <= 0, f"{view} is {excess} px too wide"
    assert "encoder" in page.locator(".mono li").inner_text()


def test_exported_page_has_languages_words_and_keyboard_control(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace)
    page.locator('[data-key="Unit:words"]').click()
    words = [word.text for word in trace.source.words][:5]
    assert page.locator("svg.matrix text").all_text_contents()[:5] == words
    page.locator("svg.matrix").focus()
    before = page.locator(".readout").inner_text()
    page.keyboard.press("ArrowUp")
    page.wait_until("text => document.querySelector('.readout').innerText !== text", before)
    page.locator('[data-key="Page language:zh"]').click()
    page.wait_for_selector("html[lang=zh-Hans]")


def test_exported_page_shows_all_steps_and_hypotheses(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace)
    page.open_view("decoding")
    assert page.locator("svg.beam .node").count() == len(trace.beam.nodes)
    assert page.locator("details tbody tr").count() == len(trace.steps)
    words = page.locator("section", has_text="Alternatives for each word").locator("tbody tr")
    assert words.count() == len(trace.word_alternatives)


def test_exported_attributions_equal_the_trace(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace)
    page.open_view("attribution")
    for attribution in trace.attributions:
        page.locator(f'[data-key="Method:{attribution.method}"]').click()
        page.locator("svg.matrix").focus()
        row, column = 0, int(abs(attribution.word_scores[0]).argmax())
        page.assert_shows("cell", float(attribution.word_scores[row, column]))
    page.locator('[data-key="Method:compare"]').click()
    assert page.locator("tbody tr").count() == len(trace.attributions)


def test_scores_that_were_not_recorded_are_explained(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace)
    page.locator('[data-key="decoder.0.cross.0"]').click()
    page.locator('[data-key="Stage:scores"]').click()
    assert page.get_by_text("--layers decoder.0 or --layers all").count() == 2


def test_numbers_of_exported_page_are_formatted_as_in_served_page(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    page = open_file(open_browser, tmp_path / "a.html", trace)
    texts = page.evaluate(
        "import('format.js').then(m => [m.formatPercent(0.0004), m.formatNumber(Infinity)])"
    )
    assert texts == ["0.04 %", "∞"]


def test_trace_can_be_explored_in_the_frame_of_a_notebook(
    open_browser: Any, trace: Trace, tmp_path: Path
) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>a</title>{trace._repr_html_()}", encoding="utf-8")
    browser = open_browser()
    browser.home = "file:"
    page = browser.visit(path.as_uri())
    frame = page.frame_locator("iframe")
    for view, selector in VIEWS.items():
        frame.locator(f'.views a[data-key="{view}"]').click()
        frame.locator(selector).wait_for()
    frame.locator('[data-key="theme"]').click()
    frame.locator('.views a[data-key="attention"]').click()
    frame.locator(".thumb").first.click()
    frame.locator('.thumb[aria-pressed="true"]').wait_for()
