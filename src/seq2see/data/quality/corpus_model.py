"""Statistics of a corpus, and what is fitted to them: every pair is checked against this."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Self

import numpy as np

from seq2see.data.quality import line_shifts as shifting, translation_lexicon as lexicons
from seq2see.data.quality.config import QualityConfig
from seq2see.data.quality.languages import LanguageChecker, fit_languages as learn_languages
from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.translation_lexicon import TranslationLexicon
from seq2see.data.quality.words import (
    BoolArray,
    FloatArray,
    IntArray,
    PackedWordIds,
    StemVocabulary,
    byte_length,
    extract_words,
)
from seq2see.data.readers import SentencePair
from seq2see.errors import InputError
from seq2see.progress import StageCallback

SIDE_NAMES = SentencePair._fields


_LINES = 4096


@dataclass(frozen=True)
class PairChunk:
    """Some pairs that follow each other."""

    first_index: int
    """The place of the first, counted from 0."""
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


def read_chunks(
    pairs: Iterable[SentencePair], stage: str, on_stage: StageCallback | None
) -> Iterator[PairChunk]:
    """Read the pairs from the first on."""
    if isinstance(pairs, Iterator):
        raise InputError(
            "`pairs` must be a list, a `Corpus` or the like, which can be read twice, "
            "but is an iterator instead"
        )
    rest, start = iter(pairs), 0
    while chunk := list(islice(rest, _LINES)):
        yield PairChunk(start, chunk)
        start += len(chunk)
        if on_stage:
            on_stage(stage, start)


_BLOCK = 64
"""Lines of the sample that follow each other."""


_LONGEST = 2000
"""Characters of a line that the sample keeps."""


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """What the first reading found; a row a side where there are two."""

    character_counts: IntArray
    byte_lengths: IntArray
    """In bytes."""
    word_counts: IntArray
    pair_hashes: IntArray
    source_hashes: IntArray
    sample_indices: IntArray
    """The places of the sample's pairs."""
    sample: tuple[SentencePair, ...]

    @property
    def num_pairs(self) -> int:
        """How many there are."""
        return len(self.pair_hashes)

    @property
    def is_duplicate(self) -> BoolArray:
        """Tell of each pair if it came before."""
        repeats = np.ones(self.num_pairs, bool)
        repeats[np.unique(self.pair_hashes, return_index=True)[1]] = False
        return repeats


class _Sample:
    """Blocks of lines: all of them at first, then every second, every fourth …"""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.step = 1
        self.blocks: dict[int, list[SentencePair]] = {}
        self.size = 0

    def add(self, batch: PairChunk) -> None:
        """Take what belongs to the sample."""
        for place in range(0, len(batch.pairs), _BLOCK):
            block = (batch.first_index + place) // _BLOCK
            if block % self.step == 0:
                self.blocks[block] = [_shortened(p) for p in batch.pairs[place : place + _BLOCK]]
                self.size += len(self.blocks[block])
        while self.size > max(self.limit, _BLOCK):
            self._thin()

    def _thin(self) -> None:
        self.step *= 2
        self.blocks = {b: pairs for b, pairs in self.blocks.items() if b % self.step == 0}
        self.size = sum(map(len, self.blocks.values()))

    def places(self) -> IntArray:
        """Return where its pairs stand."""
        runs = [np.arange(b * _BLOCK, b * _BLOCK + len(p)) for b, p in self.blocks.items()]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def collect_statistics(
    pairs: Iterable[SentencePair], max_sample_pairs: int, on_stage: StageCallback | None = None
) -> CorpusStatistics:
    """Read all pairs once."""
    lengths = [array("I") for _ in range(6)]
    hashes = array("q"), array("q")
    sample = _Sample(max_sample_pairs)
    for batch in read_chunks(pairs, "reading", on_stage):
        sample.add(batch)
        for side in (0, 1):
            lines = [line.strip() for line in batch.sides[side]]
            lengths[side].extend(map(len, lines))
            lengths[2 + side].extend(map(byte_length, lines))
            lengths[4 + side].extend(map(len, batch.words[side]))
        # Python's own hash differs from run to run, but nothing here outlives the run.
        hashes[0].extend([hash(pair) for pair in batch.pairs])
        hashes[1].extend([hash(pair.source) for pair in batch.pairs])
    rows = np.array([np.asarray(row, np.int64) for row in lengths])
    return CorpusStatistics(
        character_counts=rows[:2],
        byte_lengths=rows[2:4],
        word_counts=rows[4:],
        pair_hashes=np.asarray(hashes[0], np.int64),
        source_hashes=np.asarray(hashes[1], np.int64),
        sample_indices=sample.places(),
        sample=tuple(pair for block in sample.blocks.values() for pair in block),
    )


