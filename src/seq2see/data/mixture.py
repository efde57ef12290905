"""Which pairs an epoch has: several corpora, each as often as its weight says, all shuffled.

Each corpus is an endless stream, one shuffle of its lines behind the other. An epoch takes
`weight` shuffles of it: with weight 1 each line once, with 2 twice, with 0.5 one half of the lines,
and the other half in the next epoch. Nothing is stored; see `shuffle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from seq2see.data.shuffle import Permutation
from seq2see.errors import InputError

Ints = NDArray[np.int64]

_ORDER, _LINES = 1, 2  # so that no two shuffles have the same key


@dataclass(frozen=True, slots=True)
class Draw:
    """Some pairs of an epoch, each by its corpus, its line there (from 0), and its turn."""

    corpus: Ints
    line: Ints
    turn: Ints
    """How often the corpus was gone through before; with weight 1 this is the epoch."""

    def __len__(self) -> int:
        return len(self.line)

    def take(self, index: Ints | slice) -> Draw:
        """Return some of them."""
        return Draw(self.corpus[index], self.line[index], self.turn[index])


class Mixture:
    """The pairs of each epoch, in their order."""

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        if not any(sizes):
            raise InputError("there must be at least one pair to learn from, but there is none")
        self._sizes = sizes
        self._shares = [  # as fractions: floats would drift
            size * Fraction(weight) for size, weight in zip(sizes, weights, strict=True)
        ]
        # Of every share the first epoch has the whole pairs alone: no later one has fewer.
        if min(weights) <= 0 or not self.count(0):
            raise InputError(
                f"weights must give each epoch a pair at least, but {list(weights)} for "
                f"{list(sizes)} pairs do not"
            )
        self._seed = seed

    def count(self, epoch: int) -> int:
        """Return how many pairs the epoch has."""
        return sum(end - start for start, end in self._parts(epoch))

    def draw(self, epoch: int, places: Ints) -> Draw:
        """Return the pairs at these places of the epoch's order."""
        parts = self._parts(epoch)
        bounds = np.cumsum([0] + [end - start for start, end in parts])
        shuffled = Permutation(int(bounds[-1]), self._seed, _ORDER, epoch)(places)
        corpus = np.searchsorted(bounds, shuffled, side="right") - 1
        starts = np.array([start for start, _ in parts])
        stream = shuffled - bounds[corpus] + starts[corpus]
        return self._lines(corpus, stream)

    def _parts(self, epoch: int) -> list[tuple[int, int]]:
        """Return the part of each corpus' stream that the epoch takes."""
        return [(int(share * epoch), int(share * (epoch + 1))) for share in self._shares]

    def _lines(self, corpus: Ints, stream: Ints) -> Draw:
        """Look places of the streams up in the shuffles that they are made of."""
        turn = stream // np.maximum(1, np.array(self._sizes))[corpus]
        line = np.empty_like(stream)
        order = np.lexsort((turn, corpus))
        changes = np.flatnonzero(np.diff(corpus[order]) | np.diff(turn[order])) + 1
        for here in np.split(order, changes):
            if len(here):
                number, size = int(corpus[here[0]]), self._sizes[corpus[here[0]]]
                shuffle = Permutation(size, self._seed, _LINES, number, int(turn[here[0]]))
                line[here] = shuffle(stream[here] % size)
        return Draw(corpus, line, turn)
