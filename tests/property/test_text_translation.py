"""Texts of random sentences are translated completely, and everything else in them is copied."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sentencex
from hypothesis import given, strategies as st

from seq2see.text import split_sentences
from seq2see.text.languages import LANGUAGE_NAMES
from seq2see.text.sentence_splitting import may_have_several_sentences
from seq2see.translator import (
    Block,
    SourceText,
    TextTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
)

SENTENCES = (
    "The dog sleeps.",
    "Why is it late?",
    "Stop it!",
    "It costs 3.5 dollars, Dr. Smith said.",
    "“The cat runs.”",
    "Hello {0}!",
    "See https://a.org/0?1=2 now.",
    "%% of it.",
    "14.",
    "???",
    "A fox 🦊",
    "狐狸跑了。",
)
MARKERS = ("", "", "  ", "- ", "\t* ", "1. ", "(a) ", "# ", "> ", "> - 1.2. ")
LINES = st.builds(
    lambda marker, sentences, space, end: marker + space.join(sentences) + end,
    st.sampled_from(MARKERS),
    st.lists(st.sampled_from(SENTENCES), max_size=5),
    st.sampled_from((" ", "  ", " \t")),
    st.sampled_from(("", " ")),
)
TEXTS = st.builds(
    lambda lines, end: end.join(lines),
    st.lists(LINES, max_size=5),
    st.sampled_from(("\n", "\r\n", "\n\n", "\u2028")),
)


class ForgetfulTranslator:
    """Writes a block in upper case, but only its first sentences."""

    languages = ("en", "fr")

    def __init__(self, num_translated: int, max_sentences_per_line: int) -> None:
        self.num_translated = num_translated
        self.max_sentences_per_line = max_sentences_per_line
        self.blocks: list[str] = []

    def translate_blocks(self, blocks: Sequence[Block], _: TranslationOptions) -> list[Translation]:
        self.blocks += [block.text for block in blocks]
        return [Translation(self.translate_text(block.text), -1.0, -1.0) for block in blocks]

    def translate_text(self, text: str) -> str:
        sentences = split_sentences(text, "en")[: self.num_translated]
        return text[: sentences[-1].end].upper() if sentences else ""


def upper(text: str) -> str:
    """Return the expected translation: URLs and list markers stay as they are."""
    return text.upper().replace("HTTPS://A.ORG", "https://a.org").replace("(A) ", "(a) ")


@given(TEXTS, st.sampled_from(["auto", "always"]), st.integers(1, 3))
def test_sentences_that_a_model_drops_are_translated(text: str, split: str, number: int) -> None:
    model = ForgetfulTranslator(1, number)
    translator = TextTranslator(model, TranslationOptions().with_settings({"split": split}))
    (translation,) = translator.translate([SourceText(text)])
    assert translation.text == upper(text)
    assert TranslationFlag.COPIED_SOURCE not in translation.flags


@given(TEXTS, st.sampled_from(["auto", "always", "never"]), st.integers(1, 3))
def test_text_of_a_complete_translation_is_complete(text: str, split: str, number: int) -> None:
    model = ForgetfulTranslator(9, number)
    translator = TextTranslator(model, TranslationOptions().with_settings({"split": split}))
    (translation,) = translator.translate([SourceText(text)])
    assert translation.text == upper(text)


@pytest.mark.parametrize("language", sorted({code.split("-")[0] for code in LANGUAGE_NAMES}))
def test_text_without_sentence_end_is_not_split(language: str) -> None:
    for text in (
        "The “old” dog's house - it's (very) old – sleeps, and “the cat”",
        "El perro, «viejo», duerme — y el gato",
        "狐狸跑了猫睡了",
        "Ο σκύλος κοιμάται και η γάτα",
    ):
        assert not may_have_several_sentences(text)
        assert len(sentencex.segment(language, text)) == 1


@given(
    st.text(st.sampled_from("ab ,'’\"“”„«»()–—-狐é1\t"), max_size=40),
    st.sampled_from(["en", "el", "hy", "my", "hi"]),
)
def test_inner_punctuation_never_ends_a_sentence(text: str, language: str) -> None:
    assert not may_have_several_sentences(text)
    assert len(split_sentences(text, language)) <= 1


class PhrasebookTranslator:
    """Translates known blocks."""

    languages = ("en", "fr")
    max_sentences_per_line = 2

    def __init__(self, phrases: dict[str, str]) -> None:
        self.phrases = phrases

    def translate_blocks(self, blocks: Sequence[Block], _: TranslationOptions) -> list[Translation]:
        return [Translation(self.phrases[block.text], -1.0, -1.0) for block in blocks]


@pytest.mark.parametrize(
    ("at_once", "sentences", "expected"),
    [
        ("Un chat.", ("Un chat.", "Un chien."), "Un chat. Un chien."),
        ("Un chat et un chien.", ("Un chat", "un chien"), "Un chat et un chien."),
        ("Un chat et un chien.", ("Un chat", ""), "Un chat et un chien."),
        ("Un chat.", ("Un chat", "un chien"), "Un chat un chien"),
        ("Un chat. Un chien.", ("Un chat.", "Un très vieux chien."), "Un chat. Un chien."),
    ],
)
def test_better_covered_translation_of_a_line_is_used(
    at_once: str, sentences: tuple[str, str], expected: str
) -> None:
    phrases = {"A cat. A dog.": at_once, "A cat.": sentences[0], "A dog.": sentences[1]}
    (translation,) = TextTranslator(PhrasebookTranslator(phrases)).translate(
        [SourceText("A cat. A dog.")]
    )
    assert translation.text == expected
