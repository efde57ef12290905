"""Plain texts: what is passed to the translator, and what is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seq2see.serve.request_translation import (
    TextTranslationOptions,
    translate_and_report_partial_text,
    translate_texts,
)
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext
from seq2see.translator import SourceText, Translation, TranslationOptions, join_translations
from seq2see.translator.text_translation import find_parts

Translate = Callable[..., tuple[Translation, list[str]]]


@pytest.fixture
def translate(uppercase_translator: Any) -> Translate:
    """Function that returns the translation of a text and the sentences that were translated."""

    def translate_text(text: str, options: TextTranslationOptions | None = None) -> Any:
        options = options or TextTranslationOptions(TranslationOptions())
        (translation,) = translate_texts(uppercase_translator, [text], options)
        return translation, uppercase_translator.lines

    return translate_text


@pytest.mark.parametrize("text", ["123", "...", "???", "😀", "---", "|---|---|", "12:30\n$5.00"])
def test_text_without_letters_is_copied(translate: Translate, text: str) -> None:
    translation, lines = translate(text)
    assert translation == Translation(text, 0.0, 0.0)
    assert not lines


@pytest.mark.parametrize(
    ("text", "expected_lines"),
    [
        ("A dog runs.\n---\n\nA cat.", ["A dog runs.", "A cat."]),
        ("A dog runs. A cat sits.", ["A dog runs.", "A cat sits."]),
        ("A dog runs! 14! A cat sits.", ["A dog runs!", "A cat sits."]),
        ("A dog runs.  ???", ["A dog runs."]),
    ],
)
def test_sentences_without_letters_are_copied(
    translate: Translate, text: str, expected_lines: list[str]
) -> None:
    translation, lines = translate(text)
    assert lines == expected_lines
    assert translation.text == text.upper()


def test_placeholder_is_not_split_into_sentences(translate: Translate) -> None:
    translation, _ = translate("It has {n, plural, one {A dog! 1! A cat} other {2}} now.")
    assert "{n, plural, one {A dog! 1! A cat} other {2}}" in translation.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. A dog runs.\n2. A cat.", "1. A DOG RUNS.\n2. A CAT."),
        ("  (a) a dog\n  b) a cat", "  (a) A DOG\n  b) A CAT"),
        ("# a dog\n\n> a cat\n‣ a fox", "# A DOG\n\n> A CAT\n‣ A FOX"),
        ("- \n\t- a dog", "- \n\t- A DOG"),
        ("> - 1.2. a dog\n> > a cat", "> - 1.2. A DOG\n> > A CAT"),
        ("- [ ] a dog\n* [x]  a cat", "- [ ] A DOG\n* [x]  A CAT"),
        ("A) a dog\niv. a cat\nIII. a fox", "A) A DOG\niv. A CAT\nIII. A FOX"),
        (
            "1、a dog\n（a）a cat\n(2）a fox\n3．a bear",
            "1、A DOG\n（a）A CAT\n(2）A FOX\n3．A BEAR",
        ),
        ("②a dog\n•a cat", "②A DOG\n•A CAT"),
        ("▪ a dog\n● a cat\n· a fox", "▪ A DOG\n● A CAT\n· A FOX"),
        ("\ufeff- a dog", "\ufeff- A DOG"),
        ("\ufeffa dog", "\ufeffA DOG"),
    ],
)
def test_list_markers_are_copied(translate: Translate, text: str, expected: str) -> None:
    translation, lines = translate(text)
    assert translation.text == expected
    assert all(line[0].isalpha() and line[1] != ")" for line in lines)


@pytest.mark.parametrize(
    "text", ["I. a dog", "A. Smith", "1、2 and 3", "3．5 dogs", "1.5 dogs", "-a"]
)
def test_number_or_initial_is_no_list_marker(translate: Translate, text: str) -> None:
    _, lines = translate(text)
    assert lines == [text]


@pytest.mark.parametrize("text", ["7 dogs", "Hello {name}!", "a dog"])
@pytest.mark.parametrize("alignment", [False, True])
def test_alignment_is_returned_only_on_request(
    translate: Translate, text: str, alignment: bool
) -> None:
    options = TranslationOptions(alignment=alignment, keep_numbers=True).with_settings(
        {"beam_size": 2, "n_best": 2}
    )
    best, _ = translate(text, TextTranslationOptions(options))
    assert len(best.alternatives) == 1
    assert all(bool(each.alignment) == alignment for each in (best, *best.alternatives))


def test_html_texts_and_alternatives_are_translated_in_one_call(
    uppercase_translator: Any,
) -> None:
    translator = uppercase_translator
    options = TranslationOptions().with_settings({"beam_size": 2, "n_best": 2})
    pages = ["<p>a dog</p><p>a cat</p>", "<p>a dog</p>", "<p>1</p>"]
    translations = translate_texts(translator, pages, TextTranslationOptions(options, is_html=True))
    assert translator.lines == ["a dog", "a cat"]
    assert translations[0].text == "<p>A DOG</p><p>A CAT</p>"
    assert [len(each.alternatives) for each in translations] == [1, 1, 0]
    assert translations[1].alternatives[0].text == "<p>A DOG1</p>"


def test_stream_copies_markers_and_sentences_without_letters(uppercase_translator: Any) -> None:
    translator, partial_texts = uppercase_translator, list[str]()
    text = "1. A dog runs! 14! A cat sits.\n---\n"
    translation = translate_and_report_partial_text(
        translator,
        text,
        TextTranslationOptions(TranslationOptions()),
        RequestContext.with_timeout(9),
        partial_texts.append,
    )
    assert translator.lines == ["A dog runs!", "A cat sits."]
    assert partial_texts == ["1. A DOG RUNS!", "1. A DOG RUNS! 14! A CAT SITS."]
    assert translation.text == text.upper()


def test_prefixes_are_those_of_single_sentences(translate: Translate) -> None:
    options = TextTranslationOptions(
        TranslationOptions(prefix="Ja, "), prefixes={26: "Die ", 9: "unused"}
    )
    translation, _ = translate("- A dog runs. A cat sits.\nA fox {n}.", options)
    assert translation.text == "- JA, A DOG RUNS. A CAT SITS.\nDIE {n} A FOX."


def test_prefix_and_numbers_are_kept_in_streams(uppercase_translator: Any) -> None:
    options = TextTranslationOptions(TranslationOptions(prefix="Ja, ", keep_numbers=True))

    class NumberlessTranslator(type(uppercase_translator)):  # type: ignore[misc]
        def translate_line(self, line: str, options: TranslationOptions) -> Translation:
            return super().translate_line(line.replace("7", "seven"), options)  # type: ignore[no-any-return]

    translation = translate_and_report_partial_text(
        NumberlessTranslator("en", "de"),
        "A dog runs. It has 7 cats.",
        options,
        RequestContext.with_timeout(9),
        lambda _: None,
    )
    assert translation.text == "JA, A DOG RUNS. IT HAS CATS 7."


@given(st.text(st.sampled_from("ab-*• \t\r\n\u2028."), max_size=60))
def test_joining_untranslated_spans_restores_the_text(text: str) -> None:
    spans = [part.span for part in find_parts(SourceText(text), "en", 1)]
    assert all(text[span.start : span.end] == span.text for span in spans)
    copies = [Translation(span.text, 0, 0) for span in spans]
    assert join_translations(text, spans, copies).text == text


def test_white_space_markers_and_offsets_are_kept(service: Service) -> None:
    text = "  - one two\r\n\n\tthree \n"
    options = TextTranslationOptions(TranslationOptions(alignment=True))
    (result,) = service.translate(RequestContext.with_timeout(9), [text], "en", "de", options)
    assert result.text == "  - one-de two-de\r\n\n\tthree-de \n"
    for link in result.alignment:
        word = text[link.source_start : link.source_end]
        assert result.text[link.target_start : link.target_end] == f"{word}-de"


@pytest.mark.parametrize("text", ["Hi {name}!", "See https://a.b/c?d=e now", "%s of %d"])
def test_placeholders_survive_a_translator_that_damages_them(
    service: Service, suffix_translator: Any, text: str
) -> None:
    class DamagingTranslator(suffix_translator):  # type: ignore[misc]
        def translate_line(self, line: str, options: TranslationOptions) -> Translation:
            damaged = line.replace("{", "").replace("%", "").replace("/", "")
            return super().translate_line(damaged, options)  # type: ignore[no-any-return]

    service.models.find("en-de").translator = DamagingTranslator("en", "de")  # type: ignore[union-attr]
    options = TextTranslationOptions(TranslationOptions())
    (result,) = service.translate(RequestContext.with_timeout(9), [text], "en", "de", options)
    for placeholder in ("{name}", "https://a.b/c?d=e", "%s", "%d"):
        assert result.text.count(placeholder) == text.count(placeholder)


def test_language_of_each_text_is_detected(service: Service) -> None:
    texts = [
        "The weather is very nice today, is it not?",
        "Il fait très beau aujourd'hui, n'est-ce pas ?",
        "My neighbours have got a new car.",
    ]
    context, options = RequestContext.with_timeout(9), TextTranslationOptions(TranslationOptions())
    results = service.translate(context, texts, "auto", "de", options)
    assert [result.source for result in results] == ["en", "fr", "en"]
    assert [result.via for result in results] == [[], ["en"], []]
    assert all(result.detected.confidence > 0.5 for result in results)  # type: ignore[union-attr]
