"""Diagrams of boxes and arrows for figures of experiments."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from seq2see.draw import BLUE, GRAY, GREEN, ORANGE
from seq2see.lab.figures import FigureData

Point = tuple[float, float]
PALE = {BLUE: "#cfdcea", ORANGE: "#f4dcc0", GREEN: "#cfe5d5", GRAY: "#dfe1e5"}


class Diagram:
    """Boxes and arrows on the axes of a figure, with labels of an experiment."""

    def __init__(self, figure: Figure, data: FigureData, x: Point, y: Point) -> None:
        self.data = data
        self.axes: Axes = figure.subplots()
        self.axes.axis("off")
        self.axes.set(xlim=x, ylim=y, aspect="equal")

    def box(self, x: float, y: float, label: str, color: str = BLUE, width: float = 2.6) -> Point:
        """Draw a box of height 0.5 around a point with a label, and return the point."""
        style = "round,pad=0,rounding_size=0.1"
        corner = (x - width / 2, y - 0.25)
        self.axes.add_patch(
            FancyBboxPatch(
                corner, width, 0.5, style, facecolor=PALE.get(color, color), edgecolor=color
            )
        )
        text = {"ha": "center", "va": "center", "fontsize": 8, "color": "#1a1a1a"}
        self.axes.text(x, y, self.data.label(label), **text)  # type: ignore[arg-type]
        return x, y

    def arrow(self, start: Point, end: Point, bend: float = 0.0) -> None:
        """Draw an arrow."""
        style = {"arrowstyle": "-|>", "color": GRAY, "shrinkA": 0, "shrinkB": 0}
        self.axes.annotate(
            "", end, start, arrowprops=style | {"connectionstyle": f"arc3,rad={bend}"}
        )

    def column(self, x: float, labels: list[str], color: str, step: float = 0.8) -> list[Point]:
        """Draw boxes from the bottom up with arrows between them."""
        points = [self.box(x, step * i, label, color) for i, label in enumerate(labels)]
        for (_, below), (_, above) in pairwise(points):
            self.arrow((x, below + 0.25), (x, above - 0.25))
        return points


def draw_stacks(figure: Figure, data: FigureData) -> None:
    """Draw the model as one box, as encoder and decoder, and as stacks of layers."""
    diagram = Diagram(figure, data, (-5.6, 7.2), (-1.4, 6.2))
    sizes = data.array("layer_parameters")
    diagram.box(-4.2, 2.4, "transformer")
    diagram.arrow((-4.2, 1.2), (-4.2, 2.15))
    diagram.arrow((-4.2, 2.65), (-4.2, 3.6))
    for x, name, color, top in (
        (0.0, "encoder", BLUE, "memory"),
        (5.0, "decoder", ORANGE, "linear"),
    ):
        count = len(sizes[name])
        million = sizes[name][0] / 1e6
        labels = [f"{data.label(name)} {i + 1} ({million:.2f} M)" for i in range(count)]
        diagram.column(x, labels, color)
        diagram.box(x, -0.85, "embedding", GRAY)
        diagram.arrow((x, -0.6), (x, -0.25))
        diagram.box(x, 0.8 * count, top, GREEN)
        diagram.arrow((x, 0.8 * count - 0.55), (x, 0.8 * count - 0.25))
    for i in range(len(sizes["decoder"])):
        diagram.arrow((1.3, 0.8 * len(sizes["encoder"])), (3.7, 0.8 * i))


def draw_sublayers(figure: Figure, data: FigureData) -> None:
    """Draw the sublayers of an encoder layer and a decoder layer with residual connections."""
    diagram = Diagram(figure, data, (-2.2, 7.4), (-0.9, 5.3))
    columns = {0.0: ["self", "feed_forward"], 5.0: ["causal", "cross", "feed_forward"]}
    for x, names in columns.items():
        for i, name in enumerate(names):
            y = 1.7 * i
            diagram.box(x, y, name)
            diagram.box(x, y + 0.8, "add_norm", GRAY)
            diagram.arrow((x, y - 0.6), (x, y - 0.25))
            diagram.arrow((x, y + 0.25), (x, y + 0.55))
            diagram.arrow((x, y - 0.5), (x + 1.3, y + 0.8), bend=0.7)
    diagram.box(2.1, 1.7, "memory", GREEN, 1.4)
    diagram.arrow((2.8, 1.7), (3.7, 1.7))


def draw_head_widths(figure: Figure, data: FigureData) -> None:
    """Draw W^Q of one head of the full width beside the matrices of several heads."""
    d_model, heads = data.array("widths")
    axes = figure.subplots()
    axes.axis("off")
    axes.set(xlim=(0, 2.6 * d_model), ylim=(-0.25 * d_model, 1.1 * d_model), aspect="equal")
    shapes = [(0, d_model, BLUE, f"{d_model} × {d_model}")]
    width = d_model // heads
    for head in range(heads):
        label = f"{d_model} × {width}" if head == heads // 2 else ""
        shapes.append((int(1.3 * d_model) + head * int(1.15 * width), width, ORANGE, label))
    for x, size, color, label in shapes:
        style = {"boxstyle": "square,pad=0", "facecolor": PALE[color], "edgecolor": color}
        axes.add_patch(FancyBboxPatch((x, 0), size, d_model, **style))  # type: ignore[arg-type]
        axes.text(x + size / 2, -0.12 * d_model, label, ha="center", fontsize=8)
