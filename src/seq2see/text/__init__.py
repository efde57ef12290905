"""Words to ids and back: normalisation, subwords, special ids, sentences. No torch here."""

from seq2see.text.config import TokenizerConfig
from seq2see.text.normalise import Normalisation, normalise
from seq2see.text.packed import Packed
from seq2see.text.sentences import Span, join, split, split_long
from seq2see.text.specials import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Specials
from seq2see.text.tokenizer import Tokenizer, Tokenizers
from seq2see.text.training import Report

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
