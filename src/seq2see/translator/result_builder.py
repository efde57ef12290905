"""Builds translations from hypotheses: text, flags, token scores and alignment links."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, starmap

import torch
from torch import Tensor

from seq2see.engines.base import Engine, TargetScores
from seq2see.search import Hypothesis
from seq2see.text import Tokenizer, TokenizerPair
from seq2see.text.languages import find_word_offsets
from seq2see.text.sentence_splitting import (
    count_clauses,
    count_sentences,
    may_have_several_sentences,
)
from seq2see.text.tokenizer import (
    Offsets,
    find_offsets_in_decoded_text,
    find_offsets_in_original_text,
)
from seq2see.text.training_text_statistics import TrainingTextStatistics, find_length_ratio
from seq2see.translator.constraints import LexicalConstraints
from seq2see.translator.text_translation import LINE_BREAK
from seq2see.translator.translation import (
    AlignmentLink,
    ScoredToken,
    SentencePairOffsets,
    SourceSegment,
    Translation,
    TranslationFlag,
    TranslationOptions,
)

# E target tokens with the end-of-sentence token, S source tokens without special tokens, U target
# words, W source words; `...` stands for any number of dimensions, such as layers and heads


MIN_LINK_WEIGHT = 0.05
"""Links with a lower weight are removed, except the strongest link of each word."""


@dataclass(frozen=True, slots=True)
class WordAlignment:
    """Words of a sentence and of its translation, with the weights and links between them."""

    source_words: Sequence[Offsets]
    target_words: Sequence[Offsets]
    weights_UW: Tensor
    """Weight of each pair of words, [..., U, W]."""
    is_link_UW: Tensor
    """Whether the words are linked, [..., U, W]."""

    def to_links(self) -> tuple[AlignmentLink, ...]:
        """Return the links of each target word, strongest first."""
        links: list[AlignmentLink] = []
        rows = zip(self.weights_UW.tolist(), self.is_link_UW.tolist(), strict=True)
        for target_word, (weights, is_link) in zip(self.target_words, rows, strict=True):
            linked = sorted(
                (i for i, each in enumerate(is_link) if each), key=lambda i: -weights[i]
            )
            links += [
                AlignmentLink(*self.source_words[i], *target_word, weights[i]) for i in linked
            ]
        return tuple(links)


def align_words(
    tokenizers: TokenizerPair,
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    attention_ES: Tensor,
) -> WordAlignment:
    """Return the word alignment of a translation.

    The weight of two words is the sum over the pieces of the source word and the mean over the
    pieces of the target word. A target word is linked to the source word with the largest weight,
    and to all with a weight of at least `MIN_LINK_WEIGHT`.

    Args:
        tokenizers: Tokenizers of both sides.
        source: Text and ids of the source.
        target: Text and ids of the target.
        attention_ES: Cross-attention weights of each target token, [..., E, S].
    """
    source_pieces = find_offsets_in_original_text(tokenizers.source, source[1], source[0])
    target_pieces = find_offsets_in_decoded_text(tokenizers.target, target[1], target[0])
    columns = _find_pieces_by_word(source[0], source_pieces)
    rows = {
        word: own for word, own in _find_pieces_by_word(target[0], target_pieces).items() if own
    }
    source_words, target_words = list(columns), list(rows)
    if not source_words or not target_words:
        empty_UW = attention_ES.new_zeros(len(target_words), len(source_words))
        return WordAlignment(source_words, target_words, empty_UW, empty_UW.bool())
    weights_US = torch.stack([attention_ES[..., own, :].mean(-2) for own in rows.values()], -2)
    weights_US = weights_US.cpu().double()  # MPS has no float64
    weights_UW = torch.stack([weights_US[..., own].sum(-1) for own in columns.values()], -1)
    is_link_UW = weights_UW >= MIN_LINK_WEIGHT
    is_link_UW.scatter_(-1, weights_UW.argmax(-1, keepdim=True), value=True)
    return WordAlignment(source_words, target_words, weights_UW, is_link_UW)


def _find_pieces_by_word(text: str, pieces: Sequence[Offsets]) -> dict[Offsets, list[int]]:
    """Return the indices of the pieces that overlap each word; they must be in order."""
    starts, ends = [start for start, _ in pieces], [end for _, end in pieces]
    words = find_word_offsets(text, set(starts))
    return {
        (start, end): list(range(bisect_right(ends, start), bisect_left(starts, end)))
        for start, end in words
    }


MIN_COPIED_WORDS = 3
"""Shorter lines are not flagged as copies: names, numbers and "OK" are rightly copied."""
MIN_REPEATS, MIN_REPEATED_TOKENS, MAX_REPEAT_PERIOD = 3, 6, 12
"""A repetition is a sequence of at most MAX_REPEAT_PERIOD tokens that occurs at least MIN_REPEATS
times in a row, with at least MIN_REPEATED_TOKENS tokens in total."""
MAX_LENGTH_DEVIATIONS = 3.5
"""A translation is short or long if its length ratio differs from the mean of the training text by
more than this number of standard deviations."""
MAX_DEVIATIONS_WITHOUT_SENTENCE = 1.5
"""The same if the translation has fewer sentences than its source. Such a translation is also short
if its length is below the mean and it has fewer clauses: "A, but B." has those of "A. B."."""
NO_TRANSLATION_MESSAGE = (
    "no translation satisfies `prefix`, `forbidden` and the length limits: relax one of them"
)


def find_flags(
    segment: SourceSegment,
    hypothesis: Hypothesis,
    text: str,
    tokenizers: TokenizerPair,
    languages: tuple[str, str],
    training_text: TrainingTextStatistics | None,
    retokenized_ids: Sequence[int] | None = None,
) -> Iterator[TranslationFlag]:
    """Yield the flags of a translation.

    `text` is that of the hypothesis. `training_text` has the usual length ratios, if they are
    known. `retokenized_ids` are the ids of the text when it is tokenized again, or None if that is
    not checked.
    """
    source_ids, target_ids = segment.ids, hypothesis.tokens_without_eos
    if languages[0] != languages[1] and is_copied_source(segment.span.text, text):
        yield TranslationFlag.COPIED_SOURCE
    if has_repetition(target_ids) and not has_repetition(source_ids):
        yield TranslationFlag.REPETITION
    if not hypothesis.is_finished:
        yield TranslationFlag.LENGTH_LIMIT
    ratio = find_length_ratio(training_text, len(source_ids))
    z_score = ratio.compute_z_score(len(source_ids), len(target_ids))
    if is_too_short(segment.span.text, text, languages, z_score):
        yield TranslationFlag.SHORT
    if z_score > MAX_LENGTH_DEVIATIONS:
        yield TranslationFlag.LONG
    if has_unknown(tokenizers, source_ids, target_ids):
        yield TranslationFlag.UNKNOWN
    if retokenized_ids not in (None, list(target_ids)):
        yield TranslationFlag.RETOKENIZED


def is_too_short(source: str, text: str, languages: tuple[str, str], z_score: float) -> bool:
    """Return whether a translation is so short that a part of the source may be missing.

    `z_score` is that of its length ratio. The sentences are counted if it is below the mean.
    """
    if z_score < -MAX_LENGTH_DEVIATIONS or not text.strip():
        return True
    if z_score >= 0 or not may_have_several_sentences(source):
        return False
    if count_sentences(text, languages[1]) >= count_sentences(source, languages[0]):
        return False
    return z_score < -MAX_DEVIATIONS_WITHOUT_SENTENCE or count_clauses(text) < count_clauses(source)


def is_copied_source(source: str, text: str) -> bool:
    """Return whether the text has the same words as the source, ignoring case and spaces."""
    words = source.casefold().split()
    return len(words) >= MIN_COPIED_WORDS and words == text.casefold().split()


def has_unknown(tokenizers: TokenizerPair, source: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether the source or the target has characters without a piece.

    Bytes count in the source only: the model has rarely seen them and mostly omits them, but it
    produces bytes in the target deliberately.
    """
    return (
        not tokenizers.source.byte_ids.isdisjoint(source)
        or tokenizers.source.special_ids.unk in source
        or tokenizers.target.special_ids.unk in target
    )


