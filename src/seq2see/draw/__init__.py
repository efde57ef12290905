"""Charts and heatmaps, written as PNG, SVG or PDF with matplotlib."""

from seq2see.draw.charts import (
    BarChart,
    Heatmap,
    HeatmapRowBars,
    HeatmapThumbnails,
    Histogram,
    LineChart,
    save_attention_figure,
    save_charts,
    save_diverging_heatmap,
    save_heatmaps,
)
from seq2see.draw.figure import (
    BLUE,
    FIGURE_FORMATS,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    check_figure_path,
    list_figure_fonts,
    open_figure_saved_on_exit,
)

__all__ = [
    "BLUE",
    "FIGURE_FORMATS",
    "GRAY",
    "GREEN",
    "ORANGE",
    "RED",
    "BarChart",
    "Heatmap",
    "HeatmapRowBars",
    "HeatmapThumbnails",
    "Histogram",
    "LineChart",
    "check_figure_path",
    "list_figure_fonts",
    "open_figure_saved_on_exit",
    "save_attention_figure",
    "save_charts",
    "save_diverging_heatmap",
    "save_heatmaps",
]
