"""Pictures are written, in the format that the name asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see import draw
from seq2see.errors import InputError

PARTS = [
    draw.Histogram(
        "Lengths", "words", {"source": ((0, 1, 2), (3, 4)), "target": ((0, 2, 4), (1, 1))}
    ),
    draw.Bars("Findings", {"empty": 3, "misaligned": 1}, [draw.RED, draw.GREY]),
]


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_formats(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / f"a.{ending}"
    draw.panels(path, "a corpus", PARTS)
    assert path.read_bytes().startswith(start)


def test_words_of_an_svg_stay_words(tmp_path: Path) -> None:
    draw.panels(tmp_path / "a.svg", "a corpus", PARTS)
    text = (tmp_path / "a.svg").read_text("utf-8")
    for words in ("a corpus", "Lengths", "misaligned", "target"):
        assert words in text


def test_a_name_without_a_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end with one of .png, .svg, .pdf"):
        draw.panels(tmp_path / "a", "a corpus", PARTS)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: there is no folder"):
        draw.panels(tmp_path / "b" / "a.png", "a corpus", PARTS)
