"""Translation lexicon of a corpus (IBM Model 1), which scores how likely a pair is a
translation.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seq2see.data.quality.words import FloatArray, IntArray, PackedWordIds

_ROUNDS = 5


_LINKS = 8_000_000
"""Learn from at most so many links of words, about 500 MB at work."""


_KNOWN = 5
"""A word that was seen less often proves nothing by having no partner."""


_MISSED = 0.5
"""A word whose mean lift is lower has no partner."""


_LEAST_MISSES = 0.05


_TESTS = 3


_NAMESAKE = 200.0
"""The lift of a rare word that stands on both sides: a name, a number."""


_RARE_MISSES = 0.3


@dataclass(frozen=True, slots=True)
class TranslationLexicon:
    """The lifts of linked words, as a sorted table."""

    vocabulary_size: int
    """Words that have a number."""
    keys: IntArray
    lifts: FloatArray
    miss_rates: tuple[FloatArray, FloatArray]
    """Of each side's words: how often it misses a partner; 1 if it is not known well enough."""

    def score_pairs(
        self, source: PackedWordIds, target: PackedWordIds, folds: IntArray
    ) -> FloatArray:
        """Return the evidence for each pair, by the lexicon of the other half."""
        sides, lifts = self._lifts(source, target, folds)
        return _evidence(sides, lifts, self.miss_rates)

    def with_miss_rates(
        self, source: PackedWordIds, target: PackedWordIds, folds: IntArray
    ) -> TranslationLexicon:
        """Return it with what these pairs tell about missing partners.

        Wrong pairs among them tell nothing, so each counts as much as it seems to be right.
        """
        sides, lifts = self._lifts(source, target, folds)
        unknown = [misses == 1 for misses in self.miss_rates]
        misses, rightness = self.miss_rates, np.ones(len(folds))
        for _ in range(_TESTS):
            found = [
                _misses(sides[s], lifts[s], rightness, 2 * self.vocabulary_size) for s in (0, 1)
            ]
            misses = np.where(unknown[0], 1.0, found[0]), np.where(unknown[1], 1.0, found[1])
            doubt = np.clip(-_evidence(sides, lifts, misses), -50, 50)
            rightness = 1 / (1 + np.exp(doubt))
        return replace(self, miss_rates=misses)

    def _lifts(
        self, source: PackedWordIds, target: PackedWordIds, halves: IntArray
    ) -> tuple[tuple[PackedWordIds, PackedWordIds], tuple[FloatArray, FloatArray]]:
        """Return both sides in the other half's numbers, and the mean lift of each word."""
        source, target = (self._renumbered(side, 1 - halves) for side in (source, target))
        here, there = _links(source, target)
        lifts = self._find(source.ids[here], target.ids[there])
        in_source, in_target = (
            np.bincount(words, lifts, len(side.ids)).astype(float)
            for words, side in ((here, source), (there, target))
        )
        in_source /= np.maximum(target.lengths, 1)[source.line_indices]
        in_target /= np.maximum(source.lengths, 1)[target.line_indices]
        return (source, target), (in_source, in_target)

    def _renumbered(self, side: PackedWordIds, halves: IntArray) -> PackedWordIds:
        """Move to the given half's lexicon; words without a number stay behind both."""
        moved = side.ids + self.vocabulary_size * halves[side.line_indices]
        return PackedWordIds(
            np.where(side.ids < self.vocabulary_size, moved, side.ids + self.vocabulary_size),
            side.lengths,
        )

    def _find(self, source: IntArray, target: IntArray) -> FloatArray:
        if not len(self.keys):
            return np.zeros(len(source))
        keys = _key(source, target)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        lifts = np.where(self.keys[places] == keys, self.lifts[places], 0.0)
        known = [
            _look(misses, ids) < 1
            for misses, ids in zip(self.miss_rates, (source, target), strict=True)
        ]
        namesakes = (source == target) & ~(known[0] & known[1])
        return np.where(namesakes, np.maximum(lifts, _NAMESAKE), lifts)


def assign_folds(sources: Sequence[str]) -> IntArray:
    """Put each pair into one of two halves, by its source: equal ones stay together."""
    return np.array([zlib.crc32(s.encode("utf-8", "replace")) & 1 for s in sources], np.int64)


