"""Alternatives of words in a text of several sentences: one is translated anew, the others stay."""

from __future__ import annotations

from typing import Any

import pytest

TEXT = "the old animal slept. it was wide.\n\n  the street was old."
ASKED = {"n_best": 4, "alignment": True, "token_scores": True}


class Text:
    """A text and its translation, of which sentences can be put in anew."""

    def __init__(self, site: Any) -> None:
        self.site = site
        self.answer = site.translated(text=TEXT, **ASKED)
        self.sentences = self.answer["sentences"]

    def part(self, at: int, prefix: str, rank: int = 0) -> Any:
        """Return what the service says of one sentence alone."""
        here = self.sentences[at]
        text = TEXT[here["source_start"] : here["source_end"]]
        found = self.site.translated(text=text, prefix=prefix, **ASKED)
        return [found, *found["alternatives"]][rank]

    def whole(self, rank: int = 0, **parts: str) -> str:
        """Return the translation with other sentences: `s1` in the place of the second."""
        said = [self.answer, *self.answer["alternatives"]][rank]
        text: str = said["text"]
        for at in reversed(range(len(self.sentences))):
            here, new = said["sentences"][at], parts.get(f"s{at}")
            if new is not None:
                text = text[: here["target_start"]] + new + text[here["target_end"] :]
        return text


@pytest.fixture(scope="module")
def text(site: Any) -> Text:
    return Text(site)


def choose(page: Any, text: Text, at: int) -> str:
    """Take another first word of a sentence; return how the sentence begins then."""
    source = text.sentences[at]
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
    page.until("() => !location.hash.includes('word=')")
    page.wait("translate")
    lines = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('prefix')")
    return str(lines.split("\n")[-1])


def test_a_text_tells_its_sentences(text: Text) -> None:
    spans = [TEXT[each["source_start"] : each["source_end"]] for each in text.sentences]
    assert spans == ["the old animal slept.", "it was wide.", "the street was old."]
    total = sum(each["log_prob"] for each in text.sentences)
    assert text.answer["log_prob"] == pytest.approx(total, abs=1e-4)


def test_sentences_begin_otherwise_while_the_others_stay(watched: Any, text: Text) -> None:
    page = watched().open("translate", text=TEXT)
    page.wait("translate")
    shown = "text => document.querySelector('.target-text').textContent === text"
    first = text.part(1, choose(page, text, 1))
    assert text.whole(s1=first["text"]) != text.whole()
    page.until(shown, text.whole(s1=first["text"]))
    total = text.answer["log_prob"] - text.sentences[1]["log_prob"] + first["log_prob"]
    page.assert_shows("log_prob", total)
    other = page.locator('[data-key="candidate:1"]')
    assert other.locator("span").text_content() == text.whole(s1=first["alternatives"][0]["text"])
    other.click()
    page.until(shown, text.whole(s1=first["alternatives"][0]["text"]))
    second = text.part(2, choose(page, text, 2))
    both = text.whole(s1=first["alternatives"][0]["text"], s2=second["text"])
    page.until(shown, both)
    page.reload()
    page.wait("translate")
    page.until(shown, both)
    page.locator(".chip.is button").first.click()
    page.until(shown, text.whole(s2=second["text"]))
    page.locator(".chip.is button").click()
    page.until(shown, text.whole())


def test_the_others_stay_as_they_were_picked(watched: Any, text: Text) -> None:
    page = watched().open("translate", text=TEXT, candidate=2)
    page.wait("translate")
    part = text.part(0, choose(page, text, 0))
    shown = "text => document.querySelector('.target-text').textContent === text"
    page.until(shown, text.whole(2, s0=part["text"]))


def test_a_word_of_a_sentence_that_is_anew_shows_its_source(watched: Any, text: Text) -> None:
    here = text.sentences[2]
    part = text.part(2, "wide")
    page = watched().open("translate", text=TEXT, prefix="wide", sentence=2)
    page.wait("translate")
    answer = text.whole(s2=part["text"])
    page.until("text => document.querySelector('.target-text').textContent === text", answer)
    page.locator(".target-text .word").last.hover()
    page.wait_for_selector(".mirror mark")
    before = page.evaluate("document.querySelector('.mirror mark').previousSibling.textContent")
    assert len(before) >= here["source_start"]


def test_a_sentence_that_is_anew_takes_what_was_wrong_with_it_along(watched: Any) -> None:
    """The old sentences lack a term each; the second is translated anew, and lacks none."""

    def lacking(route: Any) -> None:
        (found,) = route.fetch().json()["translations"]
        terms = ["Tier", "breit", "Tier"] if len(found["sentences"]) == 3 else [None]
        for term, each in zip(terms, found["sentences"], strict=True):
            each["unmet_constraints"] = [term] if term else []
        found["unmet_constraints"] = [term for term in dict.fromkeys(terms) if term]
        route.fulfill(json={"translations": [found]})

    view = watched()
    view.context.route("**/api/v1/translate", lacking)
    page = view.open("translate", text=TEXT)
    page.wait("translate")
    said = "[...document.querySelectorAll('.chip.warn')].map((chip) => chip.textContent)"
    told = f"term => {said}.some((text) => text.includes(term))"
    assert page.evaluate(told, "“Tier”")
    assert page.evaluate(told, "“breit”")
    page.locator(".chip.warn", has_text="breit").hover()
    assert page.locator("#tooltip").inner_text() == "“it was wide.”"
    page.go("translate", text=TEXT, prefix="wide", sentence=1)
    page.wait_for_selector(".chip.is")
    page.until(f"term => !({told})(term)", "“breit”")
    assert page.evaluate(told, "“Tier”")
