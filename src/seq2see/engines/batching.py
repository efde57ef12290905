"""Sentences to batches: those of similar length together, each with its ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2see.bundle import Framing
from seq2see.text import PAD_ID

# B sentences, S source tokens

FRAMING: Framing = Framing()
"""The ends of our own models."""


def by_length(lengths: Sequence[int], budget: int, most: int | None = None) -> Iterator[list[int]]:
    """Yield places whose lengths are similar, longest first, as many as fit into the budget."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    while order:
        count = max(1, budget // max(1, lengths[order[0]]))
        count = count if most is None else min(count, most)
        yield order[:count]
        order = order[count:]


def framed(sentence: Sequence[int], framing: Framing = FRAMING) -> list[int]:
    """Return a source as the model reads it, with what stands around it."""
    ends = [framing.source_start], [framing.source_end]
    start, end = ([i for i in part if i is not None] for part in ends)
    return [*start, *sentence, *end]


def padded(
    sentences: Sequence[Sequence[int]], framing: Framing = FRAMING, pad: int = PAD_ID
) -> Tensor:
    """Return sources with their ends as a batch, [B, S]."""
    return filled([framed(sentence, framing) for sentence in sentences], pad)


def filled(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Return rows of ids as a tensor, the shorter ones filled up."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
