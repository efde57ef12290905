"""Estimate of the training time: measured on a sample, for the recipe of the whole corpus."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from seq2see.data.fables import load_fables_split
from seq2see.data.quality.analysis_and_filtering import analyze_corpus
from seq2see.data.quality.report import CorpusReport, ModelSuggestion
from seq2see.data.readers import SentencePair
from seq2see.registries import PRESETS, PresetName
from seq2see.settings import suggested_recipe_and_training_time
from seq2see.training.builder import RunBuilder
from seq2see.training.run_directory import RunPlan

PAIRS = [
    SentencePair(fable.source, fable.target)
    for fable in load_fables_split("valid", short=True)[:300]
]


def analyze_with_suggestion(preset: str, vocab_size: int) -> CorpusReport:
    report = analyze_corpus(PAIRS)
    return replace(report, suggestion=ModelSuggestion(preset, vocab_size, ""))  # type: ignore[arg-type]


@pytest.mark.parametrize(("preset", "divisor"), [("tiny", 1), ("small", 4), ("base", 8)])
def test_estimate_is_scaled_to_the_suggested_recipe(
    preset: str, divisor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders: list[RunBuilder] = []

    def plan_run(builder: RunBuilder, seconds: float) -> RunPlan:
        assert seconds < 4
        assert builder.tokenizers.source.vocab_size == 3000  # more subwords than 300 pairs have
        builders.append(builder)
        return RunPlan(builder.run_config.train.max_updates or 0, 1, 1, 2.0, 3.0, 5.0)

    monkeypatch.setattr(suggested_recipe_and_training_time, "plan_processes_and_updates", plan_run)
    report = analyze_with_suggestion(preset, 3000)
    seconds = suggested_recipe_and_training_time.estimate_training_seconds(report)
    (builder,) = builders
    updates = builder.run_config.train.max_updates
    assert updates is not None
    assert builder.run_config.batches.max_tokens == 4096 // divisor
    validations = updates // builder.run_config.validation.interval
    assert seconds == updates * divisor * 2.0 + validations * 3.0 + 5.0


@pytest.mark.parametrize("pair", [SentencePair(" ", "x"), SentencePair("x", "")])
def test_no_estimate_for_empty_pairs(pair: SentencePair) -> None:
    assert (
        suggested_recipe_and_training_time.estimate_training_seconds(analyze_corpus([pair])) is None
    )


def test_preset_names_are_those_of_the_model_config() -> None:
    assert get_args(PresetName) == tuple(PRESETS)
