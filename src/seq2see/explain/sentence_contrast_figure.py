"""Figure of a `SentenceContrast`."""

from __future__ import annotations

import math
import textwrap
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from seq2see import draw
from seq2see.explain.sentence_contrast import SentenceContrast

MIN_SCALE = 3.0
"""Minimum range of the axes, in nats, so that small effects look small."""
MIN_SHOWN_SHIFT = 0.3
"""Heads that move the preference by less, in nats, are not drawn."""
_COLORS, _COLOR_MAPS = (draw.BLUE, draw.ORANGE), ("Blues", "Oranges")
"""For the first and the second sentence."""
_BAR_WIDTH = 0.38
_CELL = 0.25
"""Size of the cells of heatmaps, in inches."""


class _AttentionRow(NamedTuple):
    label: str
    sentence: int
    weights: Sequence[float]


def save_contrast_figure(path: Path, contrast: SentenceContrast) -> None:
    """Draw the effects of words and heads, and where the largest heads and the pronoun attend."""
    rows, grid = _list_attention_rows(contrast), _build_patching_grid(contrast)
    num_words = max(len(sentence.words) for sentence in contrast.sentences)
    widths = (max(2.2, _CELL * len(grid.column_labels)), max(5.0, 0.62 * num_words))
    heights = (2.3, max(0.8, _CELL * max(len(rows), len(grid.row_labels))))
    size = (sum(widths) + 3.6, sum(heights) + 2.3)
    with draw.open_figure_saved_on_exit(path, size) as figure:
        _draw_title(figure, contrast)
        axes = figure.subplots(2, 2, width_ratios=widths, height_ratios=heights)
        _draw_preferences(axes[0, 0], contrast)
        _draw_word_effects(axes[0, 1], contrast)
        _draw_patching(axes[1, 0], contrast, grid)
        _draw_attention(axes[1, 1], contrast, rows)


