"""Whether methods agree: Spearman's rank correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.explain.trace import Agreement, Attribution

FEWEST_WORDS = 3
"""Fewer have no order worth comparing."""


def agreement(found: Sequence[Attribution]) -> Agreement | None:
    """Return how alike the methods rank source words, or None where there is nothing to compare."""
    if len(found) < 2 or found[0].words.shape[1] < FEWEST_WORDS:
        return None
    ranked = [np.stack([ranks(row) for row in np.abs(each.words)]) for each in found]
    table = [[_mean_correlation(a, b) for b in ranked] for a in ranked]
    return Agreement(
        methods=tuple(each.method for each in found), correlation=np.array(table, np.float32)
    )


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rank of each value, the mean rank of equals."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ends - (counts + 1) / 2
    return means[group]


def _mean_correlation(a_TW: NDArray[np.float64], b_TW: NDArray[np.float64]) -> float:
    a_TW = a_TW - a_TW.mean(1, keepdims=True)
    b_TW = b_TW - b_TW.mean(1, keepdims=True)
    spread_T = np.sqrt((a_TW**2).sum(1) * (b_TW**2).sum(1))
    told = spread_T > 0  # a row of equals says nothing
    if not told.any():
        return 0.0
    return float(((a_TW * b_TW).sum(1)[told] / spread_T[told]).mean())
