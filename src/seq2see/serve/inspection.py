"""Routes of /api/v1 that describe the loaded models and the training runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import SEEK_END
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import torch
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response
from torch import nn

from seq2see.engines.torch_engine import TorchEngine
from seq2see.explain.trace import array, pack
from seq2see.model import Transformer, count_parameters
from seq2see.model.embeddings import LearnedPositions
from seq2see.serve import openapi
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import NotFound
from seq2see.serve.executor import require_key
from seq2see.serve.model_registry import Model
from seq2see.serve.responses import Json
from seq2see.serve.service import Service

_POSITIONS = 64


def describe_model(model: Model) -> dict[str, Any]:
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


def describe_search_limits(config: ServeConfig) -> dict[str, int]:
    """Return how wide a search is unless somebody says otherwise, and how wide it may be."""
    limits = config.limits
    return {
        "beam_size": config.beam_size,
        "most_beam_size": limits.beam_size,
        "most_n_best": limits.alternatives + 1,
    }


def describe_architecture(model: Model) -> dict[str, Any]:
    """Return a model with its settings, its origin, and its parts as a tree."""
    bundle = model.translator.bundle
    parts = _parts(model)
    return {
        **describe_model(model),
        "config": bundle.config.model_dump(mode="json"),
        "origin": bundle.origin.model_dump(mode="json"),
        "vocabulary": {
            "source": bundle.tokenizers.source.vocab_size,
            "target": bundle.tokenizers.target.vocab_size,
        },
        "parameters": count_parameters(parts),
        "tree": describe_module(parts),
    }


@torch.inference_mode()
def describe_positions(model: Model) -> dict[str, Any]:
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


def describe_module(module: nn.Module, name: str = "") -> dict[str, Any]:
    """Return a module with its own weights' shapes, all its parameters, and its parts."""
    return {
        "name": name,
        "kind": type(module).__name__,
        "shapes": {key: list(w.shape) for key, w in module.named_parameters(recurse=False)},
        "parameters": count_parameters(module),
        "parts": [describe_module(part, key) for key, part in module.named_children()],
    }


def _without_path(model: Model) -> str | None:
    return model.problem and model.problem.replace(str(model.path), model.name)


_LOG = "log.jsonl"


_MOST = 5000
"""Records of one answer; the next ones are asked for by `next`."""


class Runs:
    """Reads logs, also while they grow. A name leads only to what the folder lists."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def names(self) -> list[dict[str, Any]]:
        """Return the runs, those that were written to last first."""
        found = [(path.stat().st_mtime, path.parent.name) for path in self._logs()]
        return [{"name": name, "changed": changed} for changed, name in sorted(found, reverse=True)]

    def records(self, name: str, after: int) -> dict[str, Any]:
        """Return the records of a run from a byte on, whole lines only, and where they end.

        A run that is resumed cuts its log: where no line ends at that byte any more, all records
        come, and `restarted` says that those of before do not count.
        """
        path = next((path for path in self._logs() if path.parent.name == name), None)
        if path is None:
            raise NotFound(f"{name[:40]} is not a run here")
        records: list[Any] = []
        with path.open("rb") as file:
            restarted = after > 0 and not _is_line_end(file, after)
            after = 0 if restarted else after
            file.seek(after)
            for line in file:
                if not line.endswith(b"\n") or len(records) == _MOST:
                    break
                after += len(line)
                records += _record(line)
        return {"name": name, "records": records, "next": after, "restarted": restarted}

    def _logs(self) -> Iterator[Path]:
        if self._folder is None or not self._folder.is_dir():
            return
        for folder in sorted(self._folder.iterdir()):
            if (log := folder / _LOG).is_file():
                yield log


def _is_line_end(file: BinaryIO, place: int) -> bool:
    if place > file.seek(0, SEEK_END):  # files have a greatest place, beyond which `seek` fails
        return False
    file.seek(place - 1)
    return file.read(1) == b"\n"


def _record(line: bytes) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []


def add_model_routes(routes: APIRouter, service: Service) -> None:
    """Add the routes that describe models."""

    def named(name: str, request: Request) -> Model:
        require_key(request, service)
        model = service.models.named(name)
        if model is None:
            raise NotFound(f"{name[:40]} is not a model here")
        return model

    @routes.get(
        "/models",
        summary="List the models, and how wide they may search.",
        responses=openapi.answers(
            openapi.table(models=openapi.listed({"type": "object"}), search={"type": "object"})
        ),
    )
    async def models(request: Request) -> Response:
        require_key(request, service)
        found = [describe_model(model) for model in service.models]
        return Json({"models": found, "search": describe_search_limits(service.config)})

    @routes.get(
        "/models/{name}",
        summary="Show what a model is made of.",
        responses=openapi.answers({"type": "object"}, 404),
    )
    def architecture(name: str, request: Request) -> Response:
        return Json(describe_architecture(named(name, request)))

    @routes.get(
        "/models/{name}/positions",
        summary="Show the vectors that tell a model where its first tokens stand.",
        responses=openapi.answers({"type": "object"}, 404),
    )
    def positions(name: str, request: Request) -> Response:
        return Json(describe_positions(named(name, request)))


def add_run_routes(routes: APIRouter, service: Service) -> None:
    """Add the routes that read training runs."""
    runs = Runs(service.runs)

    @routes.get(
        "/runs",
        summary="List the training runs of the folder that the operator named.",
        responses=openapi.answers(openapi.table(runs=openapi.listed({"type": "object"}))),
    )
    def list_runs(request: Request) -> Response:
        require_key(request, service)
        return Json({"runs": runs.names()})

    @routes.get(
        "/runs/{name}",
        summary="Read the log of a run, from where the last answer ended.",
        responses=openapi.answers({"type": "object"}, 404),
    )
    def read_run(
        name: str, request: Request, after: Annotated[int, Query(ge=0, le=2**62)] = 0
    ) -> Response:
        require_key(request, service)
        return Json(runs.records(name, after))
