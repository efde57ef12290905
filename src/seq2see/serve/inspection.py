"""Routes that describe the loaded models, the training runs and the load of the service."""

from __future__ import annotations

import json
from contextlib import suppress
from io import SEEK_END
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import torch
from fastapi import APIRouter, Query
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import PlainTextResponse
from torch import nn

from seq2see.engines.torch_engine import TorchEngine
from seq2see.explain.trace_format import encode_tensor, to_numpy
from seq2see.model import POSITIONAL_ENCODINGS, RelativePositions, Transformer, count_parameters
from seq2see.serve.admission import AuthenticatedRoute
from seq2see.serve.dependencies import ServiceDep
from seq2see.serve.errors import NotFound
from seq2see.serve.model_registry import ServedModel
from seq2see.serve.service import Service

_MAX_POSITIONS = 64
_LOG_FILE = "log.jsonl"
_MAX_RECORDS = 5000
"""Largest number of log records per response; `next_offset` leads to the following ones."""


def describe_model(model: ServedModel) -> dict[str, Any]:
    """Return the JSON record of a model, without the path of its directory."""
    translator, error = model.translator, model.reload_error
    return {
        "name": model.name,
        "source": model.source,
        "target": model.target,
        "engine": translator.engine.name,
        "max_length": translator.max_tokens,
        "max_sentences_per_line": translator.max_sentences_per_line,
        "loaded_at": model.loaded_at,
        "reload_error": error and error.replace(str(model.path), model.name),
        "notes": list(translator.engine_notes),
    }


def _transformer(model: ServedModel) -> Transformer:
    engine = model.torch_translator.engine
    assert isinstance(engine, TorchEngine)
    return engine.model


def describe_module(module: nn.Module, name: str = "") -> dict[str, Any]:
    """Return a module and its submodules with the shapes and numbers of their parameters."""
    return {
        "name": name,
        "kind": type(module).__name__,
        "shapes": {key: list(w.shape) for key, w in module.named_parameters(recurse=False)},
        "parameters": count_parameters(module),
        "children": [describe_module(child, key) for key, child in module.named_children()],
    }


def list_training_runs(directory: Path | None) -> list[dict[str, Any]]:
    """Return the name and the modification time of each run, most recent first.

    A run is a subdirectory with a `log.jsonl`.
    """
    logs = _find_logs(directory).items()
    runs = [{"name": name, "modified_at": path.stat().st_mtime} for name, path in logs]
    return sorted(runs, key=itemgetter("modified_at", "name"), reverse=True)


def read_training_log(directory: Path | None, name: str, offset: int) -> dict[str, Any]:
    """Return the log records of a run after a byte offset, and the offset of the next ones.

    The log may grow at the same time. A resumed run truncates it. If no line ends at the offset any
    more, all records are returned, and `truncated` is true: the previously returned records are
    obsolete. The name is compared with the subdirectories and never becomes a path.

    Raises:
        NotFound: There is no such run.
    """
    path = _find_logs(directory).get(name)
    if path is None:
        raise NotFound(f"run {name[:40]} not found")
    records: list[Any] = []
    with path.open("rb") as file:
        truncated = offset > 0 and not _is_line_end(file, offset)
        offset = 0 if truncated else offset
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n") or len(records) == _MAX_RECORDS:
                break
            offset += len(line)
            with suppress(ValueError):  # a damaged line
                records.append(json.loads(line))
    return {"name": name, "records": records, "next_offset": offset, "truncated": truncated}


def _find_logs(directory: Path | None) -> dict[str, Path]:
    paths = directory.glob(f"*/{_LOG_FILE}") if directory else ()
    return {path.parent.name: path for path in paths if path.is_file()}


def _is_line_end(file: BinaryIO, offset: int) -> bool:
    if offset > file.seek(0, SEEK_END):  # `seek` fails beyond the largest offset of the OS
        return False
    file.seek(offset - 1)
    return file.read(1) == b"\n"


router = APIRouter(tags=["seq2see"], route_class=AuthenticatedRoute)


def _find_model(name: str, service: Service) -> ServedModel:
    model = service.models.find(name)
    if model is None:
        raise NotFound(f"model {name[:40]} not found")
    return model


@router.get("/api/v1/models", summary="List the models, and the limits of the search.")
async def list_models(service: ServiceDep) -> dict[str, Any]:
    """Return the models in the order of the command line."""
    config = service.config
    return {
        "models": [describe_model(model) for model in service.models],
        "search": {
            "beam_size": config.beam_size,
            "max_beam_size": config.limits.beam_size,
            "max_n_best": config.limits.alternatives + 1,
        },
    }


@router.get("/api/v1/models/{name}", summary="Return the config and the modules of a model.")
def read_model(name: str, service: ServiceDep) -> dict[str, Any]:
    """Return the record of a model with its config, its provenance and its modules."""
    model = _find_model(name, service)
    bundle, transformer = model.translator.bundle, _transformer(model)
    return {
        **describe_model(model),
        "config": bundle.config.model_dump(mode="json"),
        "provenance": bundle.provenance.model_dump(mode="json"),
        "vocabulary": {
            "source": bundle.tokenizers.source.vocab_size,
            "target": bundle.tokenizers.target.vocab_size,
        },
        "parameters": count_parameters(transformer),
        "module_tree": describe_module(transformer),
    }


@router.get("/api/v1/models/{name}/positions", summary="Return the position vectors of a model.")
@torch.inference_mode()
def read_position_vectors(name: str, service: ServiceDep) -> dict[str, Any]:
    """Return the vectors that the encoder adds to its first 64 positions; zeros if it adds none."""
    model = _find_model(name, service)
    embeddings = _transformer(model).encoder.embeddings
    positions = embeddings.positions
    num_positions = min(positions.max_positions or _MAX_POSITIONS, _MAX_POSITIONS)
    zeros_BTM = torch.zeros(1, num_positions, embeddings.tokens.weight_VM.size(1))
    config = model.translator.bundle.config.positions
    return {
        "kind": config.kind,
        "is_relative": issubclass(POSITIONAL_ENCODINGS[config.kind], RelativePositions),
        "layout": config.layout,
        "vectors": encode_tensor(to_numpy(positions(zeros_BTM)[0])),
    }


@router.get("/api/v1/runs", summary="List the training runs in the directory of --runs.")
def list_runs(service: ServiceDep) -> dict[str, Any]:
    """Return the runs, most recent first."""
    return {"runs": list_training_runs(service.runs_directory)}


@router.get("/api/v1/runs/{name}", summary="Return the log records of a run after a byte offset.")
def read_run(
    name: str, service: ServiceDep, offset: Annotated[int, Query(ge=0, le=2**62)] = 0
) -> dict[str, Any]:
    """Return the log records of a run."""
    return read_training_log(service.runs_directory, name, offset)


@router.get(
    "/metrics",
    summary="Return the metrics in the Prometheus text format.",
    response_class=PlainTextResponse,
)
async def metrics(service: ServiceDep) -> PlainTextResponse:
    """Return the metrics of the service."""
    return PlainTextResponse(service.metrics.render(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
