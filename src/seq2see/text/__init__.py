"""Words to ids and back: normalisation, subwords, special ids, sentences. No torch here."""

from seq2see.text.batch_encoding import Packed
from seq2see.text.normalization import Normalisation, normalise
from seq2see.text.sentence_splitting import Span, join, split, split_long
from seq2see.text.tokenizer import Tokenizer, Tokenizers
from seq2see.text.tokenizer_training import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Report,
    Specials,
    TokenizerConfig,
)

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "UNK_ID",
    "Normalisation",
    "Packed",
    "Report",
    "Span",
    "Specials",
    "Tokenizer",
    "TokenizerConfig",
    "Tokenizers",
    "join",
    "normalise",
    "split",
    "split_long",
]
