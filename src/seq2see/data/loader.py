"""The batches of each update, for one worker of several, from any position on.

The batches of an update are the same whatever the number of workers; each of them gets a share of
every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seq2see.data.batches import Batch
from seq2see.data.encoded import EncodedCorpus
from seq2see.data.mixture import Draw
from seq2see.data.plan import BEGINNING, Plan, Position
from seq2see.text import Packed

Sentences = tuple[Packed, Packed]
"""Sources and targets."""
Lookup = Callable[[EncodedCorpus, Draw], Sentences]
"""Finds the ids of pairs of one corpus."""


class Shard(NamedTuple):
    """Which worker this is, from 0, and of how many."""

    rank: int = 0
    workers: int = 1


ALONE = Shard()


@dataclass(frozen=True, slots=True)
class Update:
    """This worker's batches of one update."""

    batches: list[Batch]
    """As many as every other worker has; one is empty if it has fewer pairs than workers."""
    epoch: int
    after: Position
    """Going on from here gives the same batches as never having stopped."""


def stored(corpus: EncodedCorpus, draw: Draw) -> Sentences:
    """Return ids as they were encoded."""
    return Packed(*corpus.source.gather(draw.line)), Packed(*corpus.target.gather(draw.line))


@dataclass(frozen=True, slots=True)
class Sampled:
    """Cuts the text anew in each turn; a function of seed, turn and line, not of history."""

    rate: float
    seed: int

    def __call__(self, corpus: EncodedCorpus, draw: Draw) -> Sentences:
        """Return ids of another cut, or the usual one where the other is too long."""
        pairs = [
            corpus.sample(int(line), self.rate, self.seed, int(turn))
            for line, turn in zip(draw.line, draw.turn, strict=True)
        ]
        return Packed.of([source for source, _ in pairs]), Packed.of(
            [target for _, target in pairs]
        )


class Loader:
    """Makes a worker's batches of what a plan puts together. It has no state."""

    def __init__(
        self,
        corpora: Sequence[EncodedCorpus],
        plan: Plan,
        lookup: Lookup = stored,
        shard: Shard = ALONE,
    ) -> None:
        assert 0 <= shard.rank < shard.workers
        self._corpora = corpora
        self._plan = plan
        self._lookup = lookup
        self._shard = shard

    def updates(self, start: Position = BEGINNING) -> Iterator[Update]:
        """Yield updates without end, from a position on."""
        # Of each batch every worker takes its pairs in turn, which are as long as the others'.
        share = slice(self._shard.rank, None, self._shard.workers)
        for draws, epoch, after in self._plan.rounds(start):
            yield Update([self._batch(draw.take(share)) for draw in draws], epoch, after)

    def _batch(self, draw: Draw) -> Batch:
        if len(self._corpora) == 1 or not len(draw):
            return Batch.of(*self._lookup(self._corpora[0], draw))
        sources, targets = [], []
        for number in np.unique(draw.corpus):
            here = draw.take(draw.corpus == number)
            source, target = self._lookup(self._corpora[number], here)
            sources.append(source)
            targets.append(target)
        return Batch.of(Packed.joined(sources), Packed.joined(targets))
