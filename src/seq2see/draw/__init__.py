"""Charts and heatmaps, written as PNG, SVG or PDF with matplotlib."""

from seq2see.draw.charts import BarChart, Histogram, LineChart, save_charts
from seq2see.draw.figure_style_and_files import (
    BLUE,
    FIGURE_FORMATS,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    check_figure_path,
    choose_figure_fonts,
    open_figure_saved_on_exit,
)
from seq2see.draw.heatmaps import (
    DivergingHeatmap,
    Heatmap,
    HeatmapRowBars,
    HeatmapThumbnails,
    save_attention_figure,
    save_diverging_heatmaps,
    save_heatmaps,
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
    "HeatmapRowBars",
    "HeatmapThumbnails",
    "Histogram",
    "LineChart",
    "check_figure_path",
    "choose_figure_fonts",
    "open_figure_saved_on_exit",
    "save_attention_figure",
    "save_charts",
    "save_diverging_heatmaps",
    "save_heatmaps",
]
