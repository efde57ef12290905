"""Builds translations from hypotheses: text, flags, token scores and word alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from seq2see.engines.base import Engine, TargetScores
from seq2see.search import Hypothesis
from seq2see.text import Tokenizer, TokenizerPair
from seq2see.text.languages import find_word_offsets
from seq2see.text.tokenizer import Offsets, find_piece_offsets, find_source_offsets
from seq2see.translator.constraints import LexicalConstraints
from seq2see.translator.segmentation import Segment
from seq2see.translator.translation import (
    AlignmentLink,
    ScoredToken,
    Translation,
    TranslationFlag,
    TranslationOptions,
)

# E emitted tokens, S source tokens without their ends, U target words, W source words

MIN_COPIED_WORDS = 3
"""Shorter lines are copied with good reason: names, numbers, "OK"."""


MIN_REPEATS, MIN_REPEATED_TOKENS, MAX_REPEAT_PERIOD = 3, 6, 12
"""So often the same up to so many tokens in a row, so many tokens in all at least."""


SHORT_RATIO, SHORT_SLACK = 1 / 3, 3
"""Below this share of the source's tokens less the slack, a translation is short."""


LONG_RATIO, LONG_SLACK = 3, 10
"""Above so many times the source's tokens and the slack, it is long."""


@dataclass(frozen=True, slots=True)
class FlagInputs:
    """What the rules look at."""

    source_text: str
    target_text: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    is_finished: bool
    is_same_language: bool
    has_unknown: bool
    retokenized_ids: Sequence[int]
    """The ids of the text, read again."""


def find_flags(inputs: FlagInputs) -> Iterator[TranslationFlag]:
    """Yield what is suspicious."""
    if not inputs.is_same_language and is_copied_source(inputs.source_text, inputs.target_text):
        yield TranslationFlag.COPIED_SOURCE
    if has_repetition(inputs.target_ids) and not has_repetition(inputs.source_ids):
        yield TranslationFlag.REPETITION
    if not inputs.is_finished:
        yield TranslationFlag.LENGTH_LIMIT
    source, target = len(inputs.source_ids), len(inputs.target_ids)
    if target < SHORT_RATIO * source - SHORT_SLACK:
        yield TranslationFlag.SHORT
    if target > LONG_RATIO * source + LONG_SLACK:
        yield TranslationFlag.LONG
    if inputs.has_unknown:
        yield TranslationFlag.UNKNOWN
    if inputs.retokenized_ids != inputs.target_ids:
        yield TranslationFlag.RETOKENIZED


def is_copied_source(source: str, text: str) -> bool:
    """Tell whether the words are those of the source, and enough of them to wonder."""
    words = source.casefold().split()
    return len(words) >= MIN_COPIED_WORDS and words == text.casefold().split()


