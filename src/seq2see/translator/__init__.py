"""Translation of text: combines tokenizers, an engine and options."""

from seq2see.translator.segmentation import (
    Block as Block,
    SourceSegment as SourceSegment,
)
from seq2see.translator.text_layout import SourceText as SourceText
from seq2see.translator.text_translation import (
    BlockTranslator as BlockTranslator,
    TextTranslator as TextTranslator,
)
from seq2see.translator.translation import (
    AlignmentLink as AlignmentLink,
    PairScore as PairScore,
    ScoredToken as ScoredToken,
    SentencePairOffsets as SentencePairOffsets,
    Translation as Translation,
    TranslationFlag as TranslationFlag,
    TranslationOptions as TranslationOptions,
    join_translations as join_translations,
)
from seq2see.translator.translator import (
    Translator as Translator,
    load as load,
)
from seq2see.translator.word_alignment import (
    WordAlignment as WordAlignment,
    align_words as align_words,
)
