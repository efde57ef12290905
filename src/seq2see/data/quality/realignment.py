"""Realign regions where one file is shifted against the other by some lines.

The boundaries of a region are located by lengths; with a lexicon, they are moved to the lines where
the words fit best. Sources and targets at the boundaries that are left without a counterpart are
paired with each other, so that no line is lost, and rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.statistics_and_models import CorpusModel
from seq2see.data.quality.translation_lexicon import assign_cross_validation_folds
from seq2see.data.quality.words_and_word_ids import (
    FloatArray,
    extract_words,
    number_word_prefixes,
)
from seq2see.data.readers import SentencePair

_WINDOW = 24
"""Number of lines before and after a boundary where it is searched."""


class _Segment(NamedTuple):
    """Consecutive sources with one offset of their targets."""

    start: int
    end: int
    offset: int


class RealignedPairs:
    """A corpus whose shifted regions are realigned. It can be read several times, as the corpus.

    It has as many pairs as the corpus, with the same sources in the same order.
    """

    def __init__(
        self, pairs: Iterable[SentencePair], segments: Sequence[_Segment], num_pairs: int
    ) -> None:
        self._pairs = pairs
        self._segments = segments
        self._max_offset = max((abs(segment.offset) for segment in segments), default=0)
        bounds = [_Segment(0, 0, 0), *segments, _Segment(num_pairs, num_pairs, 0)]
        self._sources: list[int] = []
        """Indices of sources without a target, in order."""
        self._targets: list[int] = []
        """Indices of targets without a source, as many as sources."""
        for before, after in pairwise(bounds):
            self._sources += range(before.end, after.start)
            self._targets += range(before.end + before.offset, after.start + after.offset)

    @property
    def unmatched(self) -> frozenset[int]:
        """Indices of the pairs whose sides are left over at the boundaries of shifted regions."""
        return frozenset(self._sources)

    def __iter__(self) -> Iterator[SentencePair]:
        left_over = self._read_left_over_targets()
        segments = iter(self._segments)
        segment = next(segments, None)
        targets: dict[int, str] = {}
        sources: dict[int, str] = {}
        padding = [None] * self._max_offset
        for index, pair in enumerate(chain(self._pairs, padding)):
            if pair is not None:
                sources[index], targets[index] = pair
            current = index - self._max_offset
            targets.pop(current - self._max_offset - 1, None)
            if current not in sources:
                continue
            while segment is not None and current >= segment.end:
                segment = next(segments, None)
            source = sources.pop(current)
            if segment is not None and current >= segment.start:
                yield SentencePair(source, targets[current + segment.offset])
            else:
                yield SentencePair(source, left_over[current])

    def _read_left_over_targets(self) -> dict[int, str]:
        """Return the target that each source without a target is paired with."""
        if not self._targets:
            return {}
        wanted = set(self._targets)
        found = {i: pair.target for i, pair in enumerate(self._pairs) if i in wanted}
        rows = zip(self._sources, self._targets, strict=True)
        return {source: found[target] for source, target in rows}


def realign_pairs(pairs: Iterable[SentencePair], model: CorpusModel) -> RealignedPairs | None:
    """Return a corpus with realigned regions; None if no region is shifted.

    Args:
        pairs: The corpus.
        model: The model that is fitted to it, with the shifted regions.
    """
    if not model.shifts:
        return None
    num_pairs = model.statistics.num_pairs
    starts = _split_by_offset(model.shifts, num_pairs)
    windows = _read_windows(pairs, [start for start, _ in starts[1:]])
    segments: list[_Segment] = []
    first = max(-starts[0][1], 0)
    for (_, offset), (boundary, next_offset) in pairwise(starts):
        gap = max(offset - next_offset, 0)
        end = boundary
        if model.lexicon is not None:
            end = _locate_boundary(model, windows, boundary, (offset, next_offset), gap)
        end = min(max(end, first), num_pairs - max(offset, 0))
        segments.append(_Segment(first, end, offset))
        first = min(max(end + gap, -next_offset), num_pairs)
    offset = starts[-1][1]
    segments.append(_Segment(first, max(num_pairs - max(offset, 0), first), offset))
    return RealignedPairs(pairs, segments, num_pairs)


def _split_by_offset(shifts: Sequence[LineShift], num_pairs: int) -> list[tuple[int, int]]:
    """Return the first index and the offset of each part of a corpus."""
    starts: list[tuple[int, int]] = []
    end = 0
    for shift in shifts:
        if shift.first_line - 1 > end:
            starts.append((end, 0))
        starts.append((shift.first_line - 1, shift.line_offset))
        end = shift.last_line
    if end < num_pairs:
        starts.append((end, 0))
    return starts


def _read_windows(
    pairs: Iterable[SentencePair], boundaries: Sequence[int]
) -> dict[int, SentencePair]:
    """Return the pairs near the boundaries by their indices."""
    margin = 2 * _WINDOW
    wanted = {i for b in boundaries for i in range(b - margin, b + margin)}
    return {index: pair for index, pair in enumerate(pairs) if index in wanted}


def _locate_boundary(
    model: CorpusModel,
    windows: dict[int, SentencePair],
    boundary: int,
    offsets: tuple[int, int],
    gap: int,
) -> int:
    """Return the index of the first source without the first of two offsets.

    The next `gap` sources have no target.
    """
    indices = range(boundary - _WINDOW, boundary + _WINDOW)
    before, after = (_score(model, windows, indices, offset) for offset in offsets)
    num_before = np.r_[0, np.cumsum(before)]
    num_after = np.r_[np.cumsum(after[::-1])[::-1], 0]
    num_ends = len(indices) + 1 - gap
    return indices[0] + int((num_before[:num_ends] + num_after[gap:]).argmax())


def _score(
    model: CorpusModel, windows: dict[int, SentencePair], indices: Sequence[int], offset: int
) -> FloatArray:
    """Return the evidence that each source has the target with this offset; 0 outside the text."""
    empty = SentencePair("", "")
    sources = [windows.get(index, empty).source for index in indices]
    targets = [windows.get(index + offset, empty).target for index in indices]
    ids = dict(model.vocabulary)
    source_ids, target_ids = (
        number_word_prefixes(map(extract_words, side), ids) for side in (sources, targets)
    )
    assert model.lexicon is not None
    folds = assign_cross_validation_folds(sources)
    scores = model.lexicon.score_pairs(source_ids, target_ids, folds)
    return np.asarray(np.clip(scores, -_MAX_EVIDENCE, _MAX_EVIDENCE), float)


_MAX_EVIDENCE = 10.0
"""Limit of the evidence of one pair, in nats, so that no single line decides."""
