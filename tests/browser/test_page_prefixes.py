"""Prefixes of sentences: one sentence is translated again, the others do not change."""

from __future__ import annotations

from typing import Any

import pytest

TEXT = "the old animal slept. it was wide.\n\n  the street was old."
OPTIONS = {"n_best": 4, "alignment": True, "token_scores": True}


class TranslatedText:
    """A text and its translation, in which sentences can be replaced."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.answer = service.translate(text=TEXT, **OPTIONS)
        self.sentences = self.answer["sentences"]

    def translate_sentence(self, index: int, prefix: str, rank: int = 0) -> Any:
        """Return a candidate for one sentence with a prefix."""
        sentence = self.sentences[index]
        text = TEXT[sentence["source_start"] : sentence["source_end"]]
        translation = self.service.translate(text=text, prefix=prefix, **OPTIONS)
        return [translation, *translation["alternatives"]][rank]

    def with_sentences(self, rank: int = 0, **parts: str) -> str:
        """Return a candidate with replaced sentences: `s1` replaces the second one."""
        candidate = [self.answer, *self.answer["alternatives"]][rank]
        text: str = candidate["text"]
        for index in reversed(range(len(self.sentences))):
            sentence, new = candidate["sentences"][index], parts.get(f"s{index}")
            if new is not None:
                text = text[: sentence["target_start"]] + new + text[sentence["target_end"] :]
        return text


@pytest.fixture(scope="module")
def text(service: Any) -> TranslatedText:
    return TranslatedText(service)


def choose(page: Any, text: TranslatedText, index: int) -> str:
    """Choose an alternative for the first word of a sentence and return its new prefix."""
    source = text.sentences[index]
    word = (
        "async ([from, to]) => { for (const word of document.querySelectorAll('.word')) {"
        "word.dispatchEvent(new Event('pointerenter'));"
        "const mark = document.querySelector('.mirror mark');"
        "const before = mark?.previousSibling?.textContent.length ?? 0;"
        "if (mark && before >= from && before < to) return word.dataset.key; } }"
    )
    key = page.evaluate(word, [source["source_start"], source["source_end"]])
    page.locator(f'[data-key="{key}"]').click()
    page.locator('[data-key^="alternative:"]').last.click()
    page.wait_until("() => !location.hash.includes('word=')")
    page.wait("translate")
    lines = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('prefix')")
    return str(lines.split("\n")[-1])


def test_translation_lists_its_sentences(text: TranslatedText) -> None:
    spans = [TEXT[each["source_start"] : each["source_end"]] for each in text.sentences]
    assert spans == ["the old animal slept.", "it was wide.", "the street was old."]
    total = sum(each["log_prob"] for each in text.sentences)
    assert text.answer["log_prob"] == pytest.approx(total, abs=1e-4)


def test_prefix_changes_only_its_sentence(open_browser: Any, text: TranslatedText) -> None:
    page = open_browser().open("translate", text=TEXT)
    page.wait("translate")
    shown = "text => document.querySelector('.target-text').textContent === text"
    first = text.translate_sentence(1, choose(page, text, 1))
    assert text.with_sentences(s1=first["text"]) != text.with_sentences()
    page.wait_until(shown, text.with_sentences(s1=first["text"]))
    total = text.answer["log_prob"] - text.sentences[1]["log_prob"] + first["log_prob"]
    page.assert_shows("log_prob", total)
    other = page.locator('[data-key="candidate:1"]')
    first_alternative = text.with_sentences(1, s1=first["alternatives"][0]["text"])
    assert other.locator("span").text_content() == first_alternative
    other.click()
    page.wait_until(shown, first_alternative)
    second = text.translate_sentence(2, choose(page, text, 2), 1)
    both_replaced = text.with_sentences(1, s1=first["alternatives"][0]["text"], s2=second["text"])
    page.wait_until(shown, both_replaced)
    page.reload()
    page.wait("translate")
    page.wait_until(shown, both_replaced)
    page.locator(".chip.is button").first.click()
    page.wait_until(shown, text.with_sentences(1, s2=second["text"]))
    page.locator(".chip.is button").click()
    page.wait_until(shown, text.with_sentences(1))


def test_other_sentences_keep_their_candidate(open_browser: Any, text: TranslatedText) -> None:
    page = open_browser().open("translate", text=TEXT, candidate=2)
    page.wait("translate")
    part = text.translate_sentence(0, choose(page, text, 0), 2)
    shown = "text => document.querySelector('.target-text').textContent === text"
    page.wait_until(shown, text.with_sentences(2, s0=part["text"]))


def test_word_of_a_replaced_sentence_highlights_its_source(
    open_browser: Any, text: TranslatedText
) -> None:
    sentence = text.sentences[2]
    part = text.translate_sentence(2, "wide")
    page = open_browser().open(
        "translate", text=TEXT, prefix="wide", sentence=sentence["source_start"]
    )
    page.wait("translate")
    answer = text.with_sentences(s2=part["text"])
    page.wait_until("text => document.querySelector('.target-text').textContent === text", answer)
    page.locator(".target-text .word").last.hover()
    page.wait_for_selector(".mirror mark")
    before = page.evaluate("document.querySelector('.mirror mark').previousSibling.textContent")
    assert len(before) >= sentence["source_start"]


def test_warnings_name_their_sentences(open_browser: Any) -> None:
    def with_unmet_terms(route: Any) -> None:
        (translation,) = route.fetch().json()["translations"]
        for term, each in zip(["Tier", "breit", "Tier"], translation["sentences"], strict=True):
            each["unmet_constraints"] = [term]
        translation["unmet_constraints"] = ["Tier", "breit"]
        route.fulfill(json={"translations": [translation]})

    view = open_browser()
    view.context.route("**/api/v1/translate", with_unmet_terms)
    page = view.open("translate", text=TEXT)
    page.wait("translate")
    for term, sentences in (
        ("breit", "“it was wide.”"),
        ("Tier", "“the old animal slept.”\n“the street was old.”"),
    ):
        page.locator(".chip.warn", has_text=term).hover()
        assert page.locator("#tooltip").inner_text() == sentences
