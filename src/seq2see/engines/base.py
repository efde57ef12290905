"""The interface that every inference engine implements, and its result types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2see.bundle import SpecialTokens
from seq2see.search import Hypothesis, SearchConfig, SearchInput, StepProcessor, StopRule

# E emitted tokens with the stop symbol, S source tokens with their ends

TokenIds = Sequence[int]


ProcessorFactory = Callable[[Sequence[SearchInput], torch.device], Sequence[StepProcessor]]
"""Makes further processors for the sources of a batch."""


@dataclass(frozen=True, slots=True)
class TargetScores:
    """What the model thinks of a target that was given."""

    log_probs: tuple[float, ...]
    """One for each token."""
    attention_ES: Tensor | None
    """How much each token's step looked at each source token, if that was asked for."""


class BatchResult(NamedTuple):
    """Some sentences of a search, and their translations."""

    indices: Sequence[int]
    """Where they stand among all that are searched."""
    hypotheses: Sequence[list[Hypothesis]]
    """The translations of each, best first."""


class Engine(Protocol):
    """Ids in, hypotheses out. The sources come in any order and number, without their ends."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def special_tokens(self) -> SpecialTokens:
        """Which ids stand around a sentence."""

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Return a search with all that was left to the model."""

    def search(
        self,
        source_ids: Sequence[TokenIds],
        inputs: Sequence[SearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
    ) -> Iterator[BatchResult]:
        """Search, and yield batch after batch, each as soon as it is there."""

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return what the model thinks of each target: emitted tokens, as a hypothesis has them."""


def collect_in_order(batches: Iterable[BatchResult]) -> list[list[Hypothesis]]:
    """Return the translations of all sentences of a search, in the order of the sentences."""
    found = {
        place: hypotheses for batch in batches for place, hypotheses in zip(*batch, strict=True)
    }
    return [found[place] for place in range(len(found))]


def resolve_search_config(
    config: SearchConfig, stop_rule: StopRule, max_positions: int | None
) -> SearchConfig:
    """Return a search with this stop rule, if it names none, and no longer than the positions."""
    if max_positions is not None and config.length.max_length > max_positions:
        config = config.replace(length=config.length.replace(max_length=max_positions))
    return config if config.stop_rule else config.replace(stop_rule=stop_rule)
