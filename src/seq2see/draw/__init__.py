"""Pictures from plain numbers: the only importer of matplotlib. The ending names the format."""

from seq2see.draw.attention import Series, Thumbnails, attention
from seq2see.draw.grids import Grid, Signed, grids, signed
from seq2see.draw.panels import Bars, Curves, Histogram, panels
from seq2see.draw.paper import (
    BLUE,
    FORMATS,
    GREEN,
    GREY,
    ORANGE,
    RED,
    figure,
    fonts,
    refuse_name,
)

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
