"""Splits blocks that are too long for the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seq2see.text import TextSpan, Tokenizer, split_long_sentence, split_sentences
from seq2see.translator.translation import Translation, TranslationOptions


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
    prefix: str = ""
    """Text that its translation starts with."""


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
    language: str
    max_tokens: int
    """Maximum number of tokens of a segment."""
    threads: int
    """Number of threads of the tokenizer."""

    def split(self, blocks: Sequence[Block], *, can_split: bool) -> list[SegmentedBlock]:
        """Return each block with its segments.

        Without `can_split`, a block that is too long has an error instead.
        """
        ids = self.tokenizer.encode_batch([block.text for block in blocks], self.threads)
        return [
            self._split_block(block, own, can_split=can_split)
            for block, own in zip(blocks, ids, strict=True)
        ]

    def _split_block(self, block: Block, ids: list[int], *, can_split: bool) -> SegmentedBlock:
        if len(ids) <= self.max_tokens:
            segments = [SourceSegment(TextSpan(block.text, 0), ids, block.prefix)] if ids else []
            return SegmentedBlock(block, segments)
        if can_split:
            return SegmentedBlock(block, list(self._find_segments(block)))
        limit = f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}"
        return SegmentedBlock(
            block, error=f"{limit}; set `split` to auto or always instead of never"
        )

    def _find_segments(self, block: Block) -> Iterator[SourceSegment]:
        prefix = block.prefix  # of the first segment only
        for sentence in split_sentences(block.text, self.language):
            for span in split_long_sentence(sentence, self.max_tokens, self._count_tokens):
                if ids := self.tokenizer.encode(span.text):
                    yield SourceSegment(span, ids, prefix)
                    prefix = ""

    def _count_tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text))
