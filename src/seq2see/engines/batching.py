"""Sentences to batches: those of similar length together, each with its ends."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from seq2see.bundle import SpecialTokens
from seq2see.text import PAD_ID

# B sentences, S source tokens

DEFAULT_SPECIAL_TOKENS: SpecialTokens = SpecialTokens()
"""The ends of our own models."""


def batch_by_length(
    lengths: Sequence[int], max_tokens: int, max_size: int | None = None
) -> Iterator[list[int]]:
    """Yield places whose lengths are similar, longest first, as many as fit into the budget."""
    order = _longest_first(lengths)
    ends = _ends([lengths[place] for place in order], max_tokens, max_size)
    return (order[start:end] for start, end in pairwise((0, *ends)))


def build_balanced_batches(
    lengths: Sequence[int], max_tokens: int, max_size: int | None, threads: int, step_cost: int
) -> list[list[int]]:
    """Return batches as `by_length` yields them, but so that workers who share them end together.

    If there is one for each, all get as many. All are about as much work: that of their tokens, and
    with each step, of which there are about as many as the longest has tokens, that of `step_cost`
    tokens.
    """
    order = _longest_first(lengths)
    sizes = [lengths[place] for place in order]
    ends = [*_ends(sizes, max_tokens, max_size)]
    if threads > 1 and len(ends) > 1:
        count = -(-len(ends) // threads) * threads if len(ends) > threads else len(ends)
        low, high = 0, sum(sizes) + step_cost * sizes[0]
        while high - low > 1:
            middle = (low + high) // 2
            tried = [*_ends(sizes, max_tokens, max_size, middle, step_cost)]
            if len(tried) > count:
                low = middle
            else:
                high, ends = middle, tried
    return [order[start:end] for start, end in pairwise((0, *ends))]


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda place: -lengths[place])


def _ends(
    sizes: Sequence[int],
    budget: int,
    most: int | None = None,
    work: int | None = None,
    step_cost: int = 0,
) -> Iterator[int]:
    """Yield where each batch ends, one behind its last: as long as it can be, one at least."""
    sums, start = [0, *accumulate(sizes)], 0
    while start < len(sizes):
        longest = max(1, sizes[start])
        limits = [len(sizes), start + budget // longest]
        if most is not None:
            limits.append(start + most)
        if work is not None:
            limits.append(bisect_right(sums, sums[start] + work - step_cost * longest) - 1)
        start = max(start + 1, min(limits))
        yield start


def add_special_tokens(
    ids: Sequence[int], special_tokens: SpecialTokens = DEFAULT_SPECIAL_TOKENS
) -> list[int]:
    """Return a source as the model reads it, with what stands around it."""
    ends = [special_tokens.source_bos_id], [special_tokens.source_eos_id]
    start, end = ([i for i in part if i is not None] for part in ends)
    return [*start, *ids, *end]


def pad_sources(
    sentences: Sequence[Sequence[int]],
    special_tokens: SpecialTokens = DEFAULT_SPECIAL_TOKENS,
    pad_id: int = PAD_ID,
) -> Tensor:
    """Return sources with their ends as a batch, [B, S]."""
    return pad_sequences(
        [add_special_tokens(sentence, special_tokens) for sentence in sentences], pad_id
    )


def pad_sequences(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Return rows of ids as a tensor, the shorter ones filled up."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
