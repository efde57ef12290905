"""Suggest a recipe for a corpus, and estimate its training time on this machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from seq2see.data.batch_loader import BatchConfig
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import CorpusReport
from seq2see.data.quality.words_and_word_ids import extract_words
from seq2see.data.readers import SentencePair
from seq2see.errors import Seq2SeeError
from seq2see.registries import PresetName
from seq2see.settings import Recipe
from seq2see.training.builder import RunBuilder
from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
from seq2see.training.process_and_update_counts import plan_processes_and_updates
from seq2see.training.run_directory import RunDirectory


class _PresetTraining(NamedTuple):
    """Suggested settings for training a preset, and how it is measured."""

    epochs: float
    """Small corpora need more epochs."""
    dropout: float
    """Small corpora overfit sooner; `base` and `big` have the values of the paper."""
    peak_lr: float
    """Wider models need smaller learning rates. That of `tiny` was measured."""
    batch_divisor: int
    """An update of a large model takes long, so it is measured with this fraction of a batch."""


_PRESETS: Mapping[PresetName, _PresetTraining] = {
    "tiny": _PresetTraining(60.0, 0.3, 0.004, 1),
    "small": _PresetTraining(30.0, 0.2, 0.002, 4),
    "base": _PresetTraining(15.0, 0.1, 0.001, 8),
    "big": _PresetTraining(10.0, 0.3, 0.0007, 16),
}
_MIN_UPDATES = 1000
"""Fewer updates are not enough to train a model, however small the corpus."""
_SUBWORDS_PER_WORD = 1.4
"""Approximate, with the suggested vocabulary size."""
_MAX_EVALUATION_SIZE = 1000

_MEASURED_PAIRS = 2000
"""Sentence pairs that the training time is measured with."""
_MEASUREMENT_SECONDS = 1.0
"""Approximate duration of the measurement."""
_DUMMY_LANGUAGES = ("xx", "yy")
"""Training time does not depend on the languages."""


def suggest_recipe(
    report: CorpusReport, languages: tuple[str, str], split_files: Mapping[str, Sequence[str]]
) -> Recipe:
    """Return a recipe for a corpus.

    Args:
        report: analysis of the corpus
        languages: source and target language
        split_files: files of the splits train, valid and test
    """
    corpora = {split: {"files": list(names)} for split, names in split_files.items()}
    updates, preset = estimate_num_updates(report), report.suggestion.preset
    training = _PRESETS[preset]
    dropout = {"embedding": training.dropout, "residual": training.dropout}
    interval = {"interval": min(500, updates // 10)}
    return Recipe.model_validate(
        {
            "data": {**corpora, "languages": languages, "train": [corpora["train"]]},
            "tokenizer": {"vocab_size": report.suggestion.vocab_size},
            "train": {"max_epochs": _choose_epochs(report)},
            "schedule": {
                "kind": "cosine",
                "peak_lr": training.peak_lr,
                "warmup_updates": min(1000, updates // 5),
            },
            "validation": interval,
            "checkpoints": interval,
            # With post-norm, a small model hardly learns at these learning rates.
            "model": {"preset": preset, "norm": {"placement": "pre"}, "dropout": dropout},
        }
    )


def estimate_num_updates(report: CorpusReport) -> int:
    """Return the approximate number of updates of the suggested recipe."""
    return int(_choose_epochs(report) * _updates_per_epoch(report))


def choose_evaluation_size(num_pairs: int) -> int:
    """Return the number of pairs of the validation set, and of the test set, for a corpus."""
    return min(_MAX_EVALUATION_SIZE, max(1, num_pairs // 20))


def _choose_epochs(report: CorpusReport) -> float:
    min_epochs = round(_MIN_UPDATES / _updates_per_epoch(report))
    return float(max(_PRESETS[report.suggestion.preset].epochs, min_epochs))


def _updates_per_epoch(report: CorpusReport) -> float:
    words = sum(side.words_per_line.mean for side in (report.source, report.target))
    tokens_per_pair = _SUBWORDS_PER_WORD * words + 2
    return max(1.0, report.num_pairs * tokens_per_pair / BatchConfig().max_tokens)


def estimate_training_seconds(report: CorpusReport) -> float | None:
    """Return the training time of the suggested recipe on this machine, by a measurement.

    Returns None if a model cannot be trained on this corpus.
    """
    step = max(1, len(report.sample) // _MEASURED_PAIRS)
    sampled = report.sample[::step][:_MEASURED_PAIRS]
    sample = [pair for pair in sampled if all(map(str.strip, pair))]
    if not sample:
        return None
    try:
        with tempfile.TemporaryDirectory() as directory:
            return _measure_seconds(report, sample, Path(directory))
    except (Seq2SeeError, OSError):  # too few characters for a tokenizer, or a full disk
        return None


def _measure_seconds(
    report: CorpusReport, sample: Sequence[SentencePair], directory: Path
) -> float | None:
    """Prepare a run in a temporary directory, measure its updates, and scale them up."""
    valid = sample[: choose_evaluation_size(report.num_pairs)]
    for split, pairs in (("train", sample), ("valid", valid)):
        lines = (json.dumps(dict(zip(_DUMMY_LANGUAGES, pair, strict=True))) for pair in pairs)
        (directory / f"{split}.jsonl").write_text("\n".join(lines), "utf-8")
    divisor = _PRESETS[report.suggestion.preset].batch_divisor
    run_config = _build_measured_config(report, sample, divisor)
    builder = RunBuilder(run_config, directory, RunDirectory(directory / "run"))
    with prepare_run(builder):
        plan = plan_processes_and_updates(builder, seconds=_MEASUREMENT_SECONDS)
    assert plan.seconds_per_update is not None
    full_plan = replace(plan, seconds_per_update=divisor * plan.seconds_per_update)
    return full_plan.remaining_seconds(0, run_config.validation.interval)


def _build_measured_config(
    report: CorpusReport, sample: Sequence[SentencePair], divisor: int
) -> Recipe:
    """Return the suggested recipe with smaller batches."""
    split_files = {"train": ["train.jsonl"], "valid": ["valid.jsonl"], "test": ["valid.jsonl"]}
    recipe = suggest_recipe(report, _DUMMY_LANGUAGES, split_files)
    max_tokens = recipe.batches.max_tokens // divisor
    fillers = _make_fillers(recipe.tokenizer.vocab_size, sample)
    return recipe.replace(
        tokenizer={"user_defined_symbols": fillers},
        batches={"max_tokens": max_tokens, "max_length": min(256, max_tokens // 2 - 1)},
        train={"max_epochs": None, "max_updates": estimate_num_updates(report)},
    )


def _make_fillers(vocab_size: int, sample: Sequence[SentencePair]) -> tuple[str, ...]:
    """Return symbols that fill the vocabulary, because a sample has too few subwords.

    The measured model must have the full vocabulary size.
    """
    num_words = sum(len(extract_words(side)) for pair in sample for side in pair)
    learnable = suggest_model(len(sample), num_words, sample).vocab_size
    return tuple(f"<<{number}>>" for number in range(vocab_size - learnable))
