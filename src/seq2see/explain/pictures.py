"""A trace as a picture for papers: vectors or pixels, as the name says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see import draw
from seq2see.errors import InputError
from seq2see.explain.trace import AttentionMap, Trace

FLAT = 0.25
"""Weights that are all below must look faint, as they are."""


def picture(trace: Trace, path: Path) -> None:
    """Draw cross-attention, mean over all, its heads, and how sure each step was."""
    cross = [each for each in trace.attention if each.kind == "cross"]
    if not cross:
        raise InputError("a picture must have cross-attention to show, but every layer is off")
    who = "cross-attention, mean over heads and layers"
    grid = _grid(who, trace.labels("output"), trace.labels("source"), trace.cross())
    steps = draw.Series("probability", [step.probability for step in trace.steps])
    title = f"{trace.source.text}\n{trace.translation.text}"
    draw.attention(path, title, grid, _thumbnails(cross), steps)


def head_picture(trace: Trace, path: Path, found: AttentionMap, head: int | None) -> None:
    """Draw one attention alone: a head, or the mean of all."""
    if head is not None and head >= len(found.weights):
        raise InputError(f"`head` must be below {len(found.weights)}, but is {head} instead")
    weights = found.weights.mean(0) if head is None else found.weights[head]
    who = "mean over heads" if head is None else f"head {head}"
    rows = trace.labels(found.rows, weights.shape[0])
    columns = trace.labels(found.columns, weights.shape[1])
    grid = _grid(f"{found.name}, {who}", rows, columns, weights)
    draw.attention(path, trace.source.text, grid, None, None)


def _grid(
    what: str, rows: list[str], columns: list[str], weights: NDArray[np.float32]
) -> draw.Grid:
    most = max(FLAT, float(weights.max()))
    return draw.Grid(f"{what} (darkest: {most:.2f})", rows, columns, weights.tolist(), most)


def _thumbnails(maps: list[AttentionMap]) -> draw.Thumbnails:
    top_first = maps[::-1]
    return draw.Thumbnails(
        "Every head",
        [f"layer {each.layer}" for each in top_first],
        [f"head {head}" for head in range(len(maps[0].weights))],
        [list(each.weights) for each in top_first],
    )
