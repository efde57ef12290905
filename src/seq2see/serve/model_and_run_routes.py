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
from seq2see.explain.trace_format import encode_tensor, to_numpy
from seq2see.model import Transformer, count_parameters
from seq2see.model.embeddings import LearnedPositions
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import NotFound
from seq2see.serve.json_and_event_responses import FiniteJSONResponse
from seq2see.serve.model_registry import ServedModel
from seq2see.serve.openapi import array_schema, build_openapi_responses, object_schema
from seq2see.serve.request_authentication_and_threads import check_api_key
from seq2see.serve.service import Service

_MAX_POSITIONS = 64
_LOG_FILE = "log.jsonl"
_MAX_RECORDS = 5000
"""Largest number of log records per response; `next_offset` leads to the following ones."""


def describe_model(model: ServedModel) -> dict[str, Any]:
    """Return the JSON record of a model, without the path of its directory."""
    translator = model.translator
    return {
        "name": model.name,
        "source": model.source,
        "target": model.target,
        "engine": translator.engine.name,
        "max_length": translator.max_tokens,
        "loaded_at": model.loaded_at,
        "reload_error": _reload_error_without_path(model),
        "notes": list(translator.engine_notes),
    }


def describe_search_limits(config: ServeConfig) -> dict[str, int]:
    """Return the default beam size, the largest one, and the largest number of translations."""
    limits = config.limits
    return {
        "beam_size": config.beam_size,
        "max_beam_size": limits.beam_size,
        "max_n_best": limits.alternatives + 1,
    }


def describe_architecture(model: ServedModel) -> dict[str, Any]:
    """Return the JSON record of a model with its config, its provenance and its modules."""
    bundle = model.translator.bundle
    transformer = _transformer(model)
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


@torch.inference_mode()
def describe_position_vectors(model: ServedModel) -> dict[str, Any]:
    """Return the vectors that the encoder adds to its first 64 positions; zeros if it adds none."""
    embeddings = _transformer(model).encoder.embeddings
    positions = embeddings.positions
    num_known = (
        len(positions.weight_NM) if isinstance(positions, LearnedPositions) else _MAX_POSITIONS
    )
    zeros_BTM = torch.zeros(1, min(num_known, _MAX_POSITIONS), embeddings.tokens.weight_VM.size(1))
    config = model.translator.bundle.config.positions
    return {
        "kind": config.kind,
        "layout": config.layout,
        "vectors": encode_tensor(to_numpy(positions(zeros_BTM)[0])),
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


def _reload_error_without_path(model: ServedModel) -> str | None:
    return model.reload_error and model.reload_error.replace(str(model.path), model.name)


class TrainingRuns:
    """Reads the logs of the training runs in a directory, also while they are written.

    A run is a subdirectory with a `log.jsonl`. Names of runs are compared with the subdirectories
    and never become paths.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the name and the modification time of each run, most recent first."""
        runs = [(path.stat().st_mtime, path.parent.name) for path in self._log_paths()]
        return [
            {"name": name, "modified_at": modified_at}
            for modified_at, name in sorted(runs, reverse=True)
        ]

    def read_records(self, name: str, offset: int) -> dict[str, Any]:
        """Return the log records of a run after a byte offset, and the offset of the next ones.

        A resumed run truncates its log. If no line ends at the offset any more, all records are
        returned, and `truncated` is true: the previously returned records are obsolete.

        Raises:
            NotFound: There is no such run.
        """
        path = next((path for path in self._log_paths() if path.parent.name == name), None)
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
                records += _parse_record(line)
        return {"name": name, "records": records, "next_offset": offset, "truncated": truncated}

    def _log_paths(self) -> Iterator[Path]:
        if self._directory is None or not self._directory.is_dir():
            return
        for directory in sorted(self._directory.iterdir()):
            if (path := directory / _LOG_FILE).is_file():
                yield path


def _is_line_end(file: BinaryIO, offset: int) -> bool:
    if offset > file.seek(0, SEEK_END):  # `seek` fails beyond the largest offset of the OS
        return False
    file.seek(offset - 1)
    return file.read(1) == b"\n"


def _parse_record(line: bytes) -> list[Any]:
    """Return the record of a line in a list; an empty list if the line is damaged."""
    try:
        return [json.loads(line)]
    except ValueError:
        return []


def add_model_routes(router: APIRouter, service: Service) -> None:
    """Add the routes below /api/v1/models."""

    def find_model(name: str, request: Request) -> ServedModel:
        check_api_key(request, service)
        model = service.models.find(name)
        if model is None:
            raise NotFound(f"model {name[:40]} not found")
        return model

    @router.get(
        "/models",
        summary="List the models, and the limits of the search.",
        responses=build_openapi_responses(
            object_schema(models=array_schema({"type": "object"}), search={"type": "object"})
        ),
    )
    async def models(request: Request) -> Response:
        check_api_key(request, service)
        records = [describe_model(model) for model in service.models]
        search = describe_search_limits(service.config)
        return FiniteJSONResponse({"models": records, "search": search})

    @router.get(
        "/models/{name}",
        summary="Return the config and the modules of a model.",
        responses=build_openapi_responses({"type": "object"}, 404),
    )
    def architecture(name: str, request: Request) -> Response:
        return FiniteJSONResponse(describe_architecture(find_model(name, request)))

    @router.get(
        "/models/{name}/positions",
        summary="Return the position vectors of a model.",
        responses=build_openapi_responses({"type": "object"}, 404),
    )
    def positions(name: str, request: Request) -> Response:
        return FiniteJSONResponse(describe_position_vectors(find_model(name, request)))


def add_run_routes(router: APIRouter, service: Service) -> None:
    """Add the routes below /api/v1/runs."""
    runs = TrainingRuns(service.runs_directory)

    @router.get(
        "/runs",
        summary="List the training runs in the directory of --runs.",
        responses=build_openapi_responses(object_schema(runs=array_schema({"type": "object"}))),
    )
    def list_runs(request: Request) -> Response:
        check_api_key(request, service)
        return FiniteJSONResponse({"runs": runs.list_runs()})

    @router.get(
        "/runs/{name}",
        summary="Return the log records of a run after a byte offset.",
        responses=build_openapi_responses({"type": "object"}, 404),
    )
    def read_run(
        name: str, request: Request, offset: Annotated[int, Query(ge=0, le=2**62)] = 0
    ) -> Response:
        check_api_key(request, service)
        return FiniteJSONResponse(runs.read_records(name, offset))
