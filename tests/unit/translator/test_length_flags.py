"""The flags `short` and `long`: length ratios of the training text, sentences and clauses."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.search import Hypothesis
from seq2see.text import EOS_ID, TextSpan, TokenizerConfig, TokenizerPair
from seq2see.text.training_text_statistics import TrainingTextStatistics, measure_training_text
from seq2see.translator import SourceSegment, TranslationFlag
from seq2see.translator.result_builder import find_flags

LANGUAGES = ("en", "de")
SENTENCES = [
    ("The dog sleeps now.", "Der Hund schläft jetzt."),
    ("A cat runs.", "Eine Katze läuft."),
    ("The old queen was tired.", "Die alte Königin war müde."),
    ("The king eats an apple in the garden.", "Der König isst im Garten einen Apfel."),
]
PAIRS = [
    *SENTENCES,
    *((f"{a} {c}", f"{b} {d}") for a, b in SENTENCES for c, d in SENTENCES),
]
SHORT, LONG = [TranslationFlag.SHORT], [TranslationFlag.LONG]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    sources, targets = zip(*SENTENCES, strict=True)
    return TokenizerPair.train(sources, targets, TokenizerConfig(vocab_size=330))


@pytest.fixture(scope="module")
def statistics(tokenizers) -> TrainingTextStatistics | None:
    return measure_training_text(PAIRS * 10, LANGUAGES, tokenizers)


@pytest.fixture
def flags(tokenizers, statistics):
    def find(source: str, text: str, **settings: Any) -> list[TranslationFlag]:
        segment = SourceSegment(TextSpan(source, 0), tokenizers.source.encode(source))
        tokens = (*tokenizers.target.encode(text), EOS_ID)
        hypothesis = Hypothesis(tokens, True, 0.0, 0.0, ())
        settings = {"languages": LANGUAGES, "training_text": statistics, **settings}
        found = find_flags(segment, hypothesis, text, tokenizers, **settings)
        return [flag for flag in found if flag != TranslationFlag.UNKNOWN]

    return find


@pytest.mark.parametrize("is_measured", [True, False])
def test_translation_without_a_sentence_is_short(flags, is_measured: bool) -> None:
    settings = {} if is_measured else {"training_text": None}
    for a, b in SENTENCES:
        for c, d in SENTENCES:
            assert flags(f"{a} {c}", f"{b} {d}", **settings) == []
            assert flags(f"{a} {c}", b, **settings) == SHORT
            assert flags(f"{a} {c}", d, **settings) == SHORT


def test_sentences_that_are_joined_by_a_comma_are_complete(flags) -> None:
    source = "The dog sleeps now. A cat runs."
    assert flags(source, "Der Hund schläft jetzt, eine Katze rennt.") == []
    assert flags(source, "Der Hund schläft jetzt; Katze da.") == []
    assert flags(source, "Ja, ein Hund.") == SHORT


def test_half_of_a_single_sentence_is_short(flags) -> None:
    source = "The king eats an apple in the garden"
    assert flags(source, "Der König isst im Garten einen Apfel") == []
    assert flags(source, "Der König") == SHORT


def test_translation_with_another_sentence_is_long(flags) -> None:
    assert flags("A cat runs.", "Eine Katze läuft. Die alte Königin war müde.") == LONG


def test_abbreviations_are_no_sentences(flags) -> None:
    source = "Dr. Smith eats an apple in the garden."
    assert flags(source, "Der Arzt isst im Garten einen Apfel.") == []