def has_repetition(ids: Sequence[int]) -> bool:
    """Return whether a sequence of tokens is repeated several times in a row."""
    if len(ids) - len(set(ids)) < MIN_REPEATED_TOKENS - MIN_REPEATED_TOKENS // MIN_REPEATS:
        return False  # too few tokens occur twice
    for period in range(1, min(MAX_REPEAT_PERIOD, len(ids) // MIN_REPEATS) + 1):
        min_run = max(MIN_REPEATED_TOKENS, MIN_REPEATS * period) - period
        run = 0
        for index in range(period, len(ids)):
            run = run + 1 if ids[index] == ids[index - period] else 0
            if run >= min_run:
                return True
    return False


@dataclass(frozen=True, slots=True)
class ResultBuilder:
    """Builds translations from hypotheses."""

    engine: Engine
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    training_text: TrainingTextStatistics | None
    constraints: LexicalConstraints | None
    options: TranslationOptions
    threads: int

    def build_translations(
        self,
        segments: Sequence[SourceSegment],
        hypotheses_per_segment: Sequence[Sequence[Hypothesis]],
    ) -> Iterator[Translation]:
        """Yield the translation of each segment, with its alternatives."""
        pairs = [
            (segment, hypothesis)
            for segment, hypotheses in zip(segments, hypotheses_per_segment, strict=True)
            for hypothesis in hypotheses
        ]
        tokenizer = self.tokenizers.target
        decoded = tokenizer.decode_batch([h.tokens_without_eos for _, h in pairs], self.threads)
        retokenized: Sequence[Sequence[int] | None] = [None] * len(decoded)
        if self.options.check_retokenization:
            texts = [LINE_BREAK.sub(" ", text) for text in decoded]
            retokenized = tokenizer.encode_batch(texts, self.threads)
        columns = zip(pairs, decoded, retokenized, self._score_targets(pairs), strict=True)
        translations = starmap(self._build_translation, columns)
        for hypotheses in hypotheses_per_segment:
            if not hypotheses:
                code = "constraints_unsatisfiable"
                yield Translation("", 0.0, 0.0, error=NO_TRANSLATION_MESSAGE, error_code=code)
                continue
            best, *others = islice(translations, len(hypotheses))
            yield replace(best, alternatives=tuple(others)) if others else best

    def _score_targets(
        self, pairs: Sequence[tuple[SourceSegment, Hypothesis]]
    ) -> Sequence[TargetScores]:
        """Compute attention or token scores that are requested but not known from the search."""
        options = self.options
        needs_scores = options.token_scores and not all(h.token_log_probs for _, h in pairs)
        needs_attention = options.alignment and any(h.attention_ES is None for _, h in pairs)
        if not needs_scores and not needs_attention:
            return [TargetScores(())] * len(pairs)
        targets = [(segment.ids, hypothesis.tokens) for segment, hypothesis in pairs]
        return self.engine.score_targets(targets, attention=needs_attention)

    def _build_translation(
        self,
        pair: tuple[SourceSegment, Hypothesis],
        decoded: str,
        retokenized_ids: Sequence[int] | None,
        scores: TargetScores,
    ) -> Translation:
        segment, hypothesis = pair
        # A model that produces bytes may produce a line break, but a line is translated to a line.
        text = LINE_BREAK.sub(" ", decoded)
        source, log_prob, tokens = segment.span.text, hypothesis.log_prob, hypothesis.tokens
        model = (self.tokenizers, self.languages, self.training_text)
        flags = tuple(find_flags(segment, hypothesis, text, *model, retokenized_ids))
        unmet = self.constraints.find_unmet(source, text) if self.constraints else ()
        log_probs = hypothesis.token_log_probs or scores.log_probs
        return Translation(
            text,
            hypothesis.score,
            log_prob,
            tokens=build_scored_tokens(self.tokenizers.target, tokens, log_probs, decoded)
            if self.options.token_scores
            else (),
            alignment=self._align_words(pair, decoded, scores) if self.options.alignment else (),
            flags=flags,
            unmet_constraints=unmet,
            sentences=(SentencePairOffsets(0, len(source), 0, len(text), log_prob, flags, unmet),),
            num_tokens=len(tokens),
        )

    def _align_words(
        self, pair: tuple[SourceSegment, Hypothesis], text: str, scores: TargetScores
    ) -> tuple[AlignmentLink, ...]:
        segment, hypothesis = pair
        attention_ES = hypothesis.attention_ES  # known with a coverage penalty
        if attention_ES is None:
            attention_ES = scores.attention_ES
        assert attention_ES is not None
        first = int(self.engine.special_tokens.source_bos_id is not None)
        attention_ES = attention_ES[:, first : first + len(segment.ids)]
        source, target = (segment.span.text, segment.ids), (text, hypothesis.tokens_without_eos)
        return align_words(self.tokenizers, source, target, attention_ES).to_links()


def build_scored_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], log_probs: Sequence[float], text: str
) -> tuple[ScoredToken, ...]:
    """Return each id as a token with its score and its character offsets.

    A token without text, such as the end-of-sentence token, has the end offset of the token before
    it as start and end.
    """
    offsets = find_offsets_in_decoded_text(tokenizer, ids, text)
    return tuple(
        ScoredToken(tokenizer.pieces[i], log_prob, *piece_offsets)
        for i, log_prob, piece_offsets in zip(ids, log_probs, offsets, strict=True)
    )
