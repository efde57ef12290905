"""Subword regularization by dropout: BPE-dropout, and the same for unigram models."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

_MASK = 2**64 - 1


_GOLDEN = 0x9E3779B97F4A7C15


_MEMO = 2**17


_LONG = 24
"""Characters from which on a word is not worth remembering."""


@dataclass(frozen=True, slots=True)
class SubwordVocabulary:
    """The pieces that may be found in a text."""

    ids: Mapping[str, int]
    scores: Mapping[str, float]
    byte_ids: Sequence[int]
    """The ids of the 256 bytes; empty without byte fallback."""
    unk_id: int

    def encode_piece(self, piece: str) -> Sequence[int]:
        """Return the piece's id, or its bytes'."""
        known = self.ids.get(piece)
        if known is not None:
            return (known,)
        return [self.byte_ids[b] for b in piece.encode()] if self.byte_ids else (self.unk_id,)


class Segmenter(Protocol):
    """Cuts a word."""

    def segment(self, word: str, drops: Iterator[int]) -> tuple[int, list[int]]:
        """Return the number of decisions and the ids; `drops` are the dropped ones, ascending."""


class BpeSegmenter:
    """Merges the best pair, the left one of equals, until there is none."""

    def __init__(self, vocabulary: SubwordVocabulary) -> None:
        self.vocabulary = vocabulary

    def segment(self, word: str, drops: Iterator[int]) -> tuple[int, list[int]]:
        """See `Segmenter`."""
        parts = list(word)
        after = list(range(1, len(parts) + 1))
        before = list(range(-1, len(parts) - 1))
        agenda: list[tuple[float, int, int, str]] = []
        for left, right in pairwise(range(len(parts))):
            self._propose(agenda, parts, left, right)
        decision, drop = -1, next(drops, -1)
        while agenda:
            _, left, right, merged = heapq.heappop(agenda)
            if not parts[left] or not parts[right] or parts[left] + parts[right] != merged:
                continue  # one of the two has become part of something else
            decision += 1
            if decision == drop:
                drop = next(drops, -1)
                continue
            parts[left], parts[right] = merged, ""
            after[left] = following = after[right]
            if following < len(parts):
                before[following] = left
                self._propose(agenda, parts, left, following)
            if before[left] >= 0:
                self._propose(agenda, parts, before[left], left)
        return decision + 1, [
            i for part in parts if part for i in self.vocabulary.encode_piece(part)
        ]

    def _propose(
        self, agenda: list[tuple[float, int, int, str]], parts: list[str], left: int, right: int
    ) -> None:
        merged = parts[left] + parts[right]
        score = self.vocabulary.scores.get(merged)
        if score is not None:
            heapq.heappush(agenda, (-score, left, right, merged))


class UnigramSegmenter:
    """Takes the cut whose pieces' scores sum up highest."""

    def __init__(self, vocabulary: SubwordVocabulary) -> None:
        self.vocabulary = vocabulary
        self.max_piece_length = max(map(len, vocabulary.scores), default=1)
        self.unk_score = (
            min(vocabulary.scores.values(), default=0.0) - 10
        )  # SentencePiece's own penalty

    def segment(self, word: str, drops: Iterator[int]) -> tuple[int, list[int]]:
        """See `Segmenter`."""
        scores = self.vocabulary.scores
        best = [0.0] + [-math.inf] * len(word)
        cut = [0] * (len(word) + 1)
        decision, drop = -1, next(drops, -1)
        for start in range(len(word)):
            for end in range(start + 1, min(start + self.max_piece_length, len(word)) + 1):
                score = scores.get(word[start:end], self.unk_score if end == start + 1 else None)
                if score is None:
                    continue
                if end > start + 1:
                    decision += 1
                    if decision == drop:
                        drop = next(drops, -1)
                        continue
                if best[start] + score > best[end]:
                    best[end], cut[end] = best[start] + score, start
        return decision + 1, self._write(word, cut)

    def _write(self, word: str, cut: Sequence[int]) -> list[int]:
        parts, end = [], len(word)
        while end:
            parts.append(word[cut[end] : end])
            end = cut[end]
        return [i for part in reversed(parts) for i in self.vocabulary.encode_piece(part)]


class SubwordSampler:
    """Cuts words with dropout, and remembers the cuts of short ones. Threads may share it."""

    def __init__(self, segmenter: Segmenter, symbols: Mapping[str, int]) -> None:
        self.segmenter = segmenter
        self.symbols = symbols
        self._remembered = lru_cache(_MEMO)(self._cut)

    def sample(self, words: Sequence[str], dropout: float, key: Sequence[int]) -> list[int]:
        """Return the ids of the words, each decision dropped with this rate."""
        gaps = _gaps(dropout, key)
        left = next(gaps)  # decisions that are still taken before the next is dropped
        ids: list[int] = []
        for word in words:
            left, cut = self._sample_word(word, left, gaps)
            ids += cut
        return ids

    def _sample_word(self, word: str, left: int, gaps: Iterator[int]) -> tuple[int, Sequence[int]]:
        if word in self.symbols:
            return left, (self.symbols[word],)
        if len(word) > _LONG:
            decisions, cut = self.segmenter.segment(word, _positions(left, gaps))
            # what was drawn beyond the word's end is forgotten: a gap has no memory either
            return left - decisions if left >= decisions else next(gaps), cut
        drops: tuple[int, ...] = ()
        decisions, ids = self._remembered(word, drops)
        while left < decisions:
            drops = (*drops, left)
            decisions, ids = self._remembered(word, drops)
            left += 1 + next(gaps)
        return left - decisions, ids

    def _cut(self, word: str, drops: tuple[int, ...]) -> tuple[int, Sequence[int]]:
        decisions, ids = self.segmenter.segment(word, iter(drops))
        return decisions, tuple(ids)


def _positions(first: int, gaps: Iterator[int]) -> Iterator[int]:
    while True:
        yield first
        first += 1 + next(gaps)


def _gaps(rate: float, key: Sequence[int]) -> Iterator[int]:
    """Draw how many decisions stand before the next dropped one, again and again."""
    if rate >= 1:
        while True:
            yield 0
    scale = 1 / math.log1p(-max(rate, 1e-15))  # below it, a gap would be beyond any float
    for number in _numbers(key):
        yield int(math.log(number) * scale)


def _numbers(key: Sequence[int]) -> Iterator[float]:
    """Draw from (0, 1] by SplitMix64: cheap to seed for each line, unlike Python's own."""
    state = 0
    for part in key:
        state = _mixed(state + part + _GOLDEN)
    while True:
        state = (state + _GOLDEN) & _MASK
        yield ((_mixed(state) >> 11) + 1) * 2.0**-53


def _mixed(number: int) -> int:
    number &= _MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31
