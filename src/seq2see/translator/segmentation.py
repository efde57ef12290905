"""Splits lines into segments, and merges the translations of the segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seq2see.errors import InputError
from seq2see.text import (
    TextSpan,
    Tokenizer,
    split_long_sentence,
    split_sentences,
)
from seq2see.text.languages import find_sentence_separator
from seq2see.text.normalization import check_surrogates
from seq2see.translator.translation import SplitMode, Translation, join_translations


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A unit of translation: a line, or a sentence of a line."""

    span: TextSpan
    ids: list[int]


@dataclass(frozen=True, slots=True)
class SegmentedLine:
    """A line with its segments: one, several if it was split, or none if it is blank."""

    text: str
    segments: list[SourceSegment] = field(default_factory=list)
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
    """Number of threads of the tokenizer."""

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
        is_long = len(ids) > self.max_tokens
        if self.split_mode == "always" or (is_long and self.split_mode == "long"):
            return SegmentedLine(text, list(self._split_sentences(text)))
        if is_long:
            limit = f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}"
            hint = "set `split` to long or always instead of never"
            return SegmentedLine(text, error=f"{limit}; {hint}")
        return SegmentedLine(text, [SourceSegment(TextSpan(text, 0), ids)])

    def _split_sentences(self, text: str) -> Iterator[SourceSegment]:
        for sentence in split_sentences(text, self.languages[0]):
            for span in split_long_sentence(sentence, self.max_tokens, self._count_tokens):
                if ids := self.tokenizer.encode(span.text):
                    yield SourceSegment(span, ids)

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text))


def merge_translations(
    line: SegmentedLine, parts: Sequence[Translation], languages: tuple[str, str]
) -> Translation:
    """Return the translation of a line from the translations of its segments."""
    if line.error is not None:
        return Translation("", 0.0, 0.0, error=line.error)
    if not parts:
        return Translation(line.text, 0.0, 0.0)
    spans = [segment.span for segment in line.segments]
    if len(spans) == 1 and spans[0].start == 0:  # most lines: all offsets are right already
        return parts[0]
    text, separator = line.text[: spans[-1].end], find_sentence_separator(*languages)
    return join_translations(text, spans, parts, start=spans[0].start, separator=separator)


def _find_error(line: str) -> str | None:
    """Return why a line is not valid text, or None."""
    if not isinstance(line, str):
        return f"a line must be a string, but is {type(line).__name__} instead"
    try:
        check_surrogates(line)
    except InputError as error:
        return str(error)
    return None
