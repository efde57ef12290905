"""Translate view: numbers, words and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any


def test_displayed_scores_equal_the_service(open_browser: Any, service: Any) -> None:
    answer = service.translate(n_best=4, alignment=True, token_scores=True)
    page = open_browser().open("translate", word=0)
    page.wait_for_selector(".word-card dl")
    page.assert_shows("log_prob", answer["log_prob"])
    page.assert_shows("score", answer["score"])
    assert page.locator(".target-text").inner_text().strip() == answer["text"].strip()
    first = min(link["target_start"] for link in answer["alignment"])
    end = next(li["target_end"] for li in answer["alignment"] if li["target_start"] == first)
    tokens = [t for t in answer["tokens"] if t["start"] < end and t["end"] > first]
    page.assert_shows("word", math.exp(sum(token["log_prob"] for token in tokens)))


def test_hovering_a_word_highlights_its_source(open_browser: Any) -> None:
    page = open_browser().open("translate")
    page.wait("translate")
    page.locator(".target-text .word").first.hover()
    page.wait_for_selector(".mirror mark")
    assert "%" in page.locator("#tooltip").inner_text()


def test_files_are_translated(open_browser: Any, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(sentence + "\n")
    view = open_browser()
    page = view.open("translate")
    page.wait("translate")
    page.set_input_files("#files", file)
    link = page.locator(".files a")
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "a_de.txt"
    assert download.value.path().read_text().strip()
    dropped = page.evaluate_handle(
        "() => { const drop = new DataTransfer(); "
        "drop.items.add(new File(['a'], 'b.odt')); return drop; }"
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    page.wait_for_selector(".files .error")  # an unsupported format
    view.errors.clear()  # browsers log responses with an error status
