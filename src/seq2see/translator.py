"""Text in, text out: where tokenizers, an engine and options meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.engines.torch import TorchEngine
from seq2see.search import Hypothesis, SearchConfig, Source
from seq2see.text import Tokenizers


@dataclass(frozen=True, slots=True)
class Translation:
    """What a sentence became."""

    text: str
    score: float
    """What the search ranks by: log_prob / length^α, and penalties."""
    log_prob: float
    """The sum of the model's log-probabilities of the tokens."""
    alternatives: tuple[Translation, ...] = ()
    """The next best, if they were asked for."""


class Translator:
    """Translates lines."""

    def __init__(self, engine: TorchEngine, tokenizers: Tokenizers) -> None:
        self._engine = engine
        self._tokenizers = tokenizers

    def translate_lines(
        self, lines: Sequence[str], config: SearchConfig | None = None
    ) -> list[Translation]:
        """Translate lines, in their order; what is blank stays so."""
        config = config or SearchConfig()
        ids = self._tokenizers.source.encode_batch(list(lines))
        full = [place for place, sentence in enumerate(ids) if sentence]
        sources = [Source(len(ids[place]) + 1, place) for place in full]
        found = self._engine.search([ids[place] for place in full], sources, config)
        translations = [Translation(line, 0.0, 0.0) for line in lines]
        for place, hypotheses in zip(full, found, strict=True):
            translations[place] = self._translation(hypotheses)
        return translations

    def _translation(self, hypotheses: Sequence[Hypothesis]) -> Translation:
        best, *others = [self._text(hypothesis) for hypothesis in hypotheses]
        return Translation(best.text, best.score, best.log_prob, tuple(others))

    def _text(self, hypothesis: Hypothesis) -> Translation:
        text = self._tokenizers.target.decode(hypothesis.content)
        return Translation(text, hypothesis.score, hypothesis.log_prob)
