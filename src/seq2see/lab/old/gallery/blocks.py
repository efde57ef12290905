"""Block drawings, their numbers from a model that exists."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from seq2see.draw import BLUE, GRAY, GREEN, ORANGE
from seq2see.lab.old.experiment import Figure, Text
from seq2see.lab.old.pictures import Label, Sketch, sketch
from seq2see.model import ModelConfig, Transformer, count_parameters

PALE = {BLUE: "#cfdcea", ORANGE: "#f4dcc0", GREEN: "#cfe5d5", GRAY: "#dfe1e5"}
WORDS = 37_000


class Box(NamedTuple):
    """A box by its middle."""

    x: float
    y: float
    width: float = 2.0
    height: float = 0.5

    @property
    def top(self) -> tuple[float, float]:
        """The middle of its upper edge."""
        return self.x, self.y + self.height / 2

    @property
    def bottom(self) -> tuple[float, float]:
        """The middle of its lower edge."""
        return self.x, self.y - self.height / 2

    @property
    def left(self) -> tuple[float, float]:
        """The middle of its left edge."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        """The middle of its right edge."""
        return self.x + self.width / 2, self.y


class Drawing:
    """Boxes and arrows on the axes of a sketch."""

    def __init__(self, made: Sketch) -> None:
        self._made = made
        self.axes: Axes = made.canvas.subplots()
        self.axes.axis("off")
        self.axes.set_aspect("equal")

    def box(self, at: Box, label: Label, colour: str = BLUE) -> Box:
        """Draw a box with its label, and return where it is."""
        corner = (at.x - at.width / 2, at.y - at.height / 2)
        style = "round,pad=0,rounding_size=0.1"
        patch = FancyBboxPatch(
            corner, at.width, at.height, style, facecolor=PALE[colour], edgecolor=colour
        )
        self.axes.add_patch(patch)
        self.axes.text(
            at.x,
            at.y,
            self._made.word(label),
            ha="center",
            va="center",
            fontsize=8,
            color="#1a1a1a",
        )
        return at

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0
    ) -> None:
        """Draw an arrow, bent to the side if asked for."""
        self.axes.annotate(
            "",
            end,
            start,
            arrowprops={
                "arrowstyle": "-|>",
                "color": GRAY,
                "shrinkA": 0,
                "shrinkB": 0,
                "connectionstyle": f"arc3,rad={bend}",
            },
        )

    def note(self, x: float, y: float, label: Label, align: str = "center") -> None:
        """Write beside the boxes."""
        self.axes.text(x, y, self._made.word(label), ha=align, va="center", fontsize=8)

    def frame(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Say what is to be seen."""
        self.axes.set_xlim(*x)
        self.axes.set_ylim(*y)


def _base() -> Transformer:
    """Return the paper's model, without making room for its weights."""
    with torch.device("meta"):
        return Transformer.from_config(ModelConfig.from_preset("base", vocab_size=WORDS))


def stacks() -> Figure:
    """Draw encoder and decoder, six layers each, and what goes from one to the other."""
    model = _base()
    caption = Text(
        "The Transformer `base`: two stacks of six layers; the memory goes to every decoder "
        "layer. Counts are parameters, of 37,000 words",
        "Transformer `base`：两侧各六层；记忆送到每个解码器层。数字为参数量（37,000 词）",
    )
    with sketch(caption, 7.0, 5.2) as made:
        drawing = Drawing(made)
        encoder = _stack(
            drawing, 0.0, Text("encoder layer", "编码器层"), list(model.encoder.layers), BLUE
        )
        decoder = _stack(
            drawing, 5.0, Text("decoder layer", "解码器层"), list(model.decoder.layers), ORANGE
        )
        memory = drawing.box(Box(0.0, 5.4), Text("memory", "记忆"), GREEN)
        drawing.arrow(encoder[-1].top, memory.bottom)
        for layer in decoder:
            drawing.arrow(memory.right, layer.left)
        _ends(drawing, model, encoder[0], decoder[0], decoder[-1])
        drawing.frame((-1.8, 7.4), (-1.6, 7.4))
    return made.figure


def _stack(
    drawing: Drawing, x: float, name: Text, layers: list[torch.nn.Module], colour: str
) -> list[Box]:
    """Draw the layers from the bottom up."""
    size = count_parameters(layers[0]) / 1e6
    boxes = []
    for number in range(len(layers)):
        label = Text(
            f"{name.en} {number + 1}  ({size:.2f} M)", f"{name.zh} {number + 1}（{size:.2f} M）"
        )
        boxes.append(drawing.box(Box(x, 0.8 * number, 2.6), label, colour))
    for below, above in pairwise(boxes):
        drawing.arrow(below.top, above.bottom)
    return boxes