def has_repetition(ids: Sequence[int]) -> bool:
    """Tell whether some tokens come again and again, with nothing in between."""
    if len(ids) - len(set(ids)) < MIN_REPEATED_TOKENS - MIN_REPEATED_TOKENS // MIN_REPEATS:
        return False  # too little comes twice at all
    for period in range(1, min(MAX_REPEAT_PERIOD, len(ids) // MIN_REPEATS) + 1):
        needed = max(MIN_REPEATED_TOKENS, MIN_REPEATS * period) - period
        run = 0
        for place in range(period, len(ids)):
            run = run + 1 if ids[place] == ids[place - period] else 0
            if run >= needed:
                return True
    return False


MIN_LINK_WEIGHT = 0.05
"""Weaker links are left out, but never a word's strongest."""


def build_alignment_links(
    tokenizers: TokenizerPair,
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    attention_ES: Tensor,
) -> tuple[AlignmentLink, ...]:
    """Return the links of each target word, the strongest first.

    A word gets what its pieces get together, and gives the mean of what its pieces give.
    """
    source_pieces = find_source_offsets(tokenizers.source, source[1], source[0])
    target_pieces = find_piece_offsets(tokenizers.target, target[1], target[0])
    source_words = _words(source[0], source_pieces)
    target_words = _words(target[0], target_pieces)
    result: list[AlignmentLink] = []
    for word, rows in zip(target_words, _members(target_words, target_pieces), strict=True):
        if not rows:
            continue
        weights_S = attention_ES[rows].mean(0).tolist()
        members = _members(source_words, source_pieces)
        weights = [sum(weights_S[i] for i in columns) for columns in members]
        result += _of_word(word, source_words, weights)
    return tuple(result)


def _of_word(
    word: Offsets, others: Sequence[Offsets], weights: Sequence[float]
) -> list[AlignmentLink]:
    order = sorted(range(len(others)), key=lambda i: -weights[i])
    strong = [i for rank, i in enumerate(order) if rank == 0 or weights[i] >= MIN_LINK_WEIGHT]
    return [AlignmentLink(*others[i], *word, weights[i]) for i in strong]


def _words(text: str, pieces: Sequence[Offsets]) -> list[Offsets]:
    return find_word_offsets(text, {start for start, _ in pieces})


def _members(words: Sequence[Offsets], pieces: Sequence[Offsets]) -> list[list[int]]:
    """Return the pieces that share a character with each word."""
    return [[i for i, (a, b) in enumerate(pieces) if a < end and b > start] for start, end in words]


NO_TRANSLATION_MESSAGE = (
    "nothing may follow: prefix, forbidden words and lengths leave no translation"
)


@dataclass(frozen=True, slots=True)
class DecodedHypothesis:
    """A hypothesis with its text, and the ids that this text would have."""

    segment: Segment
    hypothesis: Hypothesis
    text: str
    retokenized_ids: Sequence[int]
    target_scores: TargetScores | None


class ResultBuilder:
    """Tells what is known about translations."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        is_same_language: bool,
        constraints: LexicalConstraints | None,
        threads: int = 1,
    ) -> None:
        self._engine = engine
        self._tokenizers = tokenizers
        self._bytes = frozenset(tokenizers.source.byte_ids)
        self._same_language = is_same_language
        self._wishes = constraints
        self._threads = threads

    def build_translations(
        self,
        segments: Sequence[Segment],
        hypotheses_per_segment: Sequence[Sequence[Hypothesis]],
        options: TranslationOptions,
    ) -> Iterator[Translation]:
        """Yield the translation of each segment, with its alternatives."""
        pairs = [
            (s, h) for s, some in zip(segments, hypotheses_per_segment, strict=True) for h in some
        ]
        tokenizer = self._tokenizers.target
        texts = tokenizer.decode_batch([h.tokens_without_eos for _, h in pairs], self._threads)
        again = tokenizer.encode_batch(texts, self._threads)
        forced = self._forced(pairs, options)
        columns = zip(pairs, texts, again, forced, strict=True)
        described = (
            self._translation(DecodedHypothesis(*pair, text, ids, seen), options)
            for pair, text, ids, seen in columns
        )
        for hypotheses in hypotheses_per_segment:
            if not hypotheses:
                yield Translation("", 0.0, 0.0, error=NO_TRANSLATION_MESSAGE)
                continue
            best, *others = (next(described) for _ in hypotheses)
            yield replace(best, alternatives=tuple(others)) if others else best

    def _forced(
        self, pairs: Sequence[tuple[Segment, Hypothesis]], options: TranslationOptions
    ) -> Sequence[TargetScores | None]:
        """Ask the model again where the search did not tell: where it looked, or each token."""
        silent = any(not hypothesis.token_log_probs for _, hypothesis in pairs)
        if not options.alignment and not (options.token_scores and silent):
            return [None] * len(pairs)
        targets = [(segment.ids, hypothesis.tokens) for segment, hypothesis in pairs]
        return self._engine.score_targets(targets, attention=options.alignment)

    def _translation(self, found: DecodedHypothesis, options: TranslationOptions) -> Translation:
        segment, hypothesis, text = found.segment, found.hypothesis, found.text
        ids = list(hypothesis.tokens_without_eos)
        case = FlagInputs(
            source_text=segment.span.text,
            target_text=text,
            source_ids=segment.ids,
            target_ids=ids,
            is_finished=hypothesis.is_finished,
            is_same_language=self._same_language,
            has_unknown=self._has_unknown(segment.ids, ids),
            retokenized_ids=found.retokenized_ids,
        )
        return Translation(
            text,
            hypothesis.score,
            hypothesis.log_prob,
            tokens=self._tokens(found) if options.token_scores else (),
            alignment=self._links(found) if options.alignment else (),
            flags=tuple(find_flags(case)),
            unmet_constraints=self._wishes.find_unmet(segment.span.text, text)
            if self._wishes
            else (),
        )

    def _has_unknown(self, source: Sequence[int], target: Sequence[int]) -> bool:
        """Tell of characters without a piece. Bytes of the target are what the model chose to
        write; those of the source it has hardly ever seen, and leaves out."""
        own, other = self._tokenizers.source, self._tokenizers.target
        is_lost = own.special_ids.unk in source or not self._bytes.isdisjoint(source)
        return is_lost or other.special_ids.unk in target

    def _tokens(self, found: DecodedHypothesis) -> tuple[ScoredToken, ...]:
        own = found.hypothesis.token_log_probs or (
            found.target_scores.log_probs if found.target_scores else ()
        )
        return build_scored_tokens(
            self._tokenizers.target, found.hypothesis.tokens, own, found.text
        )

    def _links(self, found: DecodedHypothesis) -> tuple[AlignmentLink, ...]:
        assert found.target_scores is not None
        assert found.target_scores.attention_ES is not None
        segment, ids = found.segment, found.hypothesis.tokens_without_eos
        first = int(self._engine.special_tokens.source_bos_id is not None)
        attention_ES = found.target_scores.attention_ES[:, first : first + len(segment.ids)]
        return build_alignment_links(
            self._tokenizers, (segment.span.text, segment.ids), (found.text, ids), attention_ES
        )


def build_scored_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], log_probs: Sequence[float], text: str
) -> tuple[ScoredToken, ...]:
    """Return each id as a token with its place; one that has no text, such as the stop symbol,
    stands behind what came before."""
    spans = find_piece_offsets(tokenizer, ids, text)
    columns = zip(ids, log_probs, spans, strict=True)
    return tuple(ScoredToken(tokenizer.pieces[i], own, *span) for i, own, span in columns)
