"""The time that training would take: measured on few pairs, for the recipe of all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seq2see.data.fables import load
from seq2see.data.quality.analysis import examine
from seq2see.data.quality.report import Report, Suggestion
from seq2see.data.readers import Pair
from seq2see.settings import suggest_recipe
from seq2see.training.builder import RunBuilder
from seq2see.training.run_directory import RunPlan

PAIRS = [Pair(fable.source, fable.target) for fable in load("valid", short=True)[:300]]


def suggesting(preset: str, pieces: int) -> Report:
    report = examine(PAIRS)
    return replace(report, suggestion=Suggestion(preset, pieces, ""))  # type: ignore[arg-type]


@pytest.mark.parametrize(("preset", "part"), [("tiny", 1), ("small", 4), ("base", 8)])
def test_it_is_that_of_the_whole_recipe(
    preset: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunBuilder] = []

    def planned(builder: RunBuilder, seconds: float) -> RunPlan:
        assert seconds < 4
        assert builder.tokenizers.source.vocab_size == 3000  # more than 300 pairs have
        seen.append(builder)
        return RunPlan(builder.ingredients.training.updates or 0, 1, 1, 2.0, 3.0, 5.0)

    monkeypatch.setattr(suggest_recipe, "planned", planned)
    found = suggest_recipe.training_seconds(suggesting(preset, 3000), PAIRS)
    (builder,) = seen
    updates = builder.ingredients.training.updates
    assert updates is not None
    assert builder.ingredients.batches.tokens == 4096 // part
    looks = updates // builder.ingredients.validation.every
    assert found == updates * part * 2.0 + looks * 3.0 + 5.0


@pytest.mark.parametrize("pair", [Pair(" ", "x"), Pair("x", "")])
def test_of_nothing_there_is_none(pair: Pair) -> None:
    assert suggest_recipe.training_seconds(examine([pair]), [pair]) is None