def fit_lexicon(
    source: PackedWordIds, target: PackedWordIds, folds: IntArray, vocabulary_size: int
) -> TranslationLexicon:
    """Learn two lexicons from these pairs, one from each half."""
    chosen = _affordable(source.lengths * target.lengths)
    pairs = source.take(chosen), target.take(chosen)
    shift = vocabulary_size * folds[chosen]
    own = [PackedWordIds(side.ids + shift[side.line_indices], side.lengths) for side in pairs]
    keys, counts = _model_1(own[0], own[1])
    lifts = _lift(keys, counts, 2 * vocabulary_size)
    kept = (counts > 0.5) & (lifts > 0.5)
    seen = [np.bincount(side.ids, minlength=2 * vocabulary_size) for side in own]
    unsure = [np.where(count >= _KNOWN, _LEAST_MISSES, 1.0) for count in seen]
    lexicon = TranslationLexicon(vocabulary_size, keys[kept], lifts[kept], (unsure[0], unsure[1]))
    return lexicon.with_miss_rates(*pairs, folds[chosen])


def _affordable(links: IntArray) -> IntArray:
    """Choose pairs evenly, so that their links do not exceed what memory allows."""
    step = max(1, -(-int(links.sum()) // _LINKS))
    return np.arange(0, len(links), step)


def _links(source: PackedWordIds, target: PackedWordIds) -> tuple[IntArray, IntArray]:
    """Return the places of both words of each link: every word with every other of its pair."""
    counts = source.lengths * target.lengths
    pair = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = target.lengths[pair]
    return source.line_starts[pair] + place // width, target.line_starts[pair] + place % width


def _key(source: IntArray, target: IntArray) -> IntArray:
    return source << 32 | target


def _model_1(source: PackedWordIds, target: PackedWordIds) -> tuple[IntArray, FloatArray]:
    """Return the linked words, sorted, and how often they are expected to be linked."""
    here, there = _links(source, target)
    keys, which = np.unique(_key(source.ids[here], target.ids[there]), return_inverse=True)
    sources = np.unique(keys >> 32, return_inverse=True)[1]
    chances, counts = np.ones(len(keys)), np.zeros(len(keys))
    for _ in range(_ROUNDS):
        shares = chances[which]
        shares /= np.bincount(there, shares, len(target.ids))[there]
        counts = np.bincount(which, shares, len(keys)).astype(float)
        chances = counts / np.bincount(sources, counts)[sources]
    return keys, counts


def _lift(keys: IntArray, counts: FloatArray, size: int) -> FloatArray:
    """Return how much likelier than chance; one sighting more or less shall not matter much."""
    source, target = keys >> 32, keys & 0xFFFFFFFF
    half = source // (size // 2)
    linked = np.bincount(source, counts, size)[source] * np.bincount(target, counts, size)[target]
    chance = linked / np.bincount(half, counts, 2)[half]
    return np.asarray(counts / chance * counts / (counts + 1))


def _misses(side: PackedWordIds, lifts: FloatArray, rightness: FloatArray, size: int) -> FloatArray:
    """Return how often each word had no partner; who was rarely seen gets the benefit of doubt."""
    weights = rightness[side.line_indices]
    seen = np.bincount(side.ids, weights, size)
    missed = np.bincount(side.ids, weights * (lifts < _MISSED), size)
    return np.clip((missed + 1) / (seen + 2), _LEAST_MISSES, 0.9)


def _evidence(
    sides: tuple[PackedWordIds, PackedWordIds],
    lifts: tuple[FloatArray, FloatArray],
    misses: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Return what the words of each pair say together."""
    said = [_said(lifts[side], misses[side], sides[side].ids) for side in (0, 1)]
    return sides[0].sum_by_line(said[0]) + sides[1].sum_by_line(said[1])


def _said(lifts: FloatArray, misses: FloatArray, ids: IntArray) -> FloatArray:
    """Return what each word says; one that is not known speaks only if it found a partner."""
    miss = _look(misses, ids)
    miss = np.where((miss == 1) & (lifts > 0), _RARE_MISSES, miss)
    return np.log((1 - miss) * lifts + miss)


def _look(misses: FloatArray, ids: IntArray) -> FloatArray:
    """Look words up; those without a number are not known."""
    return np.where(ids < len(misses), misses[np.minimum(ids, len(misses) - 1)], 1.0)
