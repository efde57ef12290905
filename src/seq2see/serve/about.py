"""What a model is, for people who look at it: its languages, its settings, its parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from seq2see.engines.torch import TorchEngine
from seq2see.explain.tensors import array, pack
from seq2see.model import Transformer, count_parameters
from seq2see.model.positions import LearnedPositions
from seq2see.serve.config import ServeConfig
from seq2see.serve.models import Model

_POSITIONS = 64


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


def bounds(config: ServeConfig) -> dict[str, int]:
    """Return how wide a search is unless somebody says otherwise, and how wide it may be."""
    limits = config.limits
    return {
        "beam_size": config.beam_size,
        "most_beam_size": limits.beam_size,
        "most_n_best": limits.alternatives + 1,
    }


def architecture(model: Model) -> dict[str, Any]:
    """Return a model with its settings, its origin, and its parts as a tree."""
    bundle = model.translator.bundle
    parts = _parts(model)
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


@torch.inference_mode()
def positions(model: Model) -> dict[str, Any]:
    """Return what a model adds to its source tokens to say where they stand; zeros if nothing."""
    embeddings = _parts(model).encoder.embeddings
    added = embeddings.positions
    known = len(added.weight_NM) if isinstance(added, LearnedPositions) else _POSITIONS
    nowhere_BTM = torch.zeros(1, min(known, _POSITIONS), embeddings.tokens.weight_VM.size(1))
    settings = model.translator.bundle.config.positions
    return {
        "kind": settings.kind,
        "layout": settings.layout,
        "vectors": pack(array(added(nowhere_BTM)[0])),
    }


def _parts(model: Model) -> Transformer:
    engine = model.glass.engine
    assert isinstance(engine, TorchEngine)
    return engine.model


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
