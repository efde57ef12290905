"""Training: from the settings of a recipe to a model directory.

`prepare_run` checks the settings and writes the files that the worker processes read;
`train_as_worker` trains in one worker process, from the start or from the last checkpoint.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2see.training.config import RunConfig
    from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
    from seq2see.training.run_directory import RunDirectory
    from seq2see.training.training_session import train_as_worker

__all__ = ["RunConfig", "RunDirectory", "prepare_run", "train_as_worker"]

_MODULES = {
    "RunConfig": "seq2see.training.config",
    "RunDirectory": "seq2see.training.run_directory",
    "prepare_run": "seq2see.training.corpus_and_tokenizer_preparation",
    "train_as_worker": "seq2see.training.training_session",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the whole package takes a second to import."""
    if name not in _MODULES:
        raise AttributeError(f"module 'seq2see.training' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
