"""Suggest a model preset and a vocabulary size for a corpus.

Small corpora need small models and small vocabularies (Sennrich and Zhang, 2019): a subword that
occurs only a few times is not learned. The number of distinct words of a text grows roughly with
the square root of its length, and so does the suggested vocabulary, as far as the text has that
many subwords. The `base` model of the paper was made for 4.5 million pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from seq2see.data.quality.report import ModelSuggestion, format_count
from seq2see.data.quality.words_and_word_ids import find_learnable_subwords
from seq2see.data.readers import SentencePair
from seq2see.registries import PresetName
from seq2see.text import SpecialIds, TokenizerConfig

_SUBWORDS_PER_ROOT = 9
"""Subwords per square root of the number of words of both sides: 8,000 for 30,000 captions."""
_NUM_SPECIAL_PIECES = len(fields(SpecialIds)) + 256
"""Pieces of a vocabulary without any text: the special symbols and the bytes."""
_COVERAGE = TokenizerConfig().character_coverage
_MAX_PIECE_LENGTH = 15
"""Characters of the longest piece, without the space before it."""
_SIZES: tuple[tuple[int, PresetName, int, str], ...] = (
    (100_000, "tiny", 8_000, "a small model and a small vocabulary learn most from a small corpus"),
    (500_000, "small", 16_000, "enough for a medium model, too few for the size of the paper"),
    (5_000_000, "base", 32_000, "enough for a model of the size in the paper"),
    (2**63, "big", 32_000, "enough for a model of the size in the paper"),
)
"""Number of pairs below which a preset is suggested, the preset, its maximum vocabulary size, and
the reason."""


def suggest_model(
    num_pairs: int, num_words: int, sample: Sequence[SentencePair]
) -> ModelSuggestion:
    """Return a preset and a vocabulary size.

    Args:
        num_pairs: number of pairs that pass all rules
        num_words: number of words of both sides of these pairs
        sample: some of these pairs
    """
    _, preset, max_vocab_size, reason = next(row for row in _SIZES if num_pairs < row[0])
    if not num_pairs:
        return ModelSuggestion(preset, _round_up(_NUM_SPECIAL_PIECES), "there are no pairs yet")
    characters = _find_common_characters(sample)
    by_size = _round_up(min(int(_SUBWORDS_PER_ROOT * num_words**0.5), max_vocab_size))
    by_characters = _round_up(_NUM_SPECIAL_PIECES + 2 * len(characters))
    vocab_size = _limit_to_learnable(sample, characters, max(by_size, by_characters))
    corpus_size = f"{format_count(num_pairs, 'pair')} of {format_count(num_words, 'word')}"
    if vocab_size > by_size:
        reason = f"a small corpus, but its {len(characters):,} characters each need a subword"
    elif vocab_size < max(by_size, by_characters):
        reason = "limited by the number of distinct characters and words"
    return ModelSuggestion(preset, vocab_size, f"{corpus_size}: {reason}")


def _find_common_characters(sample: Sequence[SentencePair]) -> set[str]:
    """Return the most common characters, which cover nearly all of the text."""
    counts = Counter[str]()
    for pair in sample:
        counts.update(pair.source + pair.target)
    uncovered = counts.total() * (1 - _COVERAGE)
    characters = set(counts)
    for character, count in reversed(counts.most_common()):
        uncovered -= count
        if uncovered < 0:
            break
        characters.remove(character)
    return {character for character in characters if not character.isspace()}


def _limit_to_learnable(
    sample: Sequence[SentencePair], characters: set[str], max_vocab_size: int
) -> int:
    """Return the vocabulary size that a tokenizer reaches at least, at most `max_vocab_size`.

    It has at least the space, the characters and the distinct words of the sample.
    """
    vocab_size = _NUM_SPECIAL_PIECES + 1 + len(characters)
    words: set[str] = set()
    runs = (run for pair in sample for line in pair for run in find_learnable_subwords(line))
    for word in (run[:_MAX_PIECE_LENGTH] for run in runs):
        if vocab_size >= max_vocab_size:
            break
        if word not in words:
            words.add(word)
            vocab_size += characters.issuperset(word)
    return min(vocab_size, max_vocab_size)


def _round_up(vocab_size: int) -> int:
    step = 1_000 if vocab_size >= 2_000 else 100
    return -(-vocab_size // step) * step
