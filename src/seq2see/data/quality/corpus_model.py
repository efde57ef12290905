"""Statistics of a corpus, and what is fitted to them: every pair is checked against this."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Self

import numpy as np

from seq2see.data.quality import line_shifts as shifting, translation_lexicon as lexicons
from seq2see.data.quality.config import DoctorConfig
from seq2see.data.quality.languages import LanguageCheck, learn as learn_languages
from seq2see.data.quality.line_shifts import Shift
from seq2see.data.quality.translation_lexicon import Lexicon
from seq2see.data.quality.words import Bools, Floats, Ints, Ragged, Vocabulary, size, words
from seq2see.data.readers import Pair
from seq2see.errors import InputError

SIDES = Pair._fields


_LINES = 4096


Progress = Callable[[str, int], None]
"""Hears what the doctor does ("reading", "judging") and how many lines are done."""


@dataclass(frozen=True)
class Batch:
    """Some pairs that follow each other."""

    start: int
    """The place of the first, counted from 0."""
    pairs: Sequence[Pair]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The lines of each side."""
        return [pair.source for pair in self.pairs], [pair.target for pair in self.pairs]

    @cached_property
    def words(self) -> tuple[list[list[str]], list[list[str]]]:
        """The words of each line of each side."""
        source, target = self.sides
        return [words(line) for line in source], [words(line) for line in target]


def batches(pairs: Iterable[Pair], doing: str, progress: Progress | None) -> Iterator[Batch]:
    """Read the pairs from the first on."""
    if isinstance(pairs, Iterator):
        raise InputError(
            "`pairs` must be a list, a `Corpus` or the like, which can be read twice, "
            "but is an iterator instead"
        )
    rest, start = iter(pairs), 0
    while chunk := list(islice(rest, _LINES)):
        yield Batch(start, chunk)
        start += len(chunk)
        if progress:
            progress(doing, start)


_BLOCK = 64
"""Lines of the sample that follow each other."""


_LONGEST = 2000
"""Characters of a line that the sample keeps."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first reading found; a row a side where there are two."""

    characters: Ints
    sizes: Ints
    """In bytes."""
    words: Ints
    pair_hashes: Ints
    source_hashes: Ints
    sampled: Ints
    """The places of the sample's pairs."""
    sample: tuple[Pair, ...]

    @property
    def pairs(self) -> int:
        """How many there are."""
        return len(self.pair_hashes)

    @property
    def repeats(self) -> Bools:
        """Tell of each pair if it came before."""
        repeats = np.ones(self.pairs, bool)
        repeats[np.unique(self.pair_hashes, return_index=True)[1]] = False
        return repeats


class _Sample:
    """Blocks of lines: all of them at first, then every second, every fourth …"""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.step = 1
        self.blocks: dict[int, list[Pair]] = {}
        self.size = 0

    def add(self, batch: Batch) -> None:
        """Take what belongs to the sample."""
        for place in range(0, len(batch.pairs), _BLOCK):
            block = (batch.start + place) // _BLOCK
            if block % self.step == 0:
                self.blocks[block] = [_shortened(p) for p in batch.pairs[place : place + _BLOCK]]
                self.size += len(self.blocks[block])
        while self.size > max(self.limit, _BLOCK):
            self._thin()

    def _thin(self) -> None:
        self.step *= 2
        self.blocks = {b: pairs for b, pairs in self.blocks.items() if b % self.step == 0}
        self.size = sum(map(len, self.blocks.values()))

    def places(self) -> Ints:
        """Return where its pairs stand."""
        runs = [np.arange(b * _BLOCK, b * _BLOCK + len(p)) for b, p in self.blocks.items()]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def survey(pairs: Iterable[Pair], sample_size: int, progress: Progress | None = None) -> Survey:
    """Read all pairs once."""
    lengths = [array("I") for _ in range(6)]
    hashes = array("q"), array("q")
    sample = _Sample(sample_size)
    for batch in batches(pairs, "reading", progress):
        sample.add(batch)
        for side in (0, 1):
            lines = [line.strip() for line in batch.sides[side]]
            lengths[side].extend(map(len, lines))
            lengths[2 + side].extend(map(size, lines))
            lengths[4 + side].extend(map(len, batch.words[side]))
        # Python's own hash differs from run to run, but nothing here outlives the run.
        hashes[0].extend([hash(pair) for pair in batch.pairs])
        hashes[1].extend([hash(pair.source) for pair in batch.pairs])
    rows = np.array([np.asarray(row, np.int64) for row in lengths])
    return Survey(
        characters=rows[:2],
        sizes=rows[2:4],
        words=rows[4:],
        pair_hashes=np.asarray(hashes[0], np.int64),
        source_hashes=np.asarray(hashes[1], np.int64),
        sampled=sample.places(),
        sample=tuple(pair for block in sample.blocks.values() for pair in block),
    )


