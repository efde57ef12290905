"""Splits blocks that are too long for the model, and merges the translations of the segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seq2see.text import TextSpan, Tokenizer, split_long_sentence, split_sentences
from seq2see.text.languages import find_sentence_separator
from seq2see.translator.translation import Translation, TranslationOptions, join_translations


@dataclass(frozen=True, slots=True)
class Block:
    """Text that is translated at once if it is not too long: a line, or a sentence."""

    text: str
    prefix: str = ""
    """Text that the translation starts with."""


BlockTranslationFunction = Callable[[Sequence[Block], TranslationOptions], list[Translation]]
"""Translates blocks in order. It ignores `prefix` of the options; each block has its own."""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """Text that the model gets, with its ids: a block, or a part of one that is too long."""

    span: TextSpan
    ids: list[int]


@dataclass(frozen=True, slots=True)
class SegmentedBlock:
    """A block with its segments: one, several if it is too long, or none if it has no tokens."""

    block: Block
    segments: list[SourceSegment] = field(default_factory=list)
    error: str | None = None
    """Why the block cannot be translated."""


@dataclass(frozen=True, slots=True)
class BlockSplitter:
    """Splits blocks into segments that are not too long for the model."""

    tokenizer: Tokenizer
    languages: tuple[str, str]
    max_tokens: int
    """Maximum number of tokens of a segment."""
    can_split: bool
    """Whether blocks that are too long are split; otherwise they are errors."""
    threads: int = 1
    """Number of threads of the tokenizer."""

    def split(self, blocks: Sequence[Block]) -> list[SegmentedBlock]:
        """Return each block with its segments, or with an error."""
        ids = self.tokenizer.encode_batch([block.text for block in blocks], self.threads)
        return [self._split_block(block, own) for block, own in zip(blocks, ids, strict=True)]

    def _split_block(self, block: Block, ids: list[int]) -> SegmentedBlock:
        if len(ids) <= self.max_tokens:
            segments = [SourceSegment(TextSpan(block.text, 0), ids)] if ids else []
            return SegmentedBlock(block, segments)
        if self.can_split:
            return SegmentedBlock(block, list(self._find_segments(block.text)))
        limit = f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}"
        return SegmentedBlock(
            block, error=f"{limit}; set `split` to auto or always instead of never"
        )

    def _find_segments(self, text: str) -> Iterator[SourceSegment]:
        for sentence in split_sentences(text, self.languages[0]):
            for span in split_long_sentence(sentence, self.max_tokens, self._count_tokens):
                if ids := self.tokenizer.encode(span.text):
                    yield SourceSegment(span, ids)

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text))


def merge_translations(
    segmented: SegmentedBlock, parts: Sequence[Translation], languages: tuple[str, str]
) -> Translation:
    """Return the translation of a block from the translations of its segments."""
    text = segmented.block.text
    if segmented.error is not None:
        return Translation("", 0.0, 0.0, error=segmented.error)
    if not parts:
        return Translation(text, 0.0, 0.0)
    spans = [segment.span for segment in segmented.segments]
    if len(spans) == 1 and spans[0].text == text:  # most blocks: all offsets are right already
        return parts[0]
    separator = find_sentence_separator(*languages)
    return join_translations(text, spans, parts, separator=separator)