def _shortened(pair: SentencePair) -> SentencePair:
    return SentencePair(pair.source[:_LONGEST], pair.target[:_LONGEST])


_MIN_RATIO_PAIRS = 50
"""Fewer do not tell what is usual."""


@dataclass(frozen=True, slots=True)
class LengthRatioModel:
    """Bytes of a target for one of the source, as most pairs of a corpus have it."""

    median_ratio: float
    scale: float
    """Of the error over the root of the length: texts are sums of words, so it grows like that."""

    @classmethod
    def fit(cls, source: IntArray, target: IntArray) -> Self:
        """Learn from the bytes of both sides; half of the pairs may be wrong."""
        if len(source) < _MIN_RATIO_PAIRS:
            return cls(1.0, np.inf)
        typical = float(np.exp(np.median(np.log(target / source))))
        errors = cls(typical, 1.0).compute_deviations(source, target)
        return cls(typical, max(1.4826 * float(np.median(np.abs(errors))), 0.5))

    def compute_deviations(self, source: IntArray, target: IntArray) -> FloatArray:
        """Return how much longer than expected each target is, in spreads."""
        expected = target / self.median_ratio
        size = np.sqrt(np.maximum((source + expected) / 2, 1.0))
        return np.asarray((expected - source) / size / self.scale)


_MIN_LEXICON_PAIRS = 300
"""Fewer teach no lexicon."""


@dataclass(frozen=True, slots=True)
class CorpusModel:
    """Learnt once from the whole corpus; then each pair is judged by itself."""

    config: QualityConfig
    is_duplicate: BoolArray
    test_source_hashes: frozenset[int]
    """Hashes of the sources of held-out sets, folded."""
    shifts: tuple[LineShift, ...]
    length_ratio: LengthRatioModel
    vocabulary: StemVocabulary
    languages: LanguageChecker
    lexicon: TranslationLexicon | None
    """None if there was too little to learn from, or nothing to learn."""
    is_unrelated: bool
    """The words of both sides have nothing to do with each other."""

    @classmethod
    def fit(
        cls,
        statistics: CorpusStatistics,
        config: QualityConfig,
        languages: tuple[str, str] | None,
        test_source_hashes: frozenset[int],
    ) -> Self:
        """Learn from what the first reading found."""
        repeats = statistics.is_duplicate
        good = (statistics.word_counts > 0).all(0) & ~repeats
        shifts = shifting.find_line_shifts(
            statistics.byte_lengths[0], statistics.byte_lengths[1], config.max_line_shift
        )
        vocabulary = StemVocabulary()
        lines = [p.source for p in statistics.sample], [p.target for p in statistics.sample]
        source, target = (vocabulary.add_lines(map(extract_words, side)) for side in lines)
        size = len(vocabulary)
        aligned = np.flatnonzero(_aligned(good, shifts)[statistics.sample_indices])
        lexicon, unrelated = _lexicon(lines[0], source, target, aligned, size)
        return cls(
            config=config,
            is_duplicate=repeats,
            test_source_hashes=test_source_hashes,
            shifts=shifts,
            length_ratio=LengthRatioModel.fit(*statistics.byte_lengths[:, good]),
            vocabulary=vocabulary,
            languages=learn_languages(
                lines, (source, target), languages, config.min_language_words, size
            ),
            lexicon=lexicon,
            is_unrelated=unrelated,
        )


def _aligned(good: BoolArray, shifts: tuple[LineShift, ...]) -> BoolArray:
    """Tell which of the good pairs are in no shifted region."""
    aligned = good.copy()
    for shift in shifts:
        aligned[shift.first_line - 1 : shift.last_line] = False
    return aligned


def _lexicon(
    lines: Sequence[str], source: PackedWordIds, target: PackedWordIds, chosen: IntArray, size: int
) -> tuple[TranslationLexicon | None, bool]:
    """Learn a lexicon, and tell if there was none to learn although there was enough text."""
    if len(chosen) < _MIN_LEXICON_PAIRS:
        return None, False
    source, target = source.take(chosen), target.take(chosen)
    halves = lexicons.assign_folds([lines[place] for place in chosen])
    lexicon = lexicons.fit_lexicon(source, target, halves, size)
    strangers = np.roll(np.arange(len(chosen)), len(chosen) // 2)
    real = lexicon.score_pairs(source, target, halves)
    random = lexicon.score_pairs(source, target.take(strangers), halves)
    unrelated = bool(np.median(real) <= np.percentile(random, 75))
    return None if unrelated else lexicon, unrelated
