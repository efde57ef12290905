"""A small translator of fables, for experiments about words: the demo's recipe, a bit shorter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seq2see.data.batch_loader import BatchConfig
from seq2see.data.corpus_config_and_reading import CorpusConfig, DataConfig, TrainingCorpusConfig
from seq2see.loss import LossConfig
from seq2see.text import TokenizerConfig
from seq2see.training.config import (
    CheckpointConfig,
    RunConfig,
    TrainingLimitsAndHardwareConfig,
    ValidationConfig,
)
from seq2see.training.optimizers_and_gradient_clipping import OptimizerConfig
from seq2see.training.preparation import prepare_run
from seq2see.training.run_directory import RunDirectory
from seq2see.training.schedule import ScheduleConfig
from seq2see.training.training_session import train_as_worker

NAME = "builtin:fables-short"
_MODEL = {"preset": "tiny", "encoder_layers": 2, "decoder_layers": 2}
FORMAT = 1
"""Changes when a run makes another model of the same recipe, so that none is taken for it."""


def fingerprint(epochs: float, seed: int) -> str:
    """SHA-256 of what decides the translator: the recipe, the text and `FORMAT`."""
    parts = _ingredients(epochs, seed, threads=None)
    configs = (
        *(parts.data, parts.tokenizer, parts.batches, parts.loss, parts.optimizer, parts.schedule),
        *(parts.train, parts.checkpoints, parts.build_model_config(parts.tokenizer.vocab_size)),
    )
    corpora = (parts.data.build_corpus(each, Path()) for each in parts.data.train)
    content = {
        "recipe": [config.model_dump(mode="json") for config in configs],
        "text": [corpus.fingerprint for corpus in corpora],
        "format": FORMAT,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


def learn_fables(
    home: Path,
    epochs: float,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
    threads: int | None = None,
) -> None:
    """Train the translator into a model directory; one that was stopped goes on."""
    ingredients, folder = _ingredients(epochs, seed, threads), RunDirectory(home)
    with prepare_run(ingredients, Path(), folder, resume=True) as prepared:
        train_as_worker(prepared.builder, lambda plan, _: _Progress(plan.num_updates, say))


class _Progress:
    """Says now and then how far it is."""

    def __init__(self, updates: int, say: Callable[[str], None]) -> None:
        self._updates = updates
        self._say = say

    def write(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] % 100 == 0:
            self._say(f"fables: update {record['update']} of {self._updates}, {record['nll']:.2f}")


def _ingredients(epochs: float, seed: int, threads: int | None) -> RunConfig:
    return RunConfig(
        data=DataConfig(
            languages=("en", "fr"),
            train=(TrainingCorpusConfig(files=(NAME,)),),
            valid=CorpusConfig(files=(f"{NAME}/valid",)),
        ),
        tokenizer=TokenizerConfig(vocab_size=1200),
        batches=BatchConfig(max_tokens=2048, max_length=64),
        loss=LossConfig(),
        optimizer=OptimizerConfig(),
        schedule=ScheduleConfig(kind="cosine", peak_lr=0.003, warmup_updates=200),
        train=TrainingLimitsAndHardwareConfig(
            max_epochs=epochs, seed=seed, processes=1, threads=threads
        ),
        validation=ValidationConfig(interval=10**6),
        checkpoints=CheckpointConfig(interval=200, keep_last=1, final_weights="last"),
        model=_MODEL,
    )
