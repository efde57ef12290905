"""A small translator of fables, for experiments about words: nearly the demo's recipe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seq2see.training.builder import RunBuilder
from seq2see.training.config import RunConfig, build_demo_config
from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
from seq2see.training.run_directory import RunDirectory
from seq2see.training.training_session import train_as_worker

SETTINGS: dict[str, Any] = {
    "schedule": {"peak_lr": 0.003},
    "validation": {"interval": 10**6, "max_sentences": 1000},
    "checkpoints": {"interval": 200},
    "model": {"norm": {"placement": "post"}},
}
"""What differs from the demo."""
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
    builder = RunBuilder(_ingredients(epochs, seed, threads), Path(), RunDirectory(home))
    with prepare_run(builder, resume=True):
        train_as_worker(builder, lambda _, plan, __: _Progress(plan.num_updates, say))


class _Progress:
    """Says now and then how far it is."""

    def __init__(self, updates: int, say: Callable[[str], None]) -> None:
        self._updates = updates
        self._say = say

    def write(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] % 100 == 0:
            self._say(f"fables: update {record['update']} of {self._updates}, {record['nll']:.2f}")

    def close(self) -> None:
        pass


def _ingredients(epochs: float, seed: int, threads: int | None) -> RunConfig:
    """Return the settings of the demo, with those that the results of the lab were made with."""
    hardware = {"processes": 1, "threads": threads}
    return build_demo_config(epochs, seed).replace(**SETTINGS, train=hardware)
