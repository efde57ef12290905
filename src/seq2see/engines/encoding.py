"""The memory of a batch of sources, made from groups of sources of the same length.

A search wants many sources at once, of whatever lengths; the encoder gains nothing from more than a
few hundred tokens, and loses by padding: its attention takes all places, and to leave padding out
of the rest means copies to and fro.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from seq2see.model import SILENCE, Memory, Recorder, Transformer

# B sources, S source tokens, M features of the model

GROUP_TOKENS = 512
"""Sources of different lengths share a group until it has so many tokens."""


def encoded(model: Transformer, source_BS: Tensor, recorder: Recorder = SILENCE) -> Memory:
    """Return what the encoder makes of a batch, best with the longest sources first.

    Other devices than a CPU, and whoever listens, want it whole.
    """
    if source_BS.device.type != "cpu" or recorder is not SILENCE:
        return model.encode(source_BS, recorder)
    padding_BS = source_BS == model.encoder.pad_id
    lengths = last_places(padding_BS).tolist()
    ends = [0, *group_ends(lengths)]
    if len(ends) == 2:
        return model.encode(source_BS)
    groups = [source_BS[start:end, : max(lengths[start:end])] for start, end in pairwise(ends)]
    states = [model.encode(group).states_BSM for group in groups]
    states_BSM = states[0].new_zeros(*source_BS.shape, states[0].size(2))
    for own, (start, end) in zip(states, pairwise(ends), strict=True):
        states_BSM[start:end, : own.size(1)] = own
    return Memory(states_BSM, padding_BS)


def last_places(padding_BS: Tensor) -> Tensor:
    """Return how far each source reaches, at least to the first place: padding may be inside."""
    places_S = torch.arange(1, padding_BS.size(1) + 1, device=padding_BS.device)
    return (padding_BS.logical_not() * places_S).amax(1).clamp(min=1)


def group_ends(lengths: Sequence[int]) -> Iterator[int]:
    """Yield where each group ends, one behind its last source."""
    start = 0
    for place in range(1, len(lengths)):
        is_large = (place - start) * lengths[start] >= GROUP_TOKENS
        if is_large and lengths[place] != lengths[start]:
            yield place
            start = place
    yield len(lengths)
