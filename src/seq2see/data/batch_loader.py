"""Batches as padded tensors, and the loader that yields the batches of each update."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.data.batch_sampler import START_POSITION, BatchSampler, DataPosition, PairIndices
from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.text import BOS_ID, EOS_ID, PAD_ID, PackedIds

# B sentences of a batch, S source tokens, T target tokens

IntArray = NDArray[np.int64]


class BatchConfig(Config):
    """How many tokens go together."""

    max_tokens: int = Field(default=4096, ge=1)
    """Tokens of a batch: source, target and padding, over all workers, which share it."""
    max_length: int = Field(default=256, ge=1)
    """Pairs with more pieces on a side are left out, and counted."""
    subword_dropout: float = Field(default=0.0, ge=0, le=1)
    """How often a merge of pieces is skipped, so that each epoch cuts words differently. The
    budget counts the usual cut, so such a batch may be larger."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a budget that the longest pair would break."""
        least = 2 * (self.max_length + 1)
        if self.max_tokens < least:
            yield (
                f"`max_tokens` must be at least {least} for pairs of `max_length` {self.max_length} "
                f"with their ends, but is {self.max_tokens} instead"
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences as the model takes them. There may be none."""

    source_BS: Tensor
    """Pieces and EOS, padded at the end."""
    target_BT: Tensor
    """BOS, pieces and EOS, padded at the end."""

    @classmethod
    def from_packed_ids(cls, source: PackedIds, target: PackedIds) -> Batch:
        """Make a batch of ids without BOS and EOS."""
        return cls(
            torch.from_numpy(_padded(source, bos=False)),
            torch.from_numpy(_padded(target, bos=True)),
        )

    def __len__(self) -> int:
        return len(self.source_BS)

    @property
    def decoder_input_BT(self) -> Tensor:
        """The target without its EOS: a place for each label."""
        return self.target_BT[:, :-1].masked_fill(self.labels_BT == PAD_ID, PAD_ID)

    @property
    def labels_BT(self) -> Tensor:
        """What is to be predicted at each place of the decoder's input."""
        return self.target_BT[:, 1:]

    def duplicate_pairs(self) -> Batch:
        """Return every pair, and behind them every pair once more."""
        return Batch(self.source_BS.repeat(2, 1), self.target_BT.repeat(2, 1))

    @property
    def num_positions(self) -> int:
        """Tokens of source and decoder input, padding included."""
        return self.source_BS.numel() + self.labels_BT.numel()

    @property
    def num_source_tokens(self) -> int:
        """Tokens of the sources without padding."""
        return int(self.source_BS.ne(PAD_ID).sum())

    @property
    def num_target_tokens(self) -> int:
        """Labels without padding."""
        return int(self.labels_BT.ne(PAD_ID).sum())

    @property
    def num_tokens(self) -> int:
        """Tokens of source and target without padding."""
        return self.num_source_tokens + self.num_target_tokens


def _padded(sentences: PackedIds, bos: bool) -> IntArray:
    """Lay sentences out in a rectangle, each with its ends."""
    ids, lengths = sentences
    width = int(lengths.max(initial=0)) + 1 + bos
    places = np.arange(width) - bos
    padded = np.full((len(lengths), width), PAD_ID, dtype=np.int64)
    padded[(places >= 0) & (places < lengths[:, None])] = ids
    padded[np.arange(len(lengths)), lengths + bos] = EOS_ID
    if bos:
        padded[:, 0] = BOS_ID
    return padded


PackedIdsPair = tuple[PackedIds, PackedIds]
"""Sources and targets."""


PairLookup = Callable[[EncodedCorpus, PairIndices], PackedIdsPair]
"""Finds the ids of pairs of one corpus."""


class WorkerShard(NamedTuple):
    """Which worker this is, from 0, and of how many."""

    rank: int = 0
    world_size: int = 1


SINGLE_WORKER = WorkerShard()


@dataclass(frozen=True, slots=True)
class UpdateBatches:
    """This worker's batches of one update."""

    batches: list[Batch]
    """As many as every other worker has; one is empty if it has fewer pairs than workers."""
    epoch: int
    next_position: DataPosition
    """Going on from here gives the same batches as never having stopped."""


def lookup_encoded_ids(corpus: EncodedCorpus, pairs: PairIndices) -> PackedIdsPair:
    """Return ids as they were encoded."""
    return PackedIds(*corpus.source.take(pairs.line_indices)), PackedIds(
        *corpus.target.take(pairs.line_indices)
    )


@dataclass(frozen=True, slots=True)
class SubwordDropoutLookup:
    """Cuts the text anew in each turn; a function of seed, turn and line, not of history."""

    rate: float
    seed: int

    def __call__(self, corpus: EncodedCorpus, draw: PairIndices) -> PackedIdsPair:
        """Return ids of another cut, or the usual one where the other is too long."""
        pairs = [
            corpus.resample_subwords(int(line), self.rate, self.seed, int(turn))
            for line, turn in zip(draw.line_indices, draw.pass_indices, strict=True)
        ]
        return PackedIds.from_lists([source for source, _ in pairs]), PackedIds.from_lists(
            [target for _, target in pairs]
        )


class BatchLoader:
    """Makes a worker's batches of what a plan puts together. It has no state."""

    def __init__(
        self,
        corpora: Sequence[EncodedCorpus],
        sampler: BatchSampler,
        lookup: PairLookup = lookup_encoded_ids,
        shard: WorkerShard = SINGLE_WORKER,
    ) -> None:
        assert 0 <= shard.rank < shard.world_size
        self._corpora = corpora
        self._plan = sampler
        self._lookup = lookup
        self._shard = shard

    def updates(self, start: DataPosition = START_POSITION) -> Iterator[UpdateBatches]:
        """Yield updates without end, from a position on."""
        # Of each batch every worker takes its pairs in turn, which are as long as the others'.
        share = slice(self._shard.rank, None, self._shard.world_size)
        for draws, epoch, after in self._plan.updates(start):
            yield UpdateBatches([self._batch(draw.take(share)) for draw in draws], epoch, after)

    def _batch(self, draw: PairIndices) -> Batch:
        if len(self._corpora) == 1 or not len(draw):
            return Batch.from_packed_ids(*self._lookup(self._corpora[0], draw))
        sources, targets = [], []
        for number in np.unique(draw.corpus_indices):
            here = draw.take(draw.corpus_indices == number)
            source, target = self._lookup(self._corpora[number], here)
            sources.append(source)
            targets.append(target)
        return Batch.from_packed_ids(PackedIds.concatenate(sources), PackedIds.concatenate(targets))
