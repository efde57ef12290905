"""CTranslate2 without seq2see: `translate_batch` on tokens that are computed in advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import seq2see
from seq2see.engines.batching import add_special_tokens
from seq2see.engines.loading import FallbackEngine

SIZES = (16, 32, 64, 128)


def translator(ours: seq2see.Translator, beam: int, batch: int) -> Callable[[list[str]], Any]:
    """Return a function that translates in batches of this size; tokens are cached per input."""
    engine, tokenizer = ours.engine, ours.tokenizers.source
    assert isinstance(engine, FallbackEngine)
    model, cache = engine.ctranslate2_engine.model, dict[tuple[str, ...], list[list[str]]]()

    def tokens(lines: tuple[str, ...]) -> list[list[str]]:
        return [
            [tokenizer.pieces[i] for i in add_special_tokens(ids)]
            for ids in tokenizer.encode_batch(lines)
        ]

    def translate(lines: list[str]) -> Any:
        key = tuple(lines)
        if key not in cache:
            cache[key] = tokens(key)
        settings = {"beam_size": beam, "max_batch_size": batch, "max_input_length": 0}
        return model.translate_batch(cache[key], return_scores=True, **settings)

    return translate
