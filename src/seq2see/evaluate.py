"""A test set in, a report out. Validation during training goes this way too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seq2see import metrics
from seq2see.data.readers import Pair
from seq2see.search import SearchConfig
from seq2see.translator import Translator


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a translator makes of a test set."""

    translations: list[str]
    scores: Mapping[str, metrics.Score]


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    language: str,
    config: SearchConfig | None = None,
) -> Evaluation:
    """Translate every source and score the whole; `language` is the target's."""
    found = translator.translate_lines([pair.source for pair in pairs], config)
    texts = [translation.text for translation in found]
    references = [pair.target for pair in pairs]
    return Evaluation(texts, scored(texts, references, language))


def scored(texts: list[str], references: list[str], language: str) -> dict[str, metrics.Score]:
    """Return BLEU and chrF, by their names."""
    found = metrics.scores(texts, references, ("bleu", "chrf"), language=language)
    return {str(name): score for name, score in found.items()}
