"""Splits lines into segments, and merges the translations of the segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from seq2see.errors import InputError
from seq2see.text import TextSpan, Tokenizer, join_sentences, split_long_sentence, split_sentences
from seq2see.text.languages import is_written_without_spaces
from seq2see.text.normalization import check_surrogates
from seq2see.translator.translation import (
    AlignmentLink,
    ScoredToken,
    SentenceAlignment,
    SplitMode,
    Translation,
    TranslationFlag,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """What is translated at once: a line, or a sentence of it."""

    span: TextSpan
    ids: list[int]


@dataclass(frozen=True, slots=True)
class SegmentedLine:
    """A line with its segments: one, or several where it was split, or none where it is blank."""

    text: str
    segments: list[Segment] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LineSplitter:
    """Cuts lines into segments that the model can take."""

    tokenizer: Tokenizer
    languages: tuple[str, str]
    max_tokens: int
    """The most tokens of a segment."""
    split_mode: SplitMode
    threads: int = 1

    def split(self, lines: Sequence[str]) -> list[SegmentedLine]:
        """Return each line with its segments, or with the reason why it has none."""
        errors = [_error(line) for line in lines]
        good = [line for line, error in zip(lines, errors, strict=True) if error is None]
        ids = iter(self.tokenizer.encode_batch(good, self.threads))
        return [
            self._line(line, next(ids)) if error is None else SegmentedLine(line, error=error)
            for line, error in zip(lines, errors, strict=True)
        ]

    def _line(self, text: str, ids: list[int]) -> SegmentedLine:
        if not ids or text.isspace():
            return SegmentedLine(text)
        if self.split_mode == "always" or (
            len(ids) > self.max_tokens and self.split_mode == "long"
        ):
            return SegmentedLine(text, list(self._sentences(text)))
        if len(ids) > self.max_tokens:
            return SegmentedLine(
                text,
                error=f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}; "
                "`split` can be long or always instead of never",
            )
        return SegmentedLine(text, [Segment(TextSpan(text, 0), ids)])

    def _sentences(self, text: str) -> Iterator[Segment]:
        for sentence in split_sentences(text, self.languages[0]):
            for span in split_long_sentence(sentence, self.max_tokens, self._count):
                if ids := self.tokenizer.encode(span.text):
                    yield Segment(span, ids)

    def _count(self, text: str) -> int:
        return len(self.tokenizer.encode(text))

    def merge(
        self,
        line: SegmentedLine,
        parts: Sequence[Translation],
        token_counts: Sequence[Sequence[int]],
    ) -> Translation:
        """Return the translation of a line from those of its segments.

        `sizes` are the tokens of each: of its translation, then of its alternatives.
        """
        if line.error is not None:
            return Translation("", 0.0, 0.0, error=line.error)
        if not parts:
            return Translation(line.text, 0.0, 0.0)
        count = max(len(part.alternatives) for part in parts)
        best, *others = (
            self._whole(
                line,
                [_ranked(part, rank) for part in parts],
                [own[rank if rank < len(own) else 0] for own in token_counts],
            )
            for rank in range(count + 1)
        )
        return replace(best, alternatives=tuple(others)) if others else best

    def _whole(
        self, line: SegmentedLine, parts: Sequence[Translation], sizes: Sequence[int]
    ) -> Translation:
        failed = [part.error for part in parts if part.error]
        if failed:
            return Translation("", 0.0, 0.0, error=failed[0])
        spans = [segment.span for segment in line.segments]
        if len(spans) == 1 and spans[0].start == 0:  # short: most lines, and each place is right
            only = parts[0]
            unmet = tuple(dict.fromkeys(only.unmet_constraints))
            sentences = (_sentence(only, spans[0], 0),)
            return replace(only, alternatives=(), unmet_constraints=unmet, sentences=sentences)
        around = spans[0].start
        inner = [TextSpan(span.text, span.start - around) for span in spans]
        source = line.text[around : spans[-1].end]
        text = join_sentences(source, inner, [part.text for part in parts], self._filler)
        starts = _starts(text, [part.text for part in parts])
        moved = [_moved(p, s.start, t) for p, s, t in zip(parts, spans, starts, strict=True)]
        return Translation(
            text,
            _mean([part.score for part in parts], sizes),
            sum(part.log_prob for part in parts),
            tokens=tuple(token for tokens, _ in moved for token in tokens),
            alignment=tuple(link for _, links in moved for link in links),
            flags=tuple(
                flag for flag in TranslationFlag if any(flag in part.flags for part in parts)
            ),
            unmet_constraints=tuple(
                dict.fromkeys(wish for part in parts for wish in part.unmet_constraints)
            ),
            sentences=tuple(map(_sentence, parts, spans, starts)),
        )

    @property
    def _filler(self) -> str:
        """What goes between sentences that nothing separates, as in Chinese."""
        source, target = map(is_written_without_spaces, self.languages)
        return " " if source and not target else ""


def _error(line: str) -> str | None:
    """Return why a line is no text, if it is none."""
    if not isinstance(line, str):
        return f"a line must be a text, but is {type(line).__name__} instead"
    try:
        check_surrogates(line)
    except InputError as error:
        return str(error)
    return None


def _ranked(part: Translation, rank: int) -> Translation:
    """Return the best translation of a sentence, or its alternative of that rank if it has one."""
    return part.alternatives[rank - 1] if 0 < rank <= len(part.alternatives) else part


def _mean(scores: Sequence[float], sizes: Sequence[int]) -> float:
    if len(scores) == 1:
        return scores[0]  # to the last bit
    return sum(score * size for score, size in zip(scores, sizes, strict=True)) / sum(sizes)


def _sentence(part: Translation, span: TextSpan, start: int) -> SentenceAlignment:
    end = start + len(part.text)
    return SentenceAlignment(
        span.start, span.end, start, end, part.log_prob, part.flags, part.unmet_constraints
    )


def _starts(text: str, parts: Sequence[str]) -> list[int]:
    """Return where each part stands in the text that they were joined to."""
    starts, place = [], 0
    for part in parts:
        place = text.index(part, place)
        starts.append(place)
        place += len(part)
    return starts


def _moved(
    part: Translation, source: int, target: int
) -> tuple[list[ScoredToken], list[AlignmentLink]]:
    """Return tokens and links with places in the whole line."""
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
