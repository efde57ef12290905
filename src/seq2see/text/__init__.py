"""Text processing without torch: normalization, tokenizers, sentences, languages."""

from seq2see.text.normalization import Normalization, normalize_unicode_and_spaces
from seq2see.text.packed_ids import IntArray, PackedIds
from seq2see.text.sentence_splitting import (
    TextSpan,
    split_long_sentence,
    split_sentences,
)
from seq2see.text.tokenizer import Tokenizer, TokenizerPair
from seq2see.text.tokenizer_training import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    SpecialIds,
    TokenizerConfig,
)

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "UNK_ID",
    "IntArray",
    "Normalization",
    "PackedIds",
    "SpecialIds",
    "TextSpan",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerPair",
    "normalize_unicode_and_spaces",
    "split_long_sentence",
    "split_sentences",
]
