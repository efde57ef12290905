"""Translation of text: combines tokenizers, an engine and options."""

from seq2see.translator.segmentation import Block
from seq2see.translator.text_layout import SourceText
from seq2see.translator.text_translation import BlockTranslator, TextTranslator
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
from seq2see.translator.translator import SegmentRequest, Translator, load
from seq2see.translator.word_alignment import WordAlignment, align_words

__all__ = [
    "AlignmentLink",
    "Block",
    "BlockTranslator",
    "PairScore",
    "ScoredToken",
    "SegmentRequest",
    "SentencePairOffsets",
    "SourceText",
    "TextTranslator",
    "Translation",
    "TranslationFlag",
    "TranslationOptions",
    "Translator",
    "WordAlignment",
    "align_words",
    "join_translations",
    "load",
]
