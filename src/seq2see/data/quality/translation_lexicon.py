"""Translation lexicon of a corpus (IBM Model 1), which scores how likely a pair is a translation.

The **lift** of a source word and a target word is how much more likely they are to be linked than
two random words. A pair is scored word by word: log((1 - m)·lift + m), where the lift is the mean
over the words of the other side, and m is the miss rate of the word: how often it has no
counterpart in pairs that are probably correct. The sum is the evidence, in nats, that the pair is a
translation and not two random lines.

Each of two folds is scored by the lexicon of the other one; otherwise a wrong pair of two rare
words would score high. Both lexicons are in one table: the ids of the second fold are
`word + vocabulary_size`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seq2see.data.quality.words_and_word_ids import FloatArray, sum_by_line
from seq2see.text.packed_ids import IntArray, PackedIds

MAX_SAMPLE_CHARACTERS = 2000
"""Maximum number of characters of a line that lexicons are fitted to."""
_EM_ITERATIONS = 5
_MAX_LINKS = 8_000_000
"""Maximum number of word links to train on; they take about 500 MB."""
_MIN_WORD_COUNT = 5
"""A rarer word is no evidence against a pair if it has no counterpart."""
_MIN_COUNTERPART_LIFT = 0.5
"""A word with a lower mean lift has no counterpart."""
_MIN_MISS_RATE, _MAX_MISS_RATE = 0.05, 0.9
_MISS_RATE_ITERATIONS = 3
_IDENTICAL_WORD_LIFT = 200.0
"""The lift of a rare word that is on both sides: a name or a number."""
_RARE_WORD_MISS_RATE = 0.3


@dataclass(frozen=True, slots=True)
class TranslationLexicon:
    """The lifts of linked words, as a table sorted by key."""

    vocabulary_size: int
    keys: IntArray
    lifts: FloatArray
    miss_rates: Sequence[FloatArray]
    """For each word of each side, how often it has no counterpart; 1 if the word is too rare."""

    def score_pairs(self, source: PackedIds, target: PackedIds, folds: IntArray) -> FloatArray:
        """Return the evidence for each pair, in nats, from the lexicon of the other fold."""
        sides, lifts = self._mean_lifts(source, target, folds)
        return _sum_evidence(sides, lifts, self.miss_rates)

    def with_miss_rates(
        self, source: PackedIds, target: PackedIds, folds: IntArray
    ) -> TranslationLexicon:
        """Return a copy with the miss rates of words in these pairs.

        Each pair is weighted by the probability that it is correct.
        """
        sides, lifts = self._mean_lifts(source, target, folds)
        is_rare = [rates == 1 for rates in self.miss_rates]
        miss_rates, weights = self.miss_rates, np.ones(len(folds))
        for _ in range(_MISS_RATE_ITERATIONS):
            estimates = (
                _estimate_miss_rates(sides[s], lifts[s], weights, 2 * self.vocabulary_size)
                for s in (0, 1)
            )
            miss_rates = list(map(np.where, is_rare, (1.0, 1.0), estimates))
            evidence_against = np.clip(-_sum_evidence(sides, lifts, miss_rates), -50, 50)
            weights = 1 / (1 + np.exp(evidence_against))
        return replace(self, miss_rates=miss_rates)

    def _mean_lifts(
        self, source: PackedIds, target: PackedIds, folds: IntArray
    ) -> tuple[list[PackedIds], list[FloatArray]]:
        """Return both sides with the ids of the other fold, and the mean lift of each word."""
        source, target = (self._with_fold_ids(side, 1 - folds) for side in (source, target))
        source_words, target_words = _link_words(source, target)
        lifts = self._look_up(source.ids[source_words], target.ids[target_words])
        mean_lifts = [
            np.bincount(words, lifts, len(side.ids)).astype(float)
            / np.maximum(other.lengths, 1)[side.line_indices]
            for words, side, other in (
                (source_words, source, target),
                (target_words, target, source),
            )
        ]
        return [source, target], mean_lifts

    def _with_fold_ids(self, side: PackedIds, folds: IntArray) -> PackedIds:
        """Return the ids of words in the lexicon of a fold; ids of unknown words follow both."""
        size = self.vocabulary_size
        fold_ids = side.ids + size * folds[side.line_indices]
        return PackedIds(np.where(side.ids < size, fold_ids, side.ids + size), side.lengths)

    def _look_up(self, source: IntArray, target: IntArray) -> FloatArray:
        """Return the lift of each pair of words."""
        if not len(self.keys):
            return np.zeros(len(source))
        keys = _link_key(source, target)
        indices = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        lifts = np.where(self.keys[indices] == keys, self.lifts[indices], 0.0)
        is_frequent = [
            _look_up_rates(rates, ids) < 1
            for rates, ids in zip(self.miss_rates, (source, target), strict=True)
        ]
        is_identical = (source == target) & ~(is_frequent[0] & is_frequent[1])
        return np.where(is_identical, np.maximum(lifts, _IDENTICAL_WORD_LIFT), lifts)


def assign_cross_validation_folds(sources: Sequence[str]) -> IntArray:
    """Return the fold (0 or 1) of each pair by its source; equal sources are in one fold.

    Of a long source, only the part counts that is in the sample which the lexicons are fitted to.
    """
    encoded = (source[:MAX_SAMPLE_CHARACTERS].encode("utf-8", "replace") for source in sources)
    return np.array([zlib.crc32(source) & 1 for source in encoded], np.int64)


def fit_lexicon(
    source: PackedIds, target: PackedIds, folds: IntArray, vocabulary_size: int
) -> TranslationLexicon:
    """Train two lexicons, one on each fold of the pairs."""
    num_links = int((source.lengths * target.lengths).sum())
    sampled = np.arange(0, len(folds), max(1, -(-num_links // _MAX_LINKS)))
    pairs = source.take(sampled), target.take(sampled)
    offsets = vocabulary_size * folds[sampled]
    sides = [PackedIds(side.ids + offsets[side.line_indices], side.lengths) for side in pairs]
    keys, counts = _train_model_1(sides[0], sides[1])
    lifts = _compute_lifts(keys, counts, 2 * vocabulary_size)
    is_used = (counts > 0.5) & (lifts > 0.5)
    word_counts = [np.bincount(side.ids, minlength=2 * vocabulary_size) for side in sides]
    initial = [np.where(count >= _MIN_WORD_COUNT, _MIN_MISS_RATE, 1.0) for count in word_counts]
    lexicon = TranslationLexicon(vocabulary_size, keys[is_used], lifts[is_used], initial)
    return lexicon.with_miss_rates(*pairs, folds[sampled])


def _link_words(source: PackedIds, target: PackedIds) -> tuple[IntArray, IntArray]:
    """Return the indices of both words of each link: each word with each of the other side."""
    counts = source.lengths * target.lengths
    pair = np.repeat(np.arange(len(counts)), counts)
    link = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = target.lengths[pair]
    return source.line_starts[pair] + link // width, target.line_starts[pair] + link % width


def _link_key(source: IntArray, target: IntArray) -> IntArray:
    return source << 32 | target


def _train_model_1(source: PackedIds, target: PackedIds) -> tuple[IntArray, FloatArray]:
    """Return the keys of linked words, sorted, and their expected numbers of links."""
    source_words, target_words = _link_words(source, target)
    link_keys = _link_key(source.ids[source_words], target.ids[target_words])
    keys, key_indices = np.unique(link_keys, return_inverse=True)
    source_indices = np.unique(keys >> 32, return_inverse=True)[1]
    probabilities, counts = np.ones(len(keys)), np.zeros(len(keys))
    for _ in range(_EM_ITERATIONS):
        posteriors = probabilities[key_indices]
        posteriors /= np.bincount(target_words, posteriors, len(target.ids))[target_words]
        counts = np.bincount(key_indices, posteriors, len(keys)).astype(float)
        probabilities = counts / np.bincount(source_indices, counts)[source_indices]
    return keys, counts


def _compute_lifts(keys: IntArray, counts: FloatArray, size: int) -> FloatArray:
    """Return the lift of each pair of words, discounted where the count is low."""
    source, target = keys >> 32, keys & 0xFFFFFFFF
    fold = source // (size // 2)
    linked = np.bincount(source, counts, size)[source] * np.bincount(target, counts, size)[target]
    expected = linked / np.bincount(fold, counts, 2)[fold]
    return np.asarray(counts / expected * counts / (counts + 1))


def _estimate_miss_rates(
    side: PackedIds, lifts: FloatArray, weights: FloatArray, size: int
) -> FloatArray:
    """Return how often each word has no counterpart, smoothed for rare words."""
    word_weights = weights[side.line_indices]
    seen = np.bincount(side.ids, word_weights, size)
    missed = np.bincount(side.ids, word_weights * (lifts < _MIN_COUNTERPART_LIFT), size)
    return np.clip((missed + 1) / (seen + 2), _MIN_MISS_RATE, _MAX_MISS_RATE)


def _sum_evidence(
    sides: Sequence[PackedIds], lifts: Sequence[FloatArray], miss_rates: Sequence[FloatArray]
) -> FloatArray:
    """Return the total evidence of the words of each pair."""
    evidence = map(_word_evidence, lifts, miss_rates, [side.ids for side in sides])
    source, target = map(sum_by_line, sides, evidence)
    return source + target


def _word_evidence(lifts: FloatArray, miss_rates: FloatArray, ids: IntArray) -> FloatArray:
    """Return the evidence of each word; a rare word counts only if it has a counterpart."""
    rates = _look_up_rates(miss_rates, ids)
    rates = np.where((rates == 1) & (lifts > 0), _RARE_WORD_MISS_RATE, rates)
    return np.log((1 - rates) * lifts + rates)


def _look_up_rates(miss_rates: FloatArray, ids: IntArray) -> FloatArray:
    """Return the miss rate of each word; 1 for unknown words."""
    is_known = ids < len(miss_rates)
    return np.where(is_known, miss_rates[np.minimum(ids, len(miss_rates) - 1)], 1.0)
