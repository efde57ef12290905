"""Models that produce line breaks, or nothing, cannot change the lines of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from seq2see.engines.base import BatchResult, TargetScores
from seq2see.engines.batching import DEFAULT_SPECIAL_TOKENS
from seq2see.search import Hypothesis, SentenceSearchInput
from seq2see.text import EOS_ID, TokenizerPair
from seq2see.translator import TranslationFlag, Translator


class ConstantEngine:
    """Translates each sentence to the same ids."""

    name = "torch"
    special_tokens = DEFAULT_SPECIAL_TOKENS

    def __init__(self, ids: Sequence[int]) -> None:
        self.tokens = (*ids, EOS_ID)

    def search(
        self, inputs: Sequence[SentenceSearchInput], *_: object, **__: object
    ) -> Iterator[BatchResult]:
        log_probs = (-1.0,) * len(self.tokens)
        hypothesis = Hypothesis(self.tokens, True, -1.0, -1.0, log_probs)
        yield BatchResult(range(len(inputs)), [[hypothesis] for _ in inputs])

    def score_targets(self, *_: object, **__: object) -> list[TargetScores]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return TokenizerPair.load(Path("tests/golden/model"))


def build_translator(tokenizers: TokenizerPair, text: str) -> Translator:
    """Return a translator of a model that produces the bytes of a text."""
    pieces = tokenizers.target.pieces
    ids = [pieces.index(f"<0x{byte:02X}>") for byte in text.encode()]
    engine: Any = ConstantEngine(ids)
    return Translator(engine, tokenizers, ("en", "fr"))


@pytest.mark.parametrize("line_break", ["\n", "\r", "\u2028", "\u2029"])
def test_line_break_of_a_model_becomes_a_space(line_break: str, tokenizers: TokenizerPair) -> None:
    translator = build_translator(tokenizers, f"Le{line_break}chat")
    translation = translator.translate("The cat\n- The dog\r\n", token_scores=True)
    assert translation.text == "Le chat\n- Le chat\r\n"
    offsets = [(token.start, token.end) for token in translation.tokens if token.start < token.end]
    assert [translation.text[start:end] for start, end in offsets] == list("LechatLechat")


@pytest.mark.parametrize("source", ["Go", "The cat.", "The dog sleeps and the cat runs."])
def test_empty_translation_is_short(source: str, tokenizers: TokenizerPair) -> None:
    translation = build_translator(tokenizers, "").translate(source)
    assert translation.text == ""
    assert TranslationFlag.SHORT in translation.flags
