"""Translation of text: combines tokenizers, an engine and options."""

from seq2see.translator.translation import (
    AlignmentLink,
    PairScore,
    ScoredToken,
    SentencePairOffsets,
    Translation,
    TranslationFlag,
    TranslationOptions,
    join_translations,
)
from seq2see.translator.translator import LineTranslator, SegmentRequest, Translator, load
from seq2see.translator.word_alignment import WordAlignment, align_words

__all__ = [
    "AlignmentLink",
    "LineTranslator",
    "PairScore",
    "ScoredToken",
    "SegmentRequest",
    "SentencePairOffsets",
    "Translation",
    "TranslationFlag",
    "TranslationOptions",
    "Translator",
    "WordAlignment",
    "align_words",
    "join_translations",
    "load",
]
