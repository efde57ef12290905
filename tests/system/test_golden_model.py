"""A committed model translates and scores as it did when it was trained.

`tests/golden/model` was trained for 12 epochs on `builtin:fables-short` (d_model 32, 2 + 1 layers).
Its translations are imperfect, so that a change of the arithmetic is likely to change some of them.
`tests/golden/expected.json` holds the source lines with their translations and scores.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import seq2see

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("engine", "beam_size"), [("torch", 1), ("torch", 5), ("ctranslate2", 1)])
def test_golden_translations_are_unchanged(engine: str, beam_size: int, tmp_path: Path) -> None:
    directory = tmp_path / "model"  # a conversion to CTranslate2 is stored in the model directory
    shutil.copytree(GOLDEN / "model", directory)
    translator = seq2see.load(directory, engine=engine, precision="float32")
    results = translator.translate(EXPECTED["sources"], beam_size=beam_size)
    expected = EXPECTED["translations"][str(beam_size)]
    assert [result.text for result in results] == [row["text"] for row in expected]
    assert [result.score for result in results] == pytest.approx(
        [row["score"] for row in expected], abs=2e-5
    )


def test_golden_target_scores_are_unchanged() -> None:
    translator = seq2see.load(GOLDEN / "model", engine="torch")
    pairs = [(row["source"], row["target"]) for row in EXPECTED["pairs"]]
    scores = [pair.log_prob for pair in translator.score(pairs)]
    assert scores == pytest.approx([row["log_prob"] for row in EXPECTED["pairs"]], abs=1e-4)
