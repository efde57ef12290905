"""The interface that every inference engine implements, and its result types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2see.bundle import Framing
from seq2see.search import Hypothesis, SearchConfig, Source, StepProcessor, Stop

# E emitted tokens with the stop symbol, S source tokens with their ends

Ids = Sequence[int]


Processors = Callable[[Sequence[Source], torch.device], Sequence[StepProcessor]]
"""Makes further processors for the sources of a batch."""


@dataclass(frozen=True, slots=True)
class Forced:
    """What the model thinks of a target that was given."""

    log_probs: tuple[float, ...]
    """One for each token."""
    attention_ES: Tensor | None
    """How much each token's step looked at each source token, if that was asked for."""


class Batch(NamedTuple):
    """Some sentences of a search, and their translations."""

    places: Sequence[int]
    """Where they stand among all that are searched."""
    found: Sequence[list[Hypothesis]]
    """The translations of each, best first."""


class Engine(Protocol):
    """Ids in, hypotheses out. The sources come in any order and number, without their ends."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def framing(self) -> Framing:
        """Which ids stand around a sentence."""

    def resolved(self, config: SearchConfig) -> SearchConfig:
        """Return a search with all that was left to the model."""

    def search(
        self,
        sentences: Sequence[Ids],
        sources: Sequence[Source],
        config: SearchConfig,
        processors: Processors | None = None,
    ) -> Iterator[Batch]:
        """Search, and yield batch after batch, each as soon as it is there."""

    def force(self, pairs: Sequence[tuple[Ids, Ids]], *, attention: bool = False) -> list[Forced]:
        """Return what the model thinks of each target: emitted tokens, as a hypothesis has them."""


def in_order(batches: Iterable[Batch]) -> list[list[Hypothesis]]:
    """Return the translations of all sentences of a search, in the order of the sentences."""
    found = {
        place: hypotheses for batch in batches for place, hypotheses in zip(*batch, strict=True)
    }
    return [found[place] for place in range(len(found))]


def bounded(config: SearchConfig, stop: Stop, longest: int | None) -> SearchConfig:
    """Return a search with this stop rule, if it names none, and no longer than the positions."""
    if longest is not None and config.lengths.max_length > longest:
        config = config.replace(lengths=config.lengths.replace(max_length=longest))
    return config if config.stop else config.replace(stop=stop)