def render_contrast_image(contrast: SentenceContrast) -> str:
    """Return the figure as an HTML image with its summary as alternative text."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "figure.svg"
        save_contrast_figure(path, contrast)
        data = b64encode(path.read_bytes()).decode()
    summary = escape(" ".join(contrast.summary_lines()))
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{summary}">'


def _draw_title(figure: Figure, contrast: SentenceContrast) -> None:
    """Write both sentences in their colors, above the axes."""
    for index, (sentence, color) in enumerate(zip(contrast.sentences, _COLORS, strict=True)):
        y = 1 - (0.08 + 0.22 * index) / figure.get_figheight()
        style: Any = {"color": color, "fontsize": 11, "fontweight": "bold", "va": "top"}
        figure.text(0.01, y, f"■ {sentence.text}", **style)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, 0, 1, 1 - 0.55 / figure.get_figheight()), hspace=0.06)


def _difference(contrast: SentenceContrast) -> str:
    return f"log p({contrast.first_token}) − log p({contrast.second_token})"


def _draw_preferences(axes: Axes, contrast: SentenceContrast) -> None:
    """Draw the preference on each sentence, and that with the pronoun isolated."""
    preferences = [abs(sentence.preference) for sentence in contrast.sentences]
    scale = 1.2 * max(MIN_SCALE, *preferences)
    for index, (sentence, color) in enumerate(zip(contrast.sentences, _COLORS, strict=True)):
        axes.barh(index, sentence.preference, color=color, height=0.5)
        side = "left" if sentence.preference > 0 else "right"
        axes.text(0, index - 0.3, f" {sentence.preference:+.1f} ", ha=side, va="bottom")
        if sentence.isolated_preference is not None:
            label = f"“{contrast.pronoun}” isolated in the encoder" if index == 0 else None
            axes.plot(
                sentence.isolated_preference, index, "D", mfc="white", mec="black", label=label
            )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlim=(-scale, scale), ylim=(2.1, -0.75), yticks=[])
    axes.set_xlabel(f"← {contrast.second_token}    nats    {contrast.first_token} →")
    axes.set_title(_difference(contrast))
    axes.spines["left"].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower center", fontsize=8)


def _draw_word_effects(axes: Axes, contrast: SentenceContrast) -> None:
    """Draw the effect of each word in both sentences, before its difference between them."""
    labels = _word_labels(contrast)
    occlusions = [[word.occlusion for word in each.words] for each in contrast.sentences]
    if len(occlusions[0]) == len(occlusions[1]):
        differences = np.subtract(occlusions[0], occlusions[1])
        axes.bar(range(len(labels)), differences, 0.86, color="#d8dbe0", label="difference")
    for index, (sentence, color) in enumerate(zip(contrast.sentences, _COLORS, strict=True)):
        x = np.arange(len(sentence.words)) + _BAR_WIDTH * (index - 0.5)
        label = f"sentence {index + 1}, word masked"
        axes.bar(x, occlusions[index], _BAR_WIDTH, color=color, label=label)
        gradients = [word.gradient for word in sentence.words]
        label = "" if index else "integrated gradient"
        axes.plot(x, gradients, "o", mfc="white", mec=draw.GRAY, markersize=3, label=label)
    scale = 1.05 * max(map(abs, axes.dataLim.intervaly))
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(ylim=(-max(scale, MIN_SCALE), max(scale, MIN_SCALE)), xlim=(-0.6, len(labels) - 0.4))
    axes.set_ylabel(f"← {contrast.second_token}   nats   {contrast.first_token} →")
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(length=0)
    axes.set_title(f"Effect of each word on {_difference(contrast)}", pad=18)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8, ncols=4, borderaxespad=0)


def _word_labels(contrast: SentenceContrast) -> list[str]:
    """Return the words of both sentences; words that differ are on two lines."""
    first, second = ([word.text for word in each.words] for each in contrast.sentences)
    pairs = zip_longest(first, second, fillvalue="")
    return [a if a == b else f"{a}\n{b}" for a, b in pairs]


def _build_patching_grid(contrast: SentenceContrast) -> draw.Heatmap:
    """Return the effect of each head and feed-forward network, with one row per layer."""
    cells: dict[tuple[str, str], float] = {}
    for each in contrast.patching:
        stack, layer, kind = (*each.address.split("."), "")[:3]
        if kind:
            column = "FFN" if each.head is None else f"{kind} {each.head}"
            cells[f"{stack} {layer}", column] = each.shift
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = sorted({column for _, column in cells}, key=_column_order)
    values = [[cells.get((row, column), math.nan) for column in columns] for row in rows]
    return draw.Heatmap("", rows[::-1], columns, values[::-1])


def _column_order(column: str) -> tuple[int, int]:
    kind, _, head = column.partition(" ")
    return ["self", "cross", "FFN"].index(kind), int(head or 0)


def _draw_patching(axes: Axes, contrast: SentenceContrast, grid: draw.Heatmap) -> None:
    """Draw how far each head moves the preference, or why this was not measured."""
    axes.set_title("Shift if one output is taken\nfrom the other sentence (nats)")
    if contrast.patching_problem:
        axes.axis("off")
        lines = "\n".join(textwrap.wrap(contrast.patching_problem, 40))
        axes.text(0, 1, lines, va="top", transform=axes.transAxes)
        return
    difference = contrast.sentences[0].preference - contrast.sentences[1].preference
    scale = max(MIN_SCALE, abs(difference))
    axes.imshow(
        np.multiply(grid.values, math.copysign(1, difference)), cmap="PRGn", vmin=-scale, vmax=scale
    )
    for (row, column), value in np.ndenumerate(np.abs(grid.values)):
        if value >= 0.5:
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(grid.column_labels)), grid.column_labels, rotation=90)
    axes.set_yticks(range(len(grid.row_labels)), grid.row_labels)
    draw.style_axes_frame(axes)


def _list_attention_rows(contrast: SentenceContrast) -> list[_AttentionRow]:
    """Return the attention rows of the largest heads, and those of the pronoun."""
    rows = []
    for head in contrast.shown_heads:
        if abs(head.shift) < MIN_SHOWN_SHIFT:
            continue
        label = f"{head.address}.{head.head} from “{head.query}” ({abs(head.shift):.1f} nats)"
        rows += [_AttentionRow(label, index, row) for index, row in enumerate(head.attention)]
    for index, sentence in enumerate(contrast.sentences):
        if sentence.pronoun_attention:
            label = f"encoder from “{contrast.pronoun}”"
            if sentence.isolated_preference is not None:
                change = abs(sentence.isolated_preference - sentence.preference)
                label += f" (isolated: {change:.1f} nats)"
            rows.append(_AttentionRow(label, index, sentence.pronoun_attention))
    return rows


def _draw_attention(axes: Axes, contrast: SentenceContrast, rows: Sequence[_AttentionRow]) -> None:
    """Draw attention rows below the words of the axes above, in the colors of the sentences."""
    if not rows:
        axes.axis("off")
        return
    labels = _word_labels(contrast)
    image = np.ones((len(rows), len(labels), 4))
    for index, row in enumerate(rows):
        image[index, : len(row.weights)] = mpl.colormaps[_COLOR_MAPS[row.sentence]](row.weights)
    axes.imshow(image, aspect="auto")
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.yaxis.tick_right()
    axes.set_title(
        f"Attention of “{contrast.pronoun}”, and of heads that shift {MIN_SHOWN_SHIFT} nats or more"
    )
    draw.style_axes_frame(axes)
