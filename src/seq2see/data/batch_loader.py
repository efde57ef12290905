"""Batches as padded tensors, and the loader that yields the batches of each update.

The batches of an update do not depend on the number of workers; each worker gets a share of every
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.data.batch_sampler import (
    START_POSITION,
    BatchSampler,
    DataPosition,
    SampledPairIndices,
    UpdateBatches,
)
from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.errors import Problem
from seq2see.text import BOS_ID, EOS_ID, PAD_ID, PackedIds
from seq2see.text.packed_ids import IntArray

# B batch size, S source length, T target length


class BatchConfig(Config):
    """Batch size and length limits."""

    max_tokens: int = Field(default=4096, ge=1)
    """Maximum number of tokens per batch over all processes, counting source, target and
    padding."""
    max_length: int = Field(default=256, ge=1)
    """Maximum number of tokens per sentence. Longer pairs are skipped; their number is printed."""
    subword_dropout: float = Field(default=0.0, ge=0, le=1)
    """Probability of skipping a BPE merge (or of dropping a unigram piece), drawn anew in each
    epoch. Batches may then exceed `max_tokens`. 0 disables it."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if a pair of maximum length would exceed the tokens of a batch."""
        min_tokens = 2 * (self.max_length + 1)
        if self.max_tokens < min_tokens:
            yield Problem(
                "max_tokens",
                f"must be at least {min_tokens}, twice `max_length` "
                f"({self.max_length}) plus EOS, but is {self.max_tokens} instead",
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of pairs as padded tensors; it may be empty."""

    source_BS: Tensor
    """Source ids with EOS, padded at the end."""
    target_BT: Tensor
    """BOS, target ids and EOS, padded at the end."""

    @classmethod
    def from_packed_ids(cls, source: PackedIds, target: PackedIds) -> Batch:
        """Build a batch from ids without BOS and EOS."""
        return cls(
            torch.from_numpy(_pad(source, bos=False)), torch.from_numpy(_pad(target, bos=True))
        )

    def __len__(self) -> int:
        return len(self.source_BS)

    @property
    def decoder_input_BT(self) -> Tensor:
        """The target without EOS; it has one position per label."""
        return self.target_BT[:, :-1].masked_fill(self.labels_BT == PAD_ID, PAD_ID)

    @property
    def labels_BT(self) -> Tensor:
        """The token to predict at each position of the decoder input."""
        return self.target_BT[:, 1:]

    def duplicate_pairs(self) -> Batch:
        """Return a batch with all pairs, followed by all pairs again."""
        return Batch(self.source_BS.repeat(2, 1), self.target_BT.repeat(2, 1))

    @property
    def num_source_tokens(self) -> int:
        """Number of source tokens without padding."""
        return int(self.source_BS.ne(PAD_ID).sum())

    @property
    def num_target_tokens(self) -> int:
        """Number of labels without padding."""
        return int(self.labels_BT.ne(PAD_ID).sum())


def _pad(sentences: PackedIds, bos: bool) -> IntArray:
    """Return sentences as a padded matrix with EOS and, if `bos` is set, BOS."""
    ids, lengths = sentences
    width = int(lengths.max(initial=0)) + 1 + bos
    positions = np.arange(width) - bos
    padded = np.full((len(lengths), width), PAD_ID, dtype=np.int64)
    padded[(positions >= 0) & (positions < lengths[:, None])] = ids
    padded[np.arange(len(lengths)), lengths + bos] = EOS_ID
    if bos:
        padded[:, 0] = BOS_ID
    return padded


class BatchLoader:
    """Builds the batches of one worker from the indices of a sampler. It has no state."""

    def __init__(
        self,
        corpora: Sequence[EncodedCorpus],
        sampler: BatchSampler,
        rank: int = 0,
        world_size: int = 1,
        subword_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Create the loader of the worker with a rank, from 0.

        With `subword_dropout`, the text is segmented at random in each pass.
        """
        assert 0 <= rank < world_size
        self._corpora = corpora
        self._sampler = sampler
        # Workers take the pairs of a batch in turn, so that their shares have similar lengths.
        self._share = slice(rank, None, world_size)
        self._subword_dropout = subword_dropout
        self._seed = seed
        self._first_lines = np.cumsum([0, *map(len, corpora)]).tolist()

    def updates(self, start: DataPosition = START_POSITION) -> Iterator[UpdateBatches[Batch]]:
        """Yield updates without end, beginning at a position.

        All workers have the same number of batches; a batch is empty if it has too few pairs.
        """
        for batches, epoch, next_position in self._sampler.updates(start):
            own = [self._build_batch(pairs.take(self._share)) for pairs in batches]
            yield UpdateBatches(own, epoch, next_position)

    def _build_batch(self, pairs: SampledPairIndices) -> Batch:
        if len(self._corpora) == 1 or not len(pairs.line_indices):
            return Batch.from_packed_ids(*self._look_up(0, pairs))
        numbers = np.unique(pairs.corpus_indices).tolist()
        found = [self._look_up(n, pairs.take(pairs.corpus_indices == n)) for n in numbers]
        return Batch.from_packed_ids(*map(PackedIds.concatenate, zip(*found, strict=True)))

    def _look_up(self, number: int, pairs: SampledPairIndices) -> tuple[PackedIds, PackedIds]:
        """Return the ids of pairs of one corpus."""
        corpus, lines = self._corpora[number], pairs.line_indices
        if not self._subword_dropout:
            return corpus.take(lines)
        options = self._subword_dropout, self._seed
        first_line = self._first_lines[number]
        sampled = [
            corpus.resample_subwords(line, *options, pass_index, first_line)
            for line, pass_index in zip(lines.tolist(), pairs.pass_indices.tolist(), strict=True)
        ]
        sources, targets = zip(*sampled, strict=True) if sampled else ((), ())
        return PackedIds.from_lists(sources), PackedIds.from_lists(targets)
