"""Splits lines into segments, and merges the translations of the segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from seq2see.errors import InputError
from seq2see.text import (
    TextSpan,
    Tokenizer,
    replace_sentence_spans,
    split_long_sentence,
    split_sentences,
)
from seq2see.text.languages import is_written_without_spaces
from seq2see.text.normalization import check_surrogates
from seq2see.translator.options import SplitMode
from seq2see.translator.translation import (
    AlignmentLink,
    ScoredToken,
    SentencePairOffsets,
    Translation,
    TranslationFlag,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A unit of translation: a line, or a sentence of a line."""

    span: TextSpan
    ids: list[int]


@dataclass(frozen=True, slots=True)
class SegmentedLine:
    """A line with its segments: one, several if it was split, or none if it is blank."""

    text: str
    segments: list[Segment] = field(default_factory=list)
    error: str | None = None
    """Why the line cannot be translated."""


@dataclass(frozen=True, slots=True)
class LineSplitter:
    """Splits lines into segments that are not too long for the model."""

    tokenizer: Tokenizer
    languages: tuple[str, str]
    max_tokens: int
    """Maximum number of tokens of a segment."""
    split_mode: SplitMode
    threads: int = 1

    def split(self, lines: Sequence[str]) -> list[SegmentedLine]:
        """Return each line with its segments, or with an error."""
        errors = [_find_error(line) for line in lines]
        valid = [line for line, error in zip(lines, errors, strict=True) if error is None]
        ids = iter(self.tokenizer.encode_batch(valid, self.threads))
        return [
            self._split_line(line, next(ids)) if error is None else SegmentedLine(line, error=error)
            for line, error in zip(lines, errors, strict=True)
        ]

    def _split_line(self, text: str, ids: list[int]) -> SegmentedLine:
        if not ids or text.isspace():
            return SegmentedLine(text)
        if self.split_mode == "always" or (
            len(ids) > self.max_tokens and self.split_mode == "long"
        ):
            return SegmentedLine(text, list(self._split_sentences(text)))
        if len(ids) > self.max_tokens:
            return SegmentedLine(
                text,
                error=f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}; "
                "set `split` to long or always instead of never",
            )
        return SegmentedLine(text, [Segment(TextSpan(text, 0), ids)])

    def _split_sentences(self, text: str) -> Iterator[Segment]:
        for sentence in split_sentences(text, self.languages[0]):
            for span in split_long_sentence(sentence, self.max_tokens, self._count_tokens):
                if ids := self.tokenizer.encode(span.text):
                    yield Segment(span, ids)

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text))

    def merge(
        self,
        line: SegmentedLine,
        parts: Sequence[Translation],
        token_counts: Sequence[Sequence[int]],
    ) -> Translation:
        """Return the translation of a line from the translations of its segments.

        `token_counts` has the number of tokens of each translation, then of its alternatives.
        """
        if line.error is not None:
            return Translation("", 0.0, 0.0, error=line.error)
        if not parts:
            return Translation(line.text, 0.0, 0.0)
        num_alternatives = max(len(part.alternatives) for part in parts)
        best, *others = (
            self._merge_parts(
                line,
                [_select_rank(part, rank) for part in parts],
                [counts[rank if rank < len(counts) else 0] for counts in token_counts],
            )
            for rank in range(num_alternatives + 1)
        )
        return replace(best, alternatives=tuple(others)) if others else best

    def _merge_parts(
        self, line: SegmentedLine, parts: Sequence[Translation], token_counts: Sequence[int]
    ) -> Translation:
        errors = [part.error for part in parts if part.error]
        if errors:
            return Translation("", 0.0, 0.0, error=errors[0])
        spans = [segment.span for segment in line.segments]
        if len(spans) == 1 and spans[0].start == 0:  # most lines: all offsets are right already
            (part,) = parts
            unmet = tuple(dict.fromkeys(part.unmet_constraints))
            sentences = (_align_sentence(part, spans[0], 0),)
            return replace(part, alternatives=(), unmet_constraints=unmet, sentences=sentences)
        first = spans[0].start
        relative = [TextSpan(span.text, span.start - first) for span in spans]
        source = line.text[first : spans[-1].end]
        text = replace_sentence_spans(
            source, relative, [part.text for part in parts], self._separator
        )
        starts = _find_starts(text, [part.text for part in parts])
        shifted = [
            _shift_offsets(p, s.start, t) for p, s, t in zip(parts, spans, starts, strict=True)
        ]
        return Translation(
            text,
            _weighted_mean([part.score for part in parts], token_counts),
            sum(part.log_prob for part in parts),
            tokens=tuple(token for tokens, _ in shifted for token in tokens),
            alignment=tuple(link for _, links in shifted for link in links),
            flags=tuple(
                flag for flag in TranslationFlag if any(flag in part.flags for part in parts)
            ),
            unmet_constraints=tuple(
                dict.fromkeys(unmet for part in parts for unmet in part.unmet_constraints)
            ),
            sentences=tuple(map(_align_sentence, parts, spans, starts)),
        )

    @property
    def _separator(self) -> str:
        """Text between two sentences that are not separated in the source, as in Chinese."""
        source, target = map(is_written_without_spaces, self.languages)
        return " " if source and not target else ""


def _find_error(line: str) -> str | None:
    """Return why a line is not valid text, or None."""
    if not isinstance(line, str):
        return f"a line must be a string, but is {type(line).__name__} instead"
    try:
        check_surrogates(line)
    except InputError as error:
        return str(error)
    return None


def _select_rank(part: Translation, rank: int) -> Translation:
    """Return the alternative with this rank, or the best translation if there is none."""
    return part.alternatives[rank - 1] if 0 < rank <= len(part.alternatives) else part


def _weighted_mean(scores: Sequence[float], weights: Sequence[int]) -> float:
    if len(scores) == 1:
        return scores[0]  # bit-exact
    total = sum(score * weight for score, weight in zip(scores, weights, strict=True))
    return total / sum(weights)


def _align_sentence(part: Translation, span: TextSpan, start: int) -> SentencePairOffsets:
    end = start + len(part.text)
    return SentencePairOffsets(
        span.start, span.end, start, end, part.log_prob, part.flags, part.unmet_constraints
    )


def _find_starts(text: str, parts: Sequence[str]) -> list[int]:
    """Return the offset of each part in the joined text."""
    starts, offset = [], 0
    for part in parts:
        offset = text.index(part, offset)
        starts.append(offset)
        offset += len(part)
    return starts


def _shift_offsets(
    part: Translation, source: int, target: int
) -> tuple[list[ScoredToken], list[AlignmentLink]]:
    """Return the tokens and links of a segment with offsets in the line."""
    tokens = [replace(t, start=t.start + target, end=t.end + target) for t in part.tokens]
    links = [
        AlignmentLink(
            link.source_start + source,
            link.source_end + source,
            link.target_start + target,
            link.target_end + target,
            link.weight,
        )
        for link in part.alignment
    ]
    return tokens, links