def _ends(drawing: Drawing, model: Transformer, encoder: Box, decoder: Box, top: Box) -> None:
    """Draw embeddings below the stacks, and the output above the decoder."""
    table = count_parameters(model.output) / 1e6
    position = Text("embedding + position", "嵌入 + 位置编码")
    for first, words in (
        (encoder, Text("source", "源句")),
        (decoder, Text("target so far", "已有译文")),
    ):
        embedding = drawing.box(Box(first.x, -0.85, 2.6), position, GRAY)
        drawing.arrow(embedding.top, first.bottom)
        drawing.note(first.x, -1.4, words)
    linear = drawing.box(
        Box(top.x, 5.4, 2.6),
        Text(f"linear ({table:.2f} M, tied)", f"线性层（{table:.2f} M，共享）"),
        GRAY,
    )
    softmax = drawing.box(Box(top.x, 6.2, 2.6), "softmax", GRAY)
    drawing.arrow(top.top, linear.bottom)
    drawing.arrow(linear.top, softmax.bottom)
    drawing.note(top.x, 6.8, Text("next word", "下一个词"))


def layers() -> Figure:
    """Draw what is inside an encoder layer and a decoder layer."""
    caption = Text(
        "Inside the layers: each sublayer is added to its own input, then normalised "
        "(norm(x + f(x)), as in the paper)",
        "层的内部：每个子层的输出与其输入相加，再做归一化（论文的 norm(x + f(x))）",
    )
    attention = Text("self-attention", "自注意力")
    causal = Text("causal self-attention", "因果自注意力")
    cross = Text("attention to the memory", "对记忆的注意力")
    feed_forward = Text("feed-forward network", "前馈网络")
    with sketch(caption, 7.0, 4.2) as made:
        drawing = Drawing(made)
        _sublayers(drawing, 0.0, [attention, feed_forward])
        crossing = _sublayers(drawing, 5.0, [causal, cross, feed_forward])[1]
        memory = drawing.box(Box(1.9, crossing.y, 1.0), Text("memory", "记忆"), GREEN)
        drawing.arrow(memory.right, crossing.left)
        drawing.note(0.0, -0.75, Text("an encoder layer", "编码器层"))
        drawing.note(5.0, -0.75, Text("a decoder layer", "解码器层"))
        drawing.frame((-1.6, 7.0), (-1.0, 5.2))
    return made.figure


def _sublayers(drawing: Drawing, x: float, names: list[Text]) -> list[Box]:
    """Draw sublayers from the bottom up, each with its sum and the way past it."""
    boxes = []
    for number, name in enumerate(names):
        y = 1.65 * number
        box = drawing.box(Box(x, y, 2.4), name, BLUE)
        added = drawing.box(Box(x, y + 0.75, 2.4, 0.4), Text("add and norm", "相加并归一化"), GRAY)
        drawing.arrow((x, y - 0.5), box.bottom)
        drawing.arrow(box.top, added.bottom)
        drawing.arrow((x, y - 0.45), added.right, bend=0.9)
        boxes.append(box)
    drawing.arrow((x, y + 0.95), (x, y + 1.35))
    return boxes


def tied_tables() -> Figure:
    """Draw the table that three parts share."""
    model = _base()
    shared = model.output.tokens.weight_VM
    uses = (model.encoder.embeddings.tokens, model.decoder.embeddings.tokens, model.output.tokens)
    assert all(tokens.weight_VM is shared for tokens in uses)
    rows, columns = shared.shape
    caption = Text(
        "One table for three: a row is looked up on the way in, and multiplied on the way out",
        "三处共用一张表：入口处查一行，出口处与每一行相乘",
    )
    with sketch(caption, 7.0, 2.6) as made:
        drawing = Drawing(made)
        label = Text(
            f"table, {rows:,} × {columns}: {shared.numel() / 1e6:.1f} M",
            f"词表 {rows:,} × {columns}：{shared.numel() / 1e6:.1f} M",
        )
        table = drawing.box(Box(0.0, 0.0, 3.6, 0.9), label, GREEN)
        targets = (
            (1.0, Text("encoder: row · √512", "编码器：取行 × √512")),
            (0.0, Text("decoder: row · √512", "解码器：取行 × √512")),
            (-1.0, Text("output: logits = x · tableᵀ", "输出：logits = x · 表ᵀ")),
        )
        for y, name in targets:
            use = drawing.box(Box(5.0, y, 3.2, 0.6), name, BLUE)
            drawing.arrow(table.right, use.left)
        drawing.frame((-2.2, 7.0), (-1.6, 1.6))
    return made.figure
