"""Translation of text: combines tokenizers, an engine and options."""

from seq2see.translator.result_builder import align_words as align_words
from seq2see.translator.text_translation import (
    BlockTranslator as BlockTranslator,
    SourceText as SourceText,
    TextTranslator as TextTranslator,
)
from seq2see.translator.translation import (
    AlignmentLink as AlignmentLink,
    Block as Block,
    PairScore as PairScore,
    ScoredToken as ScoredToken,
    SentencePairOffsets as SentencePairOffsets,
    SourceSegment as SourceSegment,
    Translation as Translation,
    TranslationFlag as TranslationFlag,
    TranslationOptions as TranslationOptions,
    join_translations as join_translations,
)
from seq2see.translator.translator import Translator as Translator, load as load
