"""Builds translations from hypotheses: text, flags, token scores and word alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from seq2see.engines.base import Engine, Forced
from seq2see.search import Hypothesis
from seq2see.text import Tokenizer, Tokenizers
from seq2see.text.languages import word_spans
from seq2see.text.tokenizer import Span, piece_spans, source_spans
from seq2see.translator.constraints import Wishes
from seq2see.translator.segmentation import Segment
from seq2see.translator.translation import Flag, Link, Token, Translation, TranslationOptions

# E emitted tokens, S source tokens without their ends, U target words, W source words

COPIED_WORDS = 3
"""Shorter lines are copied with good reason: names, numbers, "OK"."""


LOOP_TIMES, LOOP_TOKENS, LOOP_PERIOD = 3, 6, 12
"""So often the same up to so many tokens in a row, so many tokens in all at least."""


SHORT_SHARE, SHORT_SLACK = 1 / 3, 3
"""Below this share of the source's tokens less the slack, a translation is short."""


LONG_SHARE, LONG_SLACK = 3, 10
"""Above so many times the source's tokens and the slack, it is long."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at."""

    source: str
    text: str
    source_ids: Sequence[int]
    ids: Sequence[int]
    finished: bool
    same_language: bool
    unknown: bool
    again: Sequence[int]
    """The ids of the text, read again."""


def flags(case: Case) -> Iterator[Flag]:
    """Yield what is suspicious."""
    if not case.same_language and is_copy(case.source, case.text):
        yield Flag.COPIED_SOURCE
    if loops(case.ids) and not loops(case.source_ids):
        yield Flag.REPETITION
    if not case.finished:
        yield Flag.LENGTH_LIMIT
    source, target = len(case.source_ids), len(case.ids)
    if target < SHORT_SHARE * source - SHORT_SLACK:
        yield Flag.SHORT
    if target > LONG_SHARE * source + LONG_SLACK:
        yield Flag.LONG
    if case.unknown:
        yield Flag.UNKNOWN
    if case.again != case.ids:
        yield Flag.RETOKENISED


def is_copy(source: str, text: str) -> bool:
    """Tell whether the words are those of the source, and enough of them to wonder."""
    words = source.casefold().split()
    return len(words) >= COPIED_WORDS and words == text.casefold().split()


