"""Pictures from plain numbers: the only importer of matplotlib. The ending names the format."""

from seq2see.draw.charts import Bars, Curves, Histogram, panels
from seq2see.draw.figures import BLUE, FORMATS, GREEN, GREY, ORANGE, RED, figure, fonts, refuse_name
from seq2see.draw.heatmaps import Grid, Series, Signed, Thumbnails, attention, grids, signed

__all__ = [
    "BLUE",
    "FORMATS",
    "GREEN",
    "GREY",
    "ORANGE",
    "RED",
    "Bars",
    "Curves",
    "Grid",
    "Histogram",
    "Series",
    "Signed",
    "Thumbnails",
    "attention",
    "figure",
    "fonts",
    "grids",
    "panels",
    "refuse_name",
    "signed",
]
