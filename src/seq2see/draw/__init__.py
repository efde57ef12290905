"""Figures of plain numbers, written as PNG, SVG or PDF. matplotlib is imported only here."""

from seq2see.draw.charts import BarChart, Histogram, LineChart, draw_charts
from seq2see.draw.figure_setup import (
    BLUE,
    FIGURE_FORMATS,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    check_figure_path,
    find_fonts,
    new_figure,
)
from seq2see.draw.heatmaps import (
    DivergingHeatmap,
    Heatmap,
    HeatmapThumbnails,
    RowBars,
    draw_attention,
    draw_diverging_heatmaps,
    draw_heatmaps,
)

__all__ = [
    "BLUE",
    "FIGURE_FORMATS",
    "GRAY",
    "GREEN",
    "ORANGE",
    "RED",
    "BarChart",
    "DivergingHeatmap",
    "Heatmap",
    "HeatmapThumbnails",
    "Histogram",
    "LineChart",
    "RowBars",
    "check_figure_path",
    "draw_attention",
    "draw_charts",
    "draw_diverging_heatmaps",
    "draw_heatmaps",
    "find_fonts",
    "new_figure",
]
