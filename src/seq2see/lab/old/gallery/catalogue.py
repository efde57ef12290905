"""Item 60: every picture that the notes point at, and what shows it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.decoding.beams import worked_beam
from seq2see.lab.old.expectation import at_least, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.gallery import blocks, matrices
from seq2see.lab.old.positions.waves import four_dimensions, halves, twenty_positions
from seq2see.lab.old.training.six_words import six_word_grids

REDRAWN: Mapping[str, str] = {
    "stacks": "transformer tf1 ed ed2 res3 decoder(moving) decoder",
    "layers": "ed3 ed4 res1 res2 vec2 encoding1",
    "input": "vec1 tf-attention1 tf-attention2 position_encoding",
    "twenty positions": "position_encoding4",
    "halves": "position_encoding3",
    "four dimensions": "position_encoding2",
    "worked head": (
        "self-attention2 self-attention4 self-attention5 self-attention6 self-attention7 "
        "self-attention8 tf-attention4 tf-attention5"
    ),
    "heads": (
        "self-attention3 m-attention1 m-attention2 m-attention3 m-attention4 m-attention5 "
        "m-attention6"
    ),
    "six words": "word word2 loss1 loss2 loss3 linear_softmax",
    "softmax curve": "S4-1",
    "jacobian": "S4-2 S4-3 S4-4 S4-5 S4-6 S4-7",
}
"""Which dead links of S2 (by name) and S4 (by number) a picture of the gallery stands for."""
ELSEWHERE: Mapping[int, str] = {
    1: "S4-8 S4-9 S4-10",
    19: "self-attention1",
    20: "tf-attention3",
    24: "tf-attention6",
}
"""Those that another item shows: the variance of q·k, where "it" looks, the graph, the code."""


@experiment(
    60,
    Text("The gallery", "画廊"),
    "S2 S4",
    Text(
        "The notes explain with 54 pictures, all of which are dead links.",
        "笔记用 54 张图来解释，而这些链接全部失效。",
    ),
    Text(
        "All of them can be drawn again from a model that runs; what a drawing claims is then "
        "a number in it.",
        "它们都可以从真正运行的模型重新画出；图所断言的，就是图中的数字。",
    ),
    trains=True,
)
def gallery(bench: Bench) -> Finding:
    """Draw everything once more."""
    figures = drawn(bench)
    links = [link for names in (*REDRAWN.values(), *ELSEWHERE.values()) for link in names.split()]
    return Finding(
        Verdict.HOLDS,
        Text(
            "each dead link has a picture here or in the item that it belongs to. Masks, tied "
            "tables and the beam, which the notes only describe, are drawn as well.",
            "每个失效链接都在这里或相应条目中有了图。笔记只用文字描述的掩码、共享词表和束搜索也画了出来。",
        ),
        (
            Measurement(Text("dead links", "失效链接"), len(set(links)), equal(54)),
            Measurement(
                Text("of them redrawn in the gallery", "其中在画廊中重画的"),
                sum(len(names.split()) for names in REDRAWN.values()),
                equal(48),
            ),
            Measurement(
                Text("of them shown by items 1, 19, 20 and 24", "其中由第 1、19、20、24 项展示的"),
                sum(len(names.split()) for names in ELSEWHERE.values()),
                equal(6),
            ),
            Measurement(Text("pictures of the gallery", "画廊的图"), len(figures), at_least(14)),
        ),
        tuple(figures.values()),
    )


def drawn(bench: Bench) -> dict[str, Figure]:
    """Return the pictures by their names."""
    pictures: dict[str, Callable[[], Figure]] = {
        "stacks": blocks.stacks,
        "layers": blocks.layers,
        "tied tables": blocks.tied_tables,
        "input": lambda: matrices.model_input(bench),
        "twenty positions": twenty_positions,
        "halves": halves,
        "four dimensions": four_dimensions,
        "worked head": matrices.worked_head,
        "heads": lambda: matrices.heads(bench),
        "masks": matrices.masks,
        "softmax curve": matrices.softmax_curve,
        "jacobian": matrices.softmax_jacobian,
        "six words": six_word_grids,
        "beam": worked_beam,
    }
    assert set(REDRAWN) <= set(pictures)
    return {name: draw() for name, draw in pictures.items()}
