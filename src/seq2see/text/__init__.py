"""Text processing without torch: normalization, tokenizers, sentences, languages."""

from seq2see.text.normalization import normalize_unicode_and_spaces as normalize_unicode_and_spaces
from seq2see.text.packed_ids import PackedIds as PackedIds
from seq2see.text.sentence_splitting import (
    TextSpan as TextSpan,
    split_long_sentence as split_long_sentence,
    split_sentences as split_sentences,
)
from seq2see.text.tokenizer import Tokenizer as Tokenizer, TokenizerPair as TokenizerPair
from seq2see.text.tokenizer_training import (
    BOS_ID as BOS_ID,
    EOS_ID as EOS_ID,
    PAD_ID as PAD_ID,
    UNK_ID as UNK_ID,
    SpecialIds as SpecialIds,
    TokenizerConfig as TokenizerConfig,
)
