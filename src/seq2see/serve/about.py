"""What a model is, for people who look at it: its languages, its settings, its parts."""

from __future__ import annotations

from typing import Any

from torch import nn

from seq2see.engines.torch import TorchEngine
from seq2see.model import count_parameters
from seq2see.serve.models import Model


def facts(model: Model) -> dict[str, Any]:
    """Return a model's line in the list. Its folder is the operator's own business."""
    translator = model.translator
    return {
        "name": model.name,
        "source": model.source,
        "target": model.target,
        "engine": translator.engine.name,
        "max_length": translator.limit,
        "loaded": model.loaded,
        "problem": _without_path(model),
        "notes": list(translator.notes),
    }


def architecture(model: Model) -> dict[str, Any]:
    """Return a model with its settings, its origin, and its parts as a tree."""
    bundle = model.translator.bundle
    engine = model.glass.engine
    assert isinstance(engine, TorchEngine)
    parts = engine.model
    return {
        **facts(model),
        "config": bundle.config.model_dump(mode="json"),
        "origin": bundle.origin.model_dump(mode="json"),
        "vocabulary": {
            "source": bundle.tokenizers.source.vocab_size,
            "target": bundle.tokenizers.target.vocab_size,
        },
        "parameters": count_parameters(parts),
        "tree": tree(parts),
    }


def tree(module: nn.Module, name: str = "") -> dict[str, Any]:
    """Return a module with its own weights' shapes, all its parameters, and its parts."""
    return {
        "name": name,
        "kind": type(module).__name__,
        "shapes": {key: list(w.shape) for key, w in module.named_parameters(recurse=False)},
        "parameters": count_parameters(module),
        "parts": [tree(part, key) for key, part in module.named_children()],
    }


def _without_path(model: Model) -> str | None:
    return model.problem and model.problem.replace(str(model.path), model.name)
