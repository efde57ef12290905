"""Charts and heatmaps, written as PNG, SVG or PDF with matplotlib."""

from seq2see.draw.charts import (
    BarChart as BarChart,
    Heatmap as Heatmap,
    HeatmapRowBars as HeatmapRowBars,
    HeatmapThumbnails as HeatmapThumbnails,
    Histogram as Histogram,
    LineChart as LineChart,
    save_attention_figure as save_attention_figure,
    save_charts as save_charts,
    save_diverging_heatmap as save_diverging_heatmap,
    save_heatmaps as save_heatmaps,
)
from seq2see.draw.figure import (
    BLUE as BLUE,
    FIGURE_FORMATS as FIGURE_FORMATS,
    GRAY as GRAY,
    GREEN as GREEN,
    ORANGE as ORANGE,
    RED as RED,
    check_figure_path as check_figure_path,
    list_figure_fonts as list_figure_fonts,
    open_figure_saved_on_exit as open_figure_saved_on_exit,
)
