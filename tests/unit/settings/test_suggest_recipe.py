"""The time that training would take: measured on few pairs, for the recipe of all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seq2see.data.fables import load_fables
from seq2see.data.quality.analysis import analyze_corpus
from seq2see.data.quality.report import CorpusReport, ModelSuggestion
from seq2see.data.readers import SentencePair
from seq2see.settings import suggest_recipe
from seq2see.training.builder import RunBuilder
from seq2see.training.run_directory import RunPlan

PAIRS = [
    SentencePair(fable.source, fable.target) for fable in load_fables("valid", short=True)[:300]
]


def suggesting(preset: str, pieces: int) -> CorpusReport:
    report = analyze_corpus(PAIRS)
    return replace(report, suggestion=ModelSuggestion(preset, pieces, ""))  # type: ignore[arg-type]


@pytest.mark.parametrize(("preset", "part"), [("tiny", 1), ("small", 4), ("base", 8)])
def test_estimate_is_scaled_to_the_suggested_recipe(
    preset: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunBuilder] = []

    def plan_run(builder: RunBuilder, seconds: float) -> RunPlan:
        assert seconds < 4
        assert builder.tokenizers.source.vocab_size == 3000  # more than 300 pairs have
        seen.append(builder)
        return RunPlan(builder.run_config.training.max_updates or 0, 1, 1, 2.0, 3.0, 5.0)

    monkeypatch.setattr(suggest_recipe, "plan_run", plan_run)
    found = suggest_recipe.estimate_training_seconds(suggesting(preset, 3000), PAIRS)
    (builder,) = seen
    updates = builder.run_config.training.max_updates
    assert updates is not None
    assert builder.run_config.batches.max_tokens == 4096 // part
    looks = updates // builder.run_config.validation.interval
    assert found == updates * part * 2.0 + looks * 3.0 + 5.0


@pytest.mark.parametrize("pair", [SentencePair(" ", "x"), SentencePair("x", "")])
def test_no_estimate_for_empty_pairs(pair: SentencePair) -> None:
    assert suggest_recipe.estimate_training_seconds(analyze_corpus([pair]), [pair]) is None
