"""Statistics of a corpus, and the models that are fitted to it.

A corpus is read twice. The first pass collects statistics: 64 bytes per pair, and the text of a
sample. A `CorpusModel` is fitted to them; in the second pass the rules check each pair against it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Self

import numpy as np

from seq2see.data.quality.config import QualityConfig
from seq2see.data.quality.languages import LanguageChecker, fit_language_checker
from seq2see.data.quality.line_shifts import LineShift, find_line_shifts
from seq2see.data.quality.translation_lexicon import (
    TranslationLexicon,
    assign_cross_validation_folds,
    fit_lexicon,
)
from seq2see.data.quality.words_and_word_ids import (
    BoolArray,
    FloatArray,
    PackedWordIds,
    WordPrefixVocabulary,
    byte_length,
    extract_words,
)
from seq2see.data.readers import SentencePair
from seq2see.errors import InputError
from seq2see.progress_callbacks import StageCallback
from seq2see.text.packed_ids import IntArray

SIDE_NAMES = SentencePair._fields
_CHUNK_SIZE = 4096
_SAMPLE_BLOCK = 64
"""Number of consecutive lines in a block of the sample."""
_MAX_SAMPLE_CHARACTERS = 2000
"""Maximum number of characters of a line in the sample."""
_MIN_RATIO_PAIRS = 50
"""Minimum number of pairs for a model of the length ratio."""
_MIN_LEXICON_PAIRS = 300
"""Minimum number of pairs for a lexicon."""


@dataclass(frozen=True)
class PairChunk:
    """Consecutive pairs of a corpus."""

    first_index: int
    """The index of the first pair, from 0."""
    pairs: Sequence[SentencePair]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The lines of each side."""
        return [pair.source for pair in self.pairs], [pair.target for pair in self.pairs]

    @cached_property
    def words(self) -> tuple[list[list[str]], list[list[str]]]:
        """The words of each line of each side."""
        source, target = self.sides
        return [extract_words(line) for line in source], [extract_words(line) for line in target]


def iter_pair_chunks(
    pairs: Iterable[SentencePair], stage: str, on_stage: StageCallback | None
) -> Iterator[PairChunk]:
    """Yield the pairs in chunks, and report the number of pairs read to `on_stage`.

    Raises InputError if `pairs` is an iterator, which can be read only once.
    """
    if isinstance(pairs, Iterator):
        raise InputError(
            "`pairs` must be a list, a `Corpus` or another iterable that can be read twice, "
            "but is an iterator instead"
        )
    iterator, start = iter(pairs), 0
    while chunk := list(islice(iterator, _CHUNK_SIZE)):
        yield PairChunk(start, chunk)
        start += len(chunk)
        if on_stage:
            on_stage(stage, start)


@dataclass(frozen=True, slots=True)
class PerPairStatistics:
    """Results of the first pass. Counts and lengths have one row per side."""

    character_counts: IntArray
    byte_lengths: IntArray
    word_counts: IntArray
    pair_hashes: IntArray
    source_hashes: IntArray
    sample_indices: IntArray
    """The indices of the sampled pairs in the corpus."""
    sample: tuple[SentencePair, ...]

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.pair_hashes)

    @property
    def is_duplicate(self) -> BoolArray:
        """For each pair, whether an earlier pair is equal."""
        is_duplicate = np.ones(self.num_pairs, bool)
        is_duplicate[np.unique(self.pair_hashes, return_index=True)[1]] = False
        return is_duplicate


class _BlockSample:
    """A sample of blocks of lines: first all blocks, then every second, every fourth and so on."""

    def __init__(self, max_pairs: int) -> None:
        self.max_pairs = max_pairs
        self.step = 1
        self.blocks: dict[int, list[SentencePair]] = {}
        self.num_pairs = 0

    def add(self, chunk: PairChunk) -> None:
        """Add the blocks of a chunk that belong to the sample."""
        for start in range(0, len(chunk.pairs), _SAMPLE_BLOCK):
            block = (chunk.first_index + start) // _SAMPLE_BLOCK
            if block % self.step == 0:
                pairs = chunk.pairs[start : start + _SAMPLE_BLOCK]
                self.blocks[block] = [_truncate(pair) for pair in pairs]
                self.num_pairs += len(pairs)
        while self.num_pairs > max(self.max_pairs, _SAMPLE_BLOCK):
            self._drop_every_second()

    def _drop_every_second(self) -> None:
        self.step *= 2
        self.blocks = {b: pairs for b, pairs in self.blocks.items() if b % self.step == 0}
        self.num_pairs = sum(map(len, self.blocks.values()))

    def indices(self) -> IntArray:
        """Return the indices of the sampled pairs in the corpus."""
        ranges = [
            np.arange(block * _SAMPLE_BLOCK, block * _SAMPLE_BLOCK + len(pairs))
            for block, pairs in self.blocks.items()
        ]
        return np.concatenate(ranges) if ranges else np.zeros(0, np.int64)


