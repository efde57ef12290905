"""`seq2see serve`: serve models over HTTP, with a web page on the same port."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from seq2see.cli.inputs import check_directories_exist
from seq2see.cli.options import parse_key_value
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.registries import EngineName, Precision


def serve(
    models: Annotated[list[Path] | None, typer.Argument(metavar="MODEL")] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535)] = 5000,
    api_keys: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    create_key: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    limits: Annotated[list[str] | None, typer.Option("--limit", metavar="KEY=VALUE")] = None,
    engine: EngineName = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=1024)] = None,
    precision: Precision = "float32",
    beam_size: Annotated[int, typer.Option(min=1)] = 5,
    runs: Annotated[Path | None, typer.Option(metavar="DIRECTORY")] = None,
    public_url: Annotated[str | None, typer.Option(metavar="URL")] = None,
    files: bool = True,
) -> None:
    """Serve models over HTTP.

    The service has the LibreTranslate API, the seq2see API and a web page. Models run on cuda if it
    is available, otherwise on the CPU.

    Args:
        models: Directories of the models to serve. At least one is required, except with
            --create-key. If several models have the same language pair, the first one translates
            it.
        host: Address to bind. 0.0.0.0 accepts connections from other machines.
        port: TCP port to bind; 0 selects a free port.
        api_keys: File with the names and hashes of API keys (TOML). If given, requests need one of
            these keys, except for the web page, /docs, /spec, /languages, /frontend/settings,
            /health, /ready and downloads of translated files.
        create_key: Create an API key with this name, add its hash to the file of --api-keys
            (required; created if it does not exist), print the key and exit.
        limits: Set a limit of the service, for example characters=5000, the maximum number of
            characters per request. docs/serving.md lists all limits. May be repeated.
        threads: Number of CPU threads per model. Default: all available cores.
        beam_size: Beam size of requests that do not set one.
        runs: Directory with run directories of `seq2see train`, whose training curves the web page
            shows. Default: none.
        public_url: URL under which clients reach the service through a reverse proxy, for example
            https://translate.example.org. It is used in the links to translated files and in /docs.
            Default: the URL of each request. If --host is a loopback address, only requests to
            localhost, 127.0.0.1, the --host or the host name of this URL are accepted; otherwise
            requests to any host name are accepted.
        files: Allow or forbid the translation of uploaded files.
    """
    if create_key is not None:
        _create_key(api_keys, create_key)
        return
    if not models:
        raise ConfigError("MODEL must be given: at least one model directory")
    check_directories_exist(runs)
    _check_dependencies()
    from seq2see.serve.config import LimitsConfig, ServeConfig
    from seq2see.serve.uvicorn_server import open_socket, run_server

    config = ServeConfig(
        host=host,
        port=port,
        public_url=public_url,
        beam_size=beam_size,
        files=files,
        limits=LimitsConfig(**dict(_parse_limits(limits or []))),
    )
    with open_socket(config) as listener:
        from seq2see.cpu import freeze_gc
        from seq2see.serve.authentication import ApiKeyStore
        from seq2see.serve.model_registry import ModelRegistry, load_served_model
        from seq2see.serve.monitoring import JsonLog
        from seq2see.serve.service import Service

        registry = ModelRegistry.load(
            models, lambda path: load_served_model(path, engine, threads, precision)
        )
        service = Service(config, registry, ApiKeyStore(api_keys), JsonLog(sys.stderr), runs)
        service.warm_up()
        freeze_gc()
        for model in registry:
            for note in model.translator.engine_notes:
                typer.echo(f"{model.name}: {note}", err=True)
        address, actual_port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        typer.echo(f"http://{shown}:{actual_port}")
        run_server(service, listener)


def _parse_limits(texts: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of limits, which the config checks."""
    for text in texts:
        yield from parse_key_value("--limit", text).items()


def _create_key(path: Path | None, name: str) -> None:
    from seq2see.serve.authentication import add_api_key

    if path is None:
        raise ConfigError(Problem("--create-key", "needs --api-keys"))
    typer.echo(add_api_key(path, name))
    typer.echo(f"Save the key: only its hash is stored in {path}.", err=True)


def _check_dependencies() -> None:
    """Raise InputError if packages of the extra `serve` are not installed."""
    from importlib.util import find_spec

    names = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")
    if missing := [name for name in names if find_spec(name) is None]:
        raise InputError(f"serving needs {', '.join(missing)}: pip install 'seq2see[serve]'")
