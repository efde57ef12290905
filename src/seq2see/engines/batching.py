"""Batches of sentences of similar length with special tokens and padding, and their results."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import torch
from torch import Tensor

from seq2see.bundle import StartAndEndTokenIds
from seq2see.text import PAD_ID

# B sentences, S source tokens

Result = TypeVar("Result")

DEFAULT_SPECIAL_TOKENS: StartAndEndTokenIds = StartAndEndTokenIds()
"""Special tokens of models that were trained with seq2see."""


def batch_by_length(
    lengths: Sequence[int],
    max_tokens: int,
    max_size: int | None = None,
    *,
    threads: int = 1,
    step_cost: int = 0,
) -> list[list[int]]:
    """Return the indices of each batch: sentences of similar length, longest first.

    A batch has at most `max_tokens` tokens including padding and at most `max_size` sentences, but
    at least one sentence. With several threads the batches have a similar cost, so that all threads
    finish at about the same time. If there are more batches than threads, their number is rounded
    up to a multiple of `threads` where possible. The cost of a batch is its number of tokens, plus
    `step_cost` tokens for each token of its longest sentence (the search takes about as many
    steps).
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    sizes = [lengths[index] for index in order]
    ends = [*_find_ends(sizes, max_tokens, max_size)]
    if threads > 1 and len(ends) > 1:
        num_batches = -(-len(ends) // threads) * threads if len(ends) > threads else len(ends)
        low, high = 0, sum(sizes) + step_cost * sizes[0]
        while high - low > 1:
            max_cost = (low + high) // 2
            new_ends = [*_find_ends(sizes, max_tokens, max_size, max_cost, step_cost)]
            if len(new_ends) > num_batches:
                low = max_cost
            else:
                high, ends = max_cost, new_ends
    return [order[start:end] for start, end in pairwise((0, *ends))]


def _find_ends(
    sizes: Sequence[int],
    max_tokens: int,
    max_size: int | None,
    max_cost: int | None = None,
    step_cost: int = 0,
) -> Iterator[int]:
    """Yield the end (exclusive) of each batch; each batch is as large as the limits allow."""
    sums, start = [0, *accumulate(sizes)], 0
    while start < len(sizes):
        longest = max(1, sizes[start])
        limits = [len(sizes), start + max_tokens // longest]
        if max_size is not None:
            limits.append(start + max_size)
        if max_cost is not None:
            limits.append(bisect_right(sums, sums[start] + max_cost - step_cost * longest) - 1)
        start = max(start + 1, min(limits))
        yield start


def add_special_tokens(
    ids: Sequence[int], special_tokens: StartAndEndTokenIds = DEFAULT_SPECIAL_TOKENS
) -> list[int]:
    """Return the ids of a source with the special tokens that the model expects around it."""
    with_special_tokens = (special_tokens.source_bos_id, *ids, special_tokens.source_eos_id)
    return [i for i in with_special_tokens if i is not None]


def add_special_tokens_and_pad(
    sentences: Sequence[Sequence[int]],
    special_tokens: StartAndEndTokenIds = DEFAULT_SPECIAL_TOKENS,
    pad_id: int = PAD_ID,
) -> Tensor:
    """Return sources with special tokens as one padded batch, [B, S]."""
    return pad_sequences(
        [add_special_tokens(sentence, special_tokens) for sentence in sentences], pad_id
    )


def pad_sequences(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Return rows of ids as one tensor, padded at the end with `pad_id`."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])


def collect_in_order(batches: Iterable[tuple[Sequence[int], Sequence[Result]]]) -> list[Result]:
    """Return the results of all batches in order; a batch is indices and a result for each."""
    by_index = {index: result for batch in batches for index, result in zip(*batch, strict=True)}
    return [by_index[index] for index in range(len(by_index))]
