"""How long training would take on this machine, by its own measurements on a few pairs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from seq2see.cli import suggested
from seq2see.data.doctor import Report
from seq2see.data.doctor.suggestion import suggest
from seq2see.data.doctor.words import words
from seq2see.data.readers import Pair
from seq2see.data.writers import new_files, write_pair
from seq2see.errors import Seq2SeeError
from seq2see.training.builder import Ingredients, RunBuilder
from seq2see.training.pace import planned
from seq2see.training.run import RunFolder
from seq2see.training.workers import Workers

_PAIRS = 2000
"""To measure with."""
_SECONDS = 1.0
"""Measure updates about so long."""
_PARTS = {"tiny": 1, "small": 4, "base": 8, "big": 16}
"""An update of a large model takes long: such a part of one is measured."""
_SIDES = ("xx", "yy")
"""Whatever the languages are."""


def training_seconds(report: Report, pairs: Iterable[Pair]) -> float | None:
    """Estimate how long the suggested recipe takes; None if this text cannot be trained on."""
    full = [pair for pair in _some(pairs, report.pairs) if all(map(str.strip, pair))]
    if not full:
        return None
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(report, full, Path(folder))
    except (Seq2SeeError, OSError):  # too few characters for a tokenizer, or no room for it
        return None


def _some(pairs: Iterable[Pair], count: int) -> Iterable[Pair]:
    step = max(1, count // _PAIRS)
    return islice(pairs, 0, step * _PAIRS, step)


def _measured(report: Report, pairs: Sequence[Pair], folder: Path) -> float | None:
    for name, some in (("train", pairs), ("valid", pairs[: suggested.held_out(report.pairs)])):
        with new_files(folder, [f"{name}.{side}" for side in _SIDES]) as files:
            for pair in some:
                write_pair(files, pair)
    part = _PARTS[report.suggestion.preset]
    run = RunFolder(folder / "run")
    run.path.mkdir()
    builder = RunBuilder(_ingredients(report, pairs, part, folder), run, Workers())
    builder.make_files()
    plan = planned(builder, seconds=_SECONDS)
    assert plan.seconds_per_update is not None
    whole = replace(plan, seconds_per_update=part * plan.seconds_per_update)
    return whole.seconds(0, builder.ingredients.validation.every)


def _ingredients(report: Report, pairs: Sequence[Pair], part: int, folder: Path) -> Ingredients:
    """Return the suggested recipe, for a part of its batches."""
    names = {"train": "train", "valid": "valid", "test": "valid"}
    files = {of: [f"{name}.{side}" for side in _SIDES] for of, name in names.items()}
    recipe = suggested.recipe(report, _SIDES, files)
    tokens = recipe.batches.tokens // part
    few = recipe.replace(
        tokenizer={"symbols": _fillers(recipe.tokenizer.vocab_size, pairs)},
        batches={"tokens": tokens, "max_length": min(256, tokens // 2 - 1)},
        train={"epochs": None, "updates": suggested.updates_of(report)},
    )
    return few.ingredients(folder)


def _fillers(wanted: int, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return symbols for the pieces that few pairs do not have: the model's size depends on all."""
    count = sum(len(words(side)) for pair in pairs for side in pair)
    learnable = suggest(len(pairs), count, pairs).vocab_size
    return tuple(f"<<{number}>>" for number in range(wanted - learnable))
