"""Suggest a recipe for a corpus, and estimate its training time on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from seq2see.data.batch_loader import BatchConfig
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import CorpusReport
from seq2see.data.quality.words import extract_words
from seq2see.data.readers import SentencePair
from seq2see.data.writers import create_files, write_pair
from seq2see.errors import Seq2SeeError
from seq2see.settings import Recipe
from seq2see.training.builder import RunBuilder
from seq2see.training.config import RunConfig
from seq2see.training.planning import plan_run
from seq2see.training.run_directory import RunDirectory
from seq2see.training.workers import WorkerGroup

_EPOCHS = {"tiny": 60.0, "small": 30.0, "base": 15.0, "big": 10.0}
"""Small corpora must be seen more often."""


_DROPOUT = {"tiny": 0.3, "small": 0.2, "base": 0.1, "big": 0.3}
"""Small corpora are sooner learnt by heart; `base` and `big` have the paper's."""


_PEAKS = {"tiny": 0.004, "small": 0.002, "base": 0.001, "big": 0.0007}
"""Learning rates: the wider a model, the smaller its steps. That of `tiny` was measured."""


_LEAST_UPDATES = 1000
"""However small the corpus: fewer teach a model nothing."""


_PIECES_A_WORD = 1.4
"""About, with the pieces that are suggested."""


_MOST_HELD_OUT = 1000


def suggest_recipe(
    report: CorpusReport, sides: tuple[str, str], parts: Mapping[str, Sequence[str]]
) -> Recipe:
    """Return it for these files of each part: train, valid, test."""
    files = {part: {"files": list(names)} for part, names in parts.items()}
    updates, preset = estimate_num_updates(report), report.suggestion.preset
    dropout = {"embedding": _DROPOUT[preset], "residual": _DROPOUT[preset]}
    intervals = {"interval": min(500, updates // 10)}
    return Recipe.model_validate(
        {
            "data": {**files, "languages": sides, "train": [files["train"]]},
            "tokenizer": {"vocab_size": report.suggestion.vocab_size},
            "train": {"max_epochs": _epochs(report)},
            "schedule": {
                "kind": "cosine",
                "peak_lr": _PEAKS[preset],
                "warmup_updates": min(1000, updates // 5),
            },
            "validation": intervals,
            "checkpoints": intervals,
            # With the norm behind, a small model hardly learns at such rates.
            "model": {"preset": preset, "norm": {"placement": "pre"}, "dropout": dropout},
        }
    )


def estimate_num_updates(report: CorpusReport) -> int:
    """Return about how many updates it takes."""
    return int(_epochs(report) * _updates_per_epoch(report))


def choose_evaluation_size(pairs: int) -> int:
    """Return how many pairs to keep for validation, and as many for the test."""
    return min(_MOST_HELD_OUT, max(1, pairs // 20))


def _epochs(report: CorpusReport) -> float:
    least = round(_LEAST_UPDATES / _updates_per_epoch(report))
    return float(max(_EPOCHS[report.suggestion.preset], least))


def _updates_per_epoch(report: CorpusReport) -> float:
    words = sum(side.words_per_line.mean for side in (report.source, report.target))
    return max(1.0, report.num_pairs * (_PIECES_A_WORD * words + 2) / BatchConfig().max_tokens)


_PAIRS = 2000
"""To measure with."""


_SECONDS = 1.0
"""Measure updates about so long."""


_PARTS = {"tiny": 1, "small": 4, "base": 8, "big": 16}
"""An update of a large model takes long: such a part of one is measured."""


_SIDES = ("xx", "yy")
"""Whatever the languages are."""


def estimate_training_seconds(report: CorpusReport, pairs: Iterable[SentencePair]) -> float | None:
    """Estimate how long the suggested recipe takes; None if this text cannot be trained on."""
    full = [pair for pair in _some(pairs, report.num_pairs) if all(map(str.strip, pair))]
    if not full:
        return None
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(report, full, Path(folder))
    except (Seq2SeeError, OSError):  # too few characters for a tokenizer, or no room for it
        return None


def _some(pairs: Iterable[SentencePair], count: int) -> Iterable[SentencePair]:
    step = max(1, count // _PAIRS)
    return islice(pairs, 0, step * _PAIRS, step)


def _measured(report: CorpusReport, pairs: Sequence[SentencePair], folder: Path) -> float | None:
    for name, some in (
        ("train", pairs),
        ("valid", pairs[: choose_evaluation_size(report.num_pairs)]),
    ):
        with create_files(folder, [f"{name}.{side}" for side in _SIDES]) as files:
            for pair in some:
                write_pair(files, pair)
    part = _PARTS[report.suggestion.preset]
    run = RunDirectory(folder / "run")
    run.path.mkdir()
    builder = RunBuilder(_ingredients(report, pairs, part, folder), run, WorkerGroup())
    builder.prepare_files()
    plan = plan_run(builder, seconds=_SECONDS)
    assert plan.seconds_per_update is not None
    whole = replace(plan, seconds_per_update=part * plan.seconds_per_update)
    return whole.remaining_seconds(0, builder.run_config.validation.interval)


def _ingredients(
    report: CorpusReport, pairs: Sequence[SentencePair], part: int, folder: Path
) -> RunConfig:
    """Return the suggested recipe, for a part of its batches."""
    names = {"train": "train", "valid": "valid", "test": "valid"}
    files = {of: [f"{name}.{side}" for side in _SIDES] for of, name in names.items()}
    recipe = suggest_recipe(report, _SIDES, files)
    tokens = recipe.batches.max_tokens // part
    few = recipe.replace(
        tokenizer={"user_defined_symbols": _fillers(recipe.tokenizer.vocab_size, pairs)},
        batches={"max_tokens": tokens, "max_length": min(256, tokens // 2 - 1)},
        train={"max_epochs": None, "max_updates": estimate_num_updates(report)},
    )
    return few.build_run_config(folder)


def _fillers(wanted: int, pairs: Sequence[SentencePair]) -> tuple[str, ...]:
    """Return symbols for the pieces that few pairs do not have: the model's size depends on all."""
    count = sum(len(extract_words(side)) for pair in pairs for side in pair)
    learnable = suggest_model(len(pairs), count, pairs).vocab_size
    return tuple(f"<<{number}>>" for number in range(wanted - learnable))
