"""The batches of each update, for one worker of several, from any position on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seq2see.data.batches import Batch, Packed
from seq2see.data.encoded import EncodedCorpus
from seq2see.data.mixture import Draw
from seq2see.data.plan import BEGINNING, Plan, Position
from seq2see.errors import InputError

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
    """Makes the batches that a plan deals out to a worker. It has no state."""

    def __init__(
        self,
        corpora: Sequence[EncodedCorpus],
        plan: Plan,
        lookup: Lookup = stored,
        shard: Shard = ALONE,
    ) -> None:
        if plan.parts % shard.workers:
            raise InputError(
                f"the batches of an update must be a multiple of the {shard.workers} workers, "
                f"but are {plan.parts} instead"
            )
        self._corpora = corpora
        self._plan = plan
        self._lookup = lookup
        self._shard = shard

    def updates(self, start: Position = BEGINNING) -> Iterator[Update]:
        """Yield updates without end, from a position on."""
        for draws, epoch, after in self._plan.rounds(start):
            mine = draws[self._shard.rank :: self._shard.workers]
            yield Update([self._batch(draw) for draw in mine], epoch, after)

    def _batch(self, draw: Draw) -> Batch:
        sources, targets = [], []
        for number in np.unique(draw.corpus) if len(draw) else [0]:
            here = draw.take(draw.corpus == number)
            source, target = self._lookup(self._corpora[number], here)
            sources.append(source)
            targets.append(target)
        return Batch.of(Packed.joined(sources), Packed.joined(targets))