def collect_per_pair_statistics(
    pairs: Iterable[SentencePair], max_sample_pairs: int, on_stage: StageCallback | None = None
) -> PerPairStatistics:
    """Read all pairs once and return their statistics."""
    lengths = [array("I") for _ in range(6)]
    hashes = array("q"), array("q")
    sample = _BlockSample(max_sample_pairs)
    for chunk in iter_pair_chunks(pairs, "reading", on_stage):
        sample.add(chunk)
        for side in (0, 1):
            lines = [line.strip() for line in chunk.sides[side]]
            lengths[side].extend(map(len, lines))
            lengths[2 + side].extend(map(byte_length, lines))
            lengths[4 + side].extend(map(len, chunk.words[side]))
        # Python's hash differs between processes, but these hashes are used in one process only.
        hashes[0].extend([hash(pair) for pair in chunk.pairs])
        hashes[1].extend([hash(pair.source) for pair in chunk.pairs])
    rows = np.array([np.asarray(row, np.int64) for row in lengths])
    return PerPairStatistics(
        character_counts=rows[:2],
        byte_lengths=rows[2:4],
        word_counts=rows[4:],
        pair_hashes=np.asarray(hashes[0], np.int64),
        source_hashes=np.asarray(hashes[1], np.int64),
        sample_indices=sample.indices(),
        sample=tuple(pair for block in sample.blocks.values() for pair in block),
    )


def _truncate(pair: SentencePair) -> SentencePair:
    return SentencePair(pair.source[:_MAX_SAMPLE_CHARACTERS], pair.target[:_MAX_SAMPLE_CHARACTERS])


@dataclass(frozen=True, slots=True)
class LengthRatioModel:
    """Model of target bytes per source byte (Gale and Church, 1993)."""

    median_ratio: float
    scale: float
    """Spread of the deviations, which are divided by the square root of the length: a text is a sum
    of words, so its deviation grows like that."""

    @classmethod
    def fit(cls, source: IntArray, target: IntArray) -> Self:
        """Fit the model to the byte lengths of both sides; up to half of the pairs may be wrong."""
        if len(source) < _MIN_RATIO_PAIRS:
            return cls(1.0, np.inf)
        median_ratio = float(np.exp(np.median(np.log(target / source))))
        deviations = cls(median_ratio, 1.0).compute_deviations(source, target)
        return cls(median_ratio, max(1.4826 * float(np.median(np.abs(deviations))), 0.5))

    def compute_deviations(self, source: IntArray, target: IntArray) -> FloatArray:
        """Return by how much each target is longer than expected, in units of the scale."""
        expected = target / self.median_ratio
        size = np.sqrt(np.maximum((source + expected) / 2, 1.0))
        return np.asarray((expected - source) / size / self.scale)


@dataclass(frozen=True, slots=True)
class CorpusModel:
    """What is normal in a corpus; each pair is checked against it."""

    config: QualityConfig
    is_duplicate: BoolArray
    test_source_hashes: frozenset[int]
    """Hashes of the match keys of all test sources."""
    shifts: tuple[LineShift, ...]
    length_ratio: LengthRatioModel
    vocabulary: WordPrefixVocabulary
    languages: LanguageChecker
    lexicon: TranslationLexicon | None
    """None if there are too few pairs, or the sides are unrelated."""
    is_unrelated: bool
    """The words of both sides are independent of each other."""

    @classmethod
    def fit(
        cls,
        statistics: PerPairStatistics,
        config: QualityConfig,
        languages: tuple[str, str] | None,
        test_source_hashes: frozenset[int],
    ) -> Self:
        """Fit all models to the statistics of the first pass."""
        is_duplicate = statistics.is_duplicate
        is_usable = (statistics.word_counts > 0).all(0) & ~is_duplicate
        source_bytes, target_bytes = statistics.byte_lengths
        shifts = find_line_shifts(source_bytes, target_bytes, config.max_line_shift)
        vocabulary = WordPrefixVocabulary()
        lines = [p.source for p in statistics.sample], [p.target for p in statistics.sample]
        source, target = (vocabulary.add_lines(map(extract_words, side)) for side in lines)
        size = len(vocabulary)
        is_aligned = _exclude_shifts(is_usable, shifts)
        aligned = np.flatnonzero(is_aligned[statistics.sample_indices])
        lexicon, is_unrelated = _fit_lexicon(lines[0], source, target, aligned, size)
        min_words = config.min_language_words
        return cls(
            config=config,
            is_duplicate=is_duplicate,
            test_source_hashes=test_source_hashes,
            shifts=shifts,
            length_ratio=LengthRatioModel.fit(*statistics.byte_lengths[:, is_usable]),
            vocabulary=vocabulary,
            languages=fit_language_checker(lines, (source, target), languages, min_words, size),
            lexicon=lexicon,
            is_unrelated=is_unrelated,
        )


def _exclude_shifts(is_usable: BoolArray, shifts: tuple[LineShift, ...]) -> BoolArray:
    """Return which usable pairs are not in a shifted region."""
    is_aligned = is_usable.copy()
    for shift in shifts:
        is_aligned[shift.first_line - 1 : shift.last_line] = False
    return is_aligned


def _fit_lexicon(
    lines: Sequence[str],
    source: PackedWordIds,
    target: PackedWordIds,
    indices: IntArray,
    vocabulary_size: int,
) -> tuple[TranslationLexicon | None, bool]:
    """Return a lexicon of the selected pairs, and whether their sides are unrelated."""
    if len(indices) < _MIN_LEXICON_PAIRS:
        return None, False
    source, target = source.take(indices), target.take(indices)
    folds = assign_cross_validation_folds([lines[index] for index in indices])
    lexicon = fit_lexicon(source, target, folds, vocabulary_size)
    other_pairs = np.roll(np.arange(len(indices)), len(indices) // 2)
    scores = lexicon.score_pairs(source, target, folds)
    random_scores = lexicon.score_pairs(source, target.take(other_pairs), folds)
    is_unrelated = bool(np.median(scores) <= np.percentile(random_scores, 75))
    return None if is_unrelated else lexicon, is_unrelated
