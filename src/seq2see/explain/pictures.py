"""A trace as a picture for papers: vectors or pixels, as the name says."""

from __future__ import annotations

from pathlib import Path

from seq2see import draw
from seq2see.errors import InputError
from seq2see.explain.trace import AttentionMap, Trace

ON_ONE_PICTURE = 40
"""Steps above this are not drawn below: nobody could read their names."""


def picture(trace: Trace, path: Path) -> None:
    """Draw cross-attention, mean over all, its heads, and how sure each step was."""
    cross = [each for each in trace.attention if each.kind == "cross"]
    if not cross:
        raise InputError("a picture must have cross-attention to show, but every layer is off")
    names = "cross-attention, mean over heads and layers"
    rows, columns = trace.labels("output"), trace.labels("source")
    grid = draw.Grid(names, rows, columns, trace.cross().tolist())
    steps = draw.Series("Probability of each token", rows, [s.probability for s in trace.steps])
    fits = len(rows) <= ON_ONE_PICTURE
    title = f"{trace.source.text}\n{trace.translation.text}"
    draw.attention(path, title, grid, _thumbnails(cross), steps if fits else None)


def head_picture(trace: Trace, path: Path, found: AttentionMap, head: int | None) -> None:
    """Draw one attention alone: a head, or the mean of all."""
    if head is not None and head >= len(found.weights):
        raise InputError(f"`head` must be below {len(found.weights)}, but is {head} instead")
    weights = found.weights.mean(0) if head is None else found.weights[head]
    who = "mean over heads" if head is None else f"head {head}"
    rows = trace.labels(found.rows, weights.shape[0])
    columns = trace.labels(found.columns, weights.shape[1])
    grid = draw.Grid(f"{found.name}, {who}", rows, columns, weights.tolist())
    draw.attention(path, trace.source.text, grid, None, None)


def _thumbnails(maps: list[AttentionMap]) -> draw.Thumbnails:
    top_first = maps[::-1]
    return draw.Thumbnails(
        "Every head",
        [f"layer {each.layer}" for each in top_first],
        [f"head {head}" for head in range(len(maps[0].weights))],
        [list(each.weights) for each in top_first],
    )
