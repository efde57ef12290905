"""Statistics of a corpus, and the models that are fitted to it.

A corpus is read twice. The first pass collects statistics: 56 bytes per pair, and the text of a
sample. A `CorpusModel` is fitted to them; in the second pass the rules check each pair against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from seq2see.data.quality.languages import LanguageChecker
from seq2see.data.quality.line_shifts import find_line_shifts
from seq2see.data.quality.translation_lexicon import (
    MAX_SAMPLE_CHARACTERS,
    TranslationLexicon,
    assign_cross_validation_folds,
    fit_lexicon,
)
from seq2see.data.quality.words_and_word_ids import (
    BoolArray,
    FloatArray,
    byte_length,
    extract_words,
    number_word_prefixes,
)
from seq2see.data.readers import PairBlock, SentencePair, group_pairs_into_blocks
from seq2see.errors import InputError
from seq2see.progress_callbacks import StageCallback
from seq2see.text.packed_ids import IntArray, PackedIds

SIDE_NAMES = SentencePair._fields
_SAMPLE_BLOCK = 64
"""Number of consecutive lines in a block of the sample."""
MAX_SAMPLE_PAIRS = 100_000
"""Maximum number of pairs, evenly sampled, that statistical models are fitted to."""
_MIN_RATIO_PAIRS = 50
"""Minimum number of pairs for a model of the length ratio."""
_MIN_LEXICON_PAIRS = 300
"""Minimum number of pairs for a lexicon."""


def iter_numbered_blocks(
    pairs: Iterable[SentencePair], stage: str, on_stage: StageCallback | None
) -> Iterator[tuple[int, PairBlock]]:
    """Yield blocks of pairs, each with the index of its first pair in the corpus.

    `on_stage` is called with the number of pairs read.

    Raises InputError if `pairs` is an iterator, which can be read only once.
    """
    if isinstance(pairs, Iterator):
        raise InputError(
            "`pairs` must be a list, a `Corpus` or another iterable that can be read twice, "
            "but is an iterator instead"
        )
    start = 0
    for block in group_pairs_into_blocks(pairs):
        yield start, block
        start += len(block)
        if on_stage:
            on_stage(stage, start)


@dataclass(frozen=True)
class PerPairStatistics:
    """Results of the first pass. Counts and lengths have one row per side."""

    character_counts: IntArray
    byte_lengths: IntArray
    word_counts: IntArray
    pair_hashes: IntArray
    sample_indices: IntArray
    """The indices of the sampled pairs in the corpus."""
    sample: tuple[SentencePair, ...]

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.pair_hashes)

    @cached_property
    def is_duplicate(self) -> BoolArray:
        """For each pair, whether an earlier pair is equal."""
        is_duplicate = np.ones(self.num_pairs, bool)
        is_duplicate[np.unique(self.pair_hashes, return_index=True)[1]] = False
        return is_duplicate


def collect_per_pair_statistics(
    pairs: Iterable[SentencePair], on_stage: StageCallback | None = None
) -> PerPairStatistics:
    """Read all pairs once and return their statistics.

    The sample has blocks of lines: first all blocks, then every second, every fourth and so on.
    """
    parts = [np.empty((7, 0), np.int64)]
    sample: dict[int, SentencePair] = {}
    step = 1
    for first_index, block in iter_numbered_blocks(pairs, "reading", on_stage):
        for index, pair in enumerate(block, first_index):
            if index // _SAMPLE_BLOCK % step == 0:
                sample[index] = SentencePair(*(text[:MAX_SAMPLE_CHARACTERS] for text in pair))
        while len(sample) > max(MAX_SAMPLE_PAIRS, _SAMPLE_BLOCK):
            step *= 2
            sample = {i: pair for i, pair in sample.items() if i // _SAMPLE_BLOCK % step == 0}
        rows: list[list[int]] = []
        for side in zip(*block, strict=True):
            lines = [line.strip() for line in side]
            num_words = [len(extract_words(line)) for line in lines]
            rows += [list(map(len, lines)), list(map(byte_length, lines)), num_words]
        # Python's hash differs between processes, but these hashes are used in one process only.
        rows.append(list(map(hash, block)))
        parts.append(np.array(rows, np.int64))
    columns = np.concatenate(parts, axis=1)
    return PerPairStatistics(
        character_counts=columns[[0, 3]],
        byte_lengths=columns[[1, 4]],
        word_counts=columns[[2, 5]],
        pair_hashes=columns[6],
        sample_indices=np.array(list(sample), np.int64),
        sample=tuple(sample.values()),
    )


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


class CorpusModel:
    """What is normal in a corpus; each pair is checked against it."""

    def __init__(
        self,
        statistics: PerPairStatistics,
        max_words: int,
        languages: tuple[str, str] | None,
        test_source_hashes: frozenset[int],
        unmatched: frozenset[int] = frozenset(),
    ) -> None:
        """Fit all models to the statistics of the first pass.

        Args:
            statistics: the results of the first pass
            max_words: maximum number of words per side
            languages: declared language codes
            test_source_hashes: hashes of the match keys of all test sources
            unmatched: indices of pairs whose sides are known not to belong together
        """
        self.statistics = statistics
        self.max_words = max_words
        self.test_source_hashes = test_source_hashes
        self.unmatched = unmatched
        is_usable = (statistics.word_counts > 0).all(0) & ~statistics.is_duplicate
        self.length_ratio = LengthRatioModel.fit(*statistics.byte_lengths[:, is_usable])
        self.shifts = find_line_shifts(*statistics.byte_lengths)
        self.vocabulary: dict[str, int] = {}
        """The id of the first characters of each word of the sample, shared by both sides."""
        lines = [p.source for p in statistics.sample], [p.target for p in statistics.sample]
        source, target = (
            number_word_prefixes(map(extract_words, side), self.vocabulary) for side in lines
        )
        size = len(self.vocabulary)
        self.languages = LanguageChecker(lines, (source, target), languages, size)
        is_aligned = is_usable.copy()
        for shift in self.shifts:
            is_aligned[shift.first_line - 1 : shift.last_line] = False
        aligned = np.flatnonzero(is_aligned[statistics.sample_indices])
        self.lexicon, self.is_unrelated = _fit_lexicon(lines[0], source, target, aligned, size)
        """The lexicon is None if there are too few pairs, or the sides are unrelated: the words of
        both sides are independent of each other."""


def _fit_lexicon(
    lines: Sequence[str],
    source: PackedIds,
    target: PackedIds,
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
