"""Subword regularization by dropout, for training data.

Segmenting a word is a sequence of decisions. For `bpe`, each decision is a merge that the algorithm
is about to make; a dropped merge is skipped (BPE-dropout, Provilkov et al. 2020). For `unigram`,
each decision is a piece of two or more characters that could be used at its position; the best
segmentation without the dropped pieces is used. So the dropout rate has the same meaning for both,
and without dropout the segmentation is the usual one.

The dropped decisions depend only on the key (seed, epoch, line). The gaps between dropped decisions
are drawn instead of one number per decision, so that most words of a text cost one cache lookup.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

from seq2see.keyed_random import iterate_uniform

_CACHE_SIZE = 2**17
_MAX_CACHED_LENGTH = 24
"""Longer words are not cached."""


@dataclass(frozen=True)
class SegmenterVocabulary:
    """Pieces that can occur in a text."""

    ids: Mapping[str, int]
    scores: Mapping[str, float]
    byte_ids: Sequence[int]
    """Ids of the 256 bytes; empty without byte fallback."""
    unk_id: int

    @cached_property
    def max_piece_length(self) -> int:
        """Length of the longest piece."""
        return max(map(len, self.scores), default=1)

    @cached_property
    def unk_score(self) -> float:
        """Score of a character without a piece, with the penalty of SentencePiece."""
        return min(self.scores.values(), default=0.0) - 10

    def encode_pieces(self, pieces: Iterable[str]) -> tuple[int, ...]:
        """Return the id of each piece, or the ids of its bytes, or the unknown id."""
        return tuple(i for piece in pieces for i in self._encode_piece(piece))

    def _encode_piece(self, piece: str) -> Sequence[int]:
        piece_id = self.ids.get(piece)
        if piece_id is not None:
            return (piece_id,)
        return [self.byte_ids[b] for b in piece.encode()] if self.byte_ids else (self.unk_id,)


Segmenter = Callable[[SegmenterVocabulary, str, Iterator[int]], tuple[int, list[str]]]
"""Returns the number of decisions and the pieces of a word; it gets the numbers of the dropped
decisions in ascending order."""


def segment_with_bpe(
    vocabulary: SegmenterVocabulary, word: str, drops: Iterator[int]
) -> tuple[int, list[str]]:
    """Merge the pair with the best score, the leftmost of equals, until no pair can be merged."""
    parts = list(word)
    after = list(range(1, len(parts) + 1))
    before = list(range(-1, len(parts) - 1))
    candidates: list[tuple[float, int, int, str]] = []

    def add_candidate(left: int, right: int) -> None:
        merged = parts[left] + parts[right]
        score = vocabulary.scores.get(merged)
        if score is not None:
            heapq.heappush(candidates, (-score, left, right, merged))

    for left, right in pairwise(range(len(parts))):
        add_candidate(left, right)
    decision, drop = -1, next(drops, -1)
    while candidates:
        _, left, right, merged = heapq.heappop(candidates)
        if not parts[left] or not parts[right] or parts[left] + parts[right] != merged:
            continue  # one of the two was merged with another piece
        decision += 1
        if decision == drop:
            drop = next(drops, -1)
            continue
        parts[left], parts[right] = merged, ""
        after[left] = next_part = after[right]
        if next_part < len(parts):
            before[next_part] = left
            add_candidate(left, next_part)
        if before[left] >= 0:
            add_candidate(before[left], left)
    return decision + 1, [part for part in parts if part]


def segment_with_unigram(
    vocabulary: SegmenterVocabulary, word: str, drops: Iterator[int]
) -> tuple[int, list[str]]:
    """Find the segmentation with the highest sum of scores."""
    scores, max_piece_length = vocabulary.scores, vocabulary.max_piece_length
    best = [0.0] + [-math.inf] * len(word)
    starts = [0] * (len(word) + 1)
    decision, drop = -1, next(drops, -1)
    for start in range(len(word)):
        for end in range(start + 1, min(start + max_piece_length, len(word)) + 1):
            score = scores.get(word[start:end], vocabulary.unk_score if end == start + 1 else None)
            if score is None:
                continue
            if end > start + 1:
                decision += 1
                if decision == drop:
                    drop = next(drops, -1)
                    continue
            if best[start] + score > best[end]:
                best[end], starts[end] = best[start] + score, start
    parts, end = [], len(word)
    while end:
        parts.append(word[starts[end] : end])
        end = starts[end]
    return decision + 1, parts[::-1]


SEGMENTERS: Mapping[str, Segmenter] = {"bpe": segment_with_bpe, "unigram": segment_with_unigram}
"""Segmenters by the type of the tokenizer."""


class SubwordSampler:
    """Segments words with dropout, with a cache for short words. It is thread-safe."""

    def __init__(
        self, segmenter: Segmenter, vocabulary: SegmenterVocabulary, symbols: Mapping[str, int]
    ) -> None:
        self._segmenter = segmenter
        self._vocabulary = vocabulary
        self._symbols = symbols
        self._segment_cached = lru_cache(_CACHE_SIZE)(self._segment)

    def sample(self, words: Sequence[str], dropout: float, key: Sequence[int]) -> list[int]:
        """Return the ids of the words; each decision is dropped with probability `dropout`."""
        gaps = _draw_gaps(dropout, key)
        remaining = next(gaps)  # number of decisions before the next dropped one
        ids: list[int] = []
        for word in words:
            remaining, word_ids = self._sample_word(word, remaining, gaps)
            ids += word_ids
        return ids

    def _sample_word(
        self, word: str, remaining: int, gaps: Iterator[int]
    ) -> tuple[int, Sequence[int]]:
        """Return the decisions that remain before the next dropped one, and the ids."""
        if word in self._symbols:
            return remaining, (self._symbols[word],)
        if len(word) > _MAX_CACHED_LENGTH:
            positions = accumulate(
                gaps, lambda position, gap: position + 1 + gap, initial=remaining
            )
            num_decisions, pieces = self._segmenter(self._vocabulary, word, positions)
            # gaps beyond the end of the word can be discarded: the distribution is memoryless
            has_drop = remaining < num_decisions
            remaining = next(gaps) if has_drop else remaining - num_decisions
            return remaining, self._vocabulary.encode_pieces(pieces)
        drops: tuple[int, ...] = ()
        num_decisions, ids = self._segment_cached(word, drops)
        while remaining < num_decisions:
            drops = (*drops, remaining)
            num_decisions, ids = self._segment_cached(word, drops)
            remaining += 1 + next(gaps)
        return remaining - num_decisions, ids

    def _segment(self, word: str, drops: tuple[int, ...]) -> tuple[int, Sequence[int]]:
        num_decisions, pieces = self._segmenter(self._vocabulary, word, iter(drops))
        return num_decisions, self._vocabulary.encode_pieces(pieces)


def _draw_gaps(rate: float, key: Sequence[int]) -> Iterator[int]:
    """Yield random numbers of decisions between two dropped decisions."""
    if rate >= 1:
        while True:
            yield 0
    scale = 1 / math.log1p(-max(rate, 1e-15))  # a lower rate would exceed the range of floats
    for number in iterate_uniform(key):
        yield int(math.log(number) * scale)
