"""One very long line: time proportional to its length, nothing missing, bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from seq2see.engines.base import BatchResult
from seq2see.engines.batching import DEFAULT_SPECIAL_TOKENS
from seq2see.search import Hypothesis, SearchConfig, SentenceSearchInput
from seq2see.text import TokenizerPair
from seq2see.text.normalization import Normalization, normalize_unicode_and_spaces
from seq2see.translator import Translator

MAX_TOKENS = 30
NOISE = 0.05
"""Seconds of timing noise that are tolerated."""
SENTENCES = (
    "The dog sleeps. ",
    "Was the queen tired of it? ",
    "A cat ran under the green bridge! ",
)

UNITS = {
    "sentences": "".join(SENTENCES),
    "no punctuation": "the dog sleeps under the green bridge ",
    "one word": "thedogsleepsunderthegreenbridge",
    "Chinese sentences": "狐狸吃了葡萄。国王很累，小狗睡觉。",
    "Chinese": "狐狸吃了葡萄国王很累小狗睡觉",
    "one character": "a",
    "spaces": " ",
    "full stops": "a .",
    "digits": "3141592653",
    "emoji": "😀👍🏽🚀",
    "joined emoji": "👨\u200d👩\u200d👧",
    "joiners": "\u200d",
    "flags": "🇩🇪",
    "marks": "\u0301",
    "marks in another order": "\u0301\u0323",
    "marks that decompose": "\u0344\u0f73",
    "carriage returns": "a\r\r\r\r\r\r\r\r",
    "abbreviations": "Dr. ",
    "parentheses": "(",
    "line separators": "a \u2028",
}


class CopyingEngine:
    """Translates each sentence to its own ids."""

    name = "torch"
    special_tokens = DEFAULT_SPECIAL_TOKENS

    def __init__(self) -> None:
        self.source_lengths: list[int] = []

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        return config

    def search(
        self, inputs: Sequence[SentenceSearchInput], *_: object, **__: object
    ) -> Iterator[BatchResult]:
        for index, each in enumerate(inputs):
            self.source_lengths.append(len(each.source_ids) - 1)
            copy = Hypothesis(tuple(each.source_ids), True, 0.0, 0.0, ())
            yield BatchResult([index], [[copy]])

    def score_targets(self, *_: object, **__: object) -> list[Any]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return TokenizerPair.load(Path("tests/golden/model"))


def translate_copy(tokenizers: TokenizerPair, line: str) -> tuple[str, float, list[int]]:
    """Return the translation of a line, the CPU time, and the number of tokens per sentence."""
    engine = CopyingEngine()
    translator = Translator(engine, tokenizers, ("en", "fr"), MAX_TOKENS)
    start = process_time()
    translation = translator.translate(line)
    seconds = process_time() - start
    assert translation.error is None
    return translation.text, seconds, engine.source_lengths


def remove_spaces(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_time_of_long_line_is_linear_and_nothing_is_lost(
    unit: str, tokenizers: TokenizerPair
) -> None:
    short, long = (unit * (length // len(unit)) for length in (5_000, 50_000))
    _, once, _ = translate_copy(tokenizers, short)
    text, ten_times, lengths = translate_copy(tokenizers, long)
    assert ten_times < 25 * max(once, NOISE)
    assert max(lengths, default=0) <= MAX_TOKENS
    if unit.strip():
        expected = "".join(tokenizers.source.normalize(part) for part in long.split())
        assert remove_spaces(tokenizers.source.normalize(text)) == expected


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_marks_are_normalized_in_linear_time(form: Normalization) -> None:
    def measure(number: int) -> float:
        start = process_time()
        normalize_unicode_and_spaces("\u0301\u0323" * number, form)
        return process_time() - start

    assert measure(50_000) < 20 * max(measure(5_000), NOISE)


def test_memory_of_long_line_is_bounded(tokenizers: TokenizerPair) -> None:
    line = UNITS["sentences"] * (100_000 // len(UNITS["sentences"]))
    translate_copy(tokenizers, line)
    tracemalloc.start()
    try:
        translate_copy(tokenizers, line)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000  # 200 MB per 1 MB of text
