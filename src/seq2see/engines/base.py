"""The interface of the engines that a translator uses, and its result types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2see.bundle import StartAndEndTokenIds
from seq2see.search import (
    Hypothesis,
    SearchConfig,
    SearchObserver,
    SentenceSearchInput,
    StepProcessor,
    StopRule,
)

# E target tokens with the end-of-sentence token, S source tokens with the special tokens

TokenIds = Sequence[int]
ProcessorFactory = Callable[[Sequence[SentenceSearchInput], torch.device], Sequence[StepProcessor]]
"""Builds additional step processors for the inputs of one batch, on the given device."""


@dataclass(frozen=True, slots=True)
class TargetScores:
    """Scores that the model assigns to a given target."""

    log_probs: tuple[float, ...]
    """Log-probability of each target token."""
    attention_ES: Tensor | None = None
    """Cross-attention weights of each target token, if they were requested."""


class BatchResult(NamedTuple):
    """Hypotheses of one batch of a search."""

    indices: Sequence[int]
    """Indices of the sentences of this batch in the arguments of `search`."""
    hypotheses: Sequence[list[Hypothesis]]
    """Hypotheses of each sentence, best first."""


class Engine(Protocol):
    """Searches for translations of token ids."""

    @property
    def name(self) -> str:
        """Name of the engine, for users."""

    special_tokens: StartAndEndTokenIds
    """Ids of the tokens that start and end a sequence."""
    stop_rule: StopRule
    """Stop rule of searches whose config has none."""
    max_positions: int | None
    """Maximum number of positions of the model, or None if there is no limit."""

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Return the config with the default stop rule, limited to the positions of the model.

        A translation that reaches the limit is cut there; the others are not affected.
        """
        if self.max_positions is not None and config.length.max_length > self.max_positions:
            config = config.replace(length={"max_length": self.max_positions})
        return config if config.stop_rule else config.replace(stop_rule=self.stop_rule)

    def search(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[BatchResult]:
        """Search for translations, and yield the result of each batch as soon as it is complete.

        The inputs may have any order and number. `observer` receives the steps of all batches that
        torch searches; to observe one sentence, search for it alone.
        """

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return the scores of each target of `pairs` (source ids, target ids).

        Sources are given without special tokens. Targets end with the end-of-sentence token, as
        the tokens of a hypothesis do. With `attention`, the result contains cross-attention
        weights.
        """
