"""Figures are written in the format of their suffix."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from seq2see import draw
from seq2see.errors import InputError

PARTS = [
    draw.Histogram(
        "Lengths", "words", {"source": ((0, 1, 2), (3, 4)), "target": ((0, 2, 4), (1, 1))}
    ),
    draw.BarChart("Findings", {"empty": 3, "misaligned": 1}, [draw.RED, draw.GRAY]),
]


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_suffix_selects_the_format(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"a.{ending}"
    draw.save_charts(path, "a corpus", PARTS)
    assert path.read_bytes().startswith(start)


def test_svg_contains_text(tmp_path: Path) -> None:
    draw.save_charts(tmp_path / "a.svg", "a corpus", PARTS)
    text = (tmp_path / "a.svg").read_text("utf-8")
    for words in ("a corpus", "Lengths", "misaligned", "target"):
        assert words in text


def test_unknown_suffix_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end with one of .png, .svg, .pdf"):
        draw.save_charts(tmp_path / "a", "a corpus", PARTS)


def test_missing_directory_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a.png cannot be written: No such file or directory"):
        draw.save_charts(tmp_path / "b" / "a.png", "a corpus", PARTS)


TOKENS = ["The", "animal", "did", "n't", "cross", "the", "street", "because", "it", "was", "tired"]
CHINESE = list("一个穿着蓝色衬衫的男人站在梯子上擦窗户")


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (["Le", "."], ["The", "."]),
        (TOKENS * 5, TOKENS),
        (["a"], TOKENS * 5),
        (["Donaudampfschifffahrtsgesellschaft"], ["x", "Donaudampfschifffahrtsgesellschaft"]),
        (TOKENS[:2], CHINESE),
    ],
    ids=["short", "tall", "wide", "long words", "chinese"],
)
@pytest.mark.skipif(
    len(draw.list_figure_fonts()) < 2, reason="this computer has no font for Chinese"
)
def test_texts_of_attention_figure_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], columns: list[str]
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(draw, "_write_figure", lambda picture, *_: drawn.append(picture))
    values = [[1 / len(columns)] * len(columns)] * len(rows)
    grid = draw.Heatmap("cross-attention, mean over heads and layers", rows, columns, values)
    names = [f"head {head}" for head in range(8)]
    small = draw.HeatmapThumbnails("Every head", ["layer 1", "layer 0"], names, [[values] * 8] * 2)
    title = f"{' '.join(columns)}\n{' '.join(rows)}"
    draw.save_attention_figure(tmp_path / "a.png", title, grid, small)
    (picture,) = drawn
    with mpl.rc_context({"font.family": list(draw.list_figure_fonts())}):
        picture.draw_without_rendering()
        texts = [text for text in picture.findobj(Text) if text.get_visible() and text.get_text()]
        slanted = [text for text in texts if text.get_rotation() == 60]
        ends = [text.get_window_extent() for text in slanted]
        boxes = [text.get_window_extent() for text in texts if text not in slanted]
    assert len(slanted) == len(columns)
    pairs = [*combinations(boxes, 2), *product(boxes, ends)]
    assert not [pair for pair in pairs if pair[0].overlaps(pair[1])]
    assert len(picture.axes) == 1 + 16
