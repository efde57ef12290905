"""From hypotheses to translations: text, flags, and on request tokens and alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from seq2see.engines.protocol import Engine, Forced
from seq2see.search import Hypothesis
from seq2see.text import Tokenizer, Tokenizers
from seq2see.translator.alignment import links
from seq2see.translator.flags import Case, flags
from seq2see.translator.options import TranslationOptions
from seq2see.translator.segments import Segment
from seq2see.translator.spans import piece_spans
from seq2see.translator.translation import Link, Token, Translation
from seq2see.translator.wishes import Wishes

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
