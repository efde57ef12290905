"""Translation of text: combines tokenizers, an engine and options."""

from seq2see.translator.options import TranslationOptions
from seq2see.translator.translation import (
    AlignmentLink,
    PairScore,
    ScoredToken,
    SentencePairOffsets,
    Translation,
    TranslationFlag,
    join_translations,
)
from seq2see.translator.translator import Translator, load

__all__ = [
    "AlignmentLink",
    "PairScore",
    "ScoredToken",
    "SentencePairOffsets",
    "Translation",
    "TranslationFlag",
    "TranslationOptions",
    "Translator",
    "join_translations",
    "load",
]