def loops(ids: Sequence[int]) -> bool:
    """Tell whether some tokens come again and again, with nothing in between."""
    if len(ids) - len(set(ids)) < LOOP_TOKENS - LOOP_TOKENS // LOOP_TIMES:
        return False  # too little comes twice at all
    for period in range(1, min(LOOP_PERIOD, len(ids) // LOOP_TIMES) + 1):
        needed = max(LOOP_TOKENS, LOOP_TIMES * period) - period
        run = 0
        for place in range(period, len(ids)):
            run = run + 1 if ids[place] == ids[place - period] else 0
            if run >= needed:
                return True
    return False


LEAST_WEIGHT = 0.05
"""Weaker links are left out, but never a word's strongest."""


def links(
    tokenizers: Tokenizers,
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    attention_ES: Tensor,
) -> tuple[Link, ...]:
    """Return the links of each target word, the strongest first.

    A word gets what its pieces get together, and gives the mean of what its pieces give.
    """
    source_pieces = source_spans(tokenizers.source, source[1], source[0])
    target_pieces = piece_spans(tokenizers.target, target[1], target[0])
    source_words = _words(source[0], source_pieces)
    target_words = _words(target[0], target_pieces)
    result: list[Link] = []
    for word, rows in zip(target_words, _members(target_words, target_pieces), strict=True):
        if not rows:
            continue
        weights_S = attention_ES[rows].mean(0).tolist()
        members = _members(source_words, source_pieces)
        weights = [sum(weights_S[i] for i in columns) for columns in members]
        result += _of_word(word, source_words, weights)
    return tuple(result)


def _of_word(word: Span, others: Sequence[Span], weights: Sequence[float]) -> list[Link]:
    order = sorted(range(len(others)), key=lambda i: -weights[i])
    strong = [i for rank, i in enumerate(order) if rank == 0 or weights[i] >= LEAST_WEIGHT]
    return [Link(*others[i], *word, weights[i]) for i in strong]


def _words(text: str, pieces: Sequence[Span]) -> list[Span]:
    return word_spans(text, {start for start, _ in pieces})


def _members(words: Sequence[Span], pieces: Sequence[Span]) -> list[list[int]]:
    """Return the pieces that share a character with each word."""
    return [[i for i, (a, b) in enumerate(pieces) if a < end and b > start] for start, end in words]


NOTHING = "nothing may follow: prefix, forbidden words and lengths leave no translation"


@dataclass(frozen=True, slots=True)
class Found:
    """A hypothesis with its text, and the ids that this text would have."""

    segment: Segment
    hypothesis: Hypothesis
    text: str
    again: Sequence[int]
    forced: Forced | None


class Describer:
    """Tells what is known about translations."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        same_language: bool,
        wishes: Wishes | None,
        threads: int = 1,
    ) -> None:
        self._engine = engine
        self._tokenizers = tokenizers
        self._bytes = frozenset(tokenizers.source.byte_ids)
        self._same_language = same_language
        self._wishes = wishes
        self._threads = threads

    def describe(
        self,
        segments: Sequence[Segment],
        found: Sequence[Sequence[Hypothesis]],
        options: TranslationOptions,
    ) -> Iterator[Translation]:
        """Yield the translation of each segment, with its alternatives."""
        pairs = [(s, h) for s, some in zip(segments, found, strict=True) for h in some]
        tokenizer = self._tokenizers.target
        texts = tokenizer.decode_batch([h.content for _, h in pairs], self._threads)
        again = tokenizer.encode_batch(texts, self._threads)
        forced = self._forced(pairs, options)
        columns = zip(pairs, texts, again, forced, strict=True)
        described = (
            self._translation(Found(*pair, text, ids, seen), options)
            for pair, text, ids, seen in columns
        )
        for hypotheses in found:
            if not hypotheses:
                yield Translation("", 0.0, 0.0, error=NOTHING)
                continue
            best, *others = (next(described) for _ in hypotheses)
            yield replace(best, alternatives=tuple(others)) if others else best

    def _forced(
        self, pairs: Sequence[tuple[Segment, Hypothesis]], options: TranslationOptions
    ) -> Sequence[Forced | None]:
        """Ask the model again where the search did not tell: where it looked, or each token."""
        silent = any(not hypothesis.token_log_probs for _, hypothesis in pairs)
        if not options.alignment and not (options.token_scores and silent):
            return [None] * len(pairs)
        targets = [(segment.ids, hypothesis.tokens) for segment, hypothesis in pairs]
        return self._engine.force(targets, attention=options.alignment)

    def _translation(self, found: Found, options: TranslationOptions) -> Translation:
        segment, hypothesis, text = found.segment, found.hypothesis, found.text
        ids = list(hypothesis.content)
        case = Case(
            source=segment.span.text,
            text=text,
            source_ids=segment.ids,
            ids=ids,
            finished=hypothesis.finished,
            same_language=self._same_language,
            unknown=self._has_unknown(segment.ids, ids),
            again=found.again,
        )
        return Translation(
            text,
            hypothesis.score,
            hypothesis.log_prob,
            tokens=self._tokens(found) if options.token_scores else (),
            alignment=self._links(found) if options.alignment else (),
            flags=tuple(flags(case)),
            unmet=self._wishes.unmet(segment.span.text, text) if self._wishes else (),
        )

    def _has_unknown(self, source: Sequence[int], target: Sequence[int]) -> bool:
        """Tell of characters without a piece. Bytes of the target are what the model chose to
        write; those of the source it has hardly ever seen, and leaves out."""
        own, other = self._tokenizers.source, self._tokenizers.target
        is_lost = own.specials.unk in source or not self._bytes.isdisjoint(source)
        return is_lost or other.specials.unk in target

    def _tokens(self, found: Found) -> tuple[Token, ...]:
        own = found.hypothesis.token_log_probs or (found.forced.log_probs if found.forced else ())
        return tokens(self._tokenizers.target, found.hypothesis.tokens, own, found.text)

    def _links(self, found: Found) -> tuple[Link, ...]:
        assert found.forced is not None
        assert found.forced.attention_ES is not None
        segment, ids = found.segment, found.hypothesis.content
        first = int(self._engine.framing.source_start is not None)
        attention_ES = found.forced.attention_ES[:, first : first + len(segment.ids)]
        return links(
            self._tokenizers, (segment.span.text, segment.ids), (found.text, ids), attention_ES
        )


def tokens(
    tokenizer: Tokenizer, ids: Sequence[int], log_probs: Sequence[float], text: str
) -> tuple[Token, ...]:
    """Return each id as a token with its place; one that has no text, such as the stop symbol,
    stands behind what came before."""
    spans = piece_spans(tokenizer, ids, text)
    columns = zip(ids, log_probs, spans, strict=True)
    return tuple(Token(tokenizer.pieces[i], own, *span) for i, own, span in columns)