def _shortened(pair: Pair) -> Pair:
    return Pair(pair.source[:_LONGEST], pair.target[:_LONGEST])


_MIN_RATIO_PAIRS = 50
"""Fewer do not tell what is usual."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Bytes of a target for one of the source, as most pairs of a corpus have it."""

    typical: float
    spread: float
    """Of the error over the root of the length: texts are sums of words, so it grows like that."""

    @classmethod
    def learn(cls, source: Ints, target: Ints) -> Self:
        """Learn from the bytes of both sides; half of the pairs may be wrong."""
        if len(source) < _MIN_RATIO_PAIRS:
            return cls(1.0, np.inf)
        typical = float(np.exp(np.median(np.log(target / source))))
        errors = cls(typical, 1.0).errors(source, target)
        return cls(typical, max(1.4826 * float(np.median(np.abs(errors))), 0.5))

    def errors(self, source: Ints, target: Ints) -> Floats:
        """Return how much longer than expected each target is, in spreads."""
        expected = target / self.typical
        size = np.sqrt(np.maximum((source + expected) / 2, 1.0))
        return np.asarray((expected - source) / size / self.spread)


_MIN_LEXICON_PAIRS = 300
"""Fewer teach no lexicon."""


@dataclass(frozen=True, slots=True)
class Standard:
    """Learnt once from the whole corpus; then each pair is judged by itself."""

    config: DoctorConfig
    repeats: Bools
    held_out: frozenset[int]
    """Hashes of the sources of held-out sets, folded."""
    shifts: tuple[Shift, ...]
    ratio: Ratio
    vocabulary: Vocabulary
    languages: LanguageCheck
    lexicon: Lexicon | None
    """None if there was too little to learn from, or nothing to learn."""
    unrelated: bool
    """The words of both sides have nothing to do with each other."""

    @classmethod
    def learn(
        cls,
        survey: Survey,
        config: DoctorConfig,
        languages: tuple[str, str] | None,
        held_out: frozenset[int],
    ) -> Self:
        """Learn from what the first reading found."""
        repeats = survey.repeats
        good = (survey.words > 0).all(0) & ~repeats
        shifts = shifting.find(survey.sizes[0], survey.sizes[1], config.max_shift)
        vocabulary = Vocabulary()
        lines = [p.source for p in survey.sample], [p.target for p in survey.sample]
        source, target = (vocabulary.learn(map(words, side)) for side in lines)
        size = len(vocabulary)
        aligned = np.flatnonzero(_aligned(good, shifts)[survey.sampled])
        lexicon, unrelated = _lexicon(lines[0], source, target, aligned, size)
        return cls(
            config=config,
            repeats=repeats,
            held_out=held_out,
            shifts=shifts,
            ratio=Ratio.learn(*survey.sizes[:, good]),
            vocabulary=vocabulary,
            languages=learn_languages(
                lines, (source, target), languages, config.language_words, size
            ),
            lexicon=lexicon,
            unrelated=unrelated,
        )


def _aligned(good: Bools, shifts: tuple[Shift, ...]) -> Bools:
    """Tell which of the good pairs are in no shifted region."""
    aligned = good.copy()
    for shift in shifts:
        aligned[shift.first - 1 : shift.last] = False
    return aligned


def _lexicon(
    lines: Sequence[str], source: Ragged, target: Ragged, chosen: Ints, size: int
) -> tuple[Lexicon | None, bool]:
    """Learn a lexicon, and tell if there was none to learn although there was enough text."""
    if len(chosen) < _MIN_LEXICON_PAIRS:
        return None, False
    source, target = source.take(chosen), target.take(chosen)
    halves = lexicons.halves([lines[place] for place in chosen])
    lexicon = lexicons.learn(source, target, halves, size)
    strangers = np.roll(np.arange(len(chosen)), len(chosen) // 2)
    real = lexicon.judge(source, target, halves)
    random = lexicon.judge(source, target.take(strangers), halves)
    unrelated = bool(np.median(real) <= np.percentile(random, 75))
    return None if unrelated else lexicon, unrelated
