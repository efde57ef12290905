"""`seq2see serve`: a translation service and a page, on one port, offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import refuse_no_folder
from seq2see.cli.options import EngineName, Precision, let_threads_sleep
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from socket import socket

    from seq2see.serve.config import ServeConfig


def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="MODEL…", help="Model directories.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets others in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 5000,
    api_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let in only those who have a key in it.")
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Draw a key, add it to --api-keys, print it, and end."),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=VALUE", help="Such as characters=5000; may be repeated."
        ),
    ] = None,
    engine: Annotated[EngineName, typer.Option(help="What computes.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the engine; by default one a core.")
    ] = None,
    precision: Precision = "float32",
    beam_size: Annotated[int, typer.Option(min=1, help="Of requests that name none.")] = 5,
    runs: Annotated[
        Path | None, typer.Option(help="A folder of training runs, to show their curves.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="What clients call it, behind a proxy.")
    ] = None,
    files: Annotated[bool, typer.Option(help="Translate files too.")] = True,
) -> None:
    """Serve models over HTTP: LibreTranslate's interface, our own, and a page."""
    if new_key is not None:
        _draw(api_keys, new_key)
        return
    if not models:
        raise ConfigError(["MODEL must be given: give a model directory at least"])
    refuse_no_folder(runs)
    let_threads_sleep()
    _require_extra()
    from seq2see.serve.server import listen

    config = _config(
        host=host,
        port=port,
        public_url=public_url,
        engine=engine,
        threads=threads,
        precision=precision,
        beam_size=beam_size,
        files=files,
        limits=_table(limits or []),
    )
    with listen(config) as listener:
        _serve(config, listener, models, api_keys, runs)


def _serve(
    config: ServeConfig,
    listener: socket,
    folders: list[Path],
    api_keys: Path | None,
    runs: Path | None,
) -> None:
    from seq2see.cpu import keep_what_is_loaded
    from seq2see.serve.auth import ApiKeys
    from seq2see.serve.model_registry import Models, read
    from seq2see.serve.monitoring import Journal
    from seq2see.serve.server import run
    from seq2see.serve.service import Service

    keys = ApiKeys(api_keys)
    how = config.engine, config.threads, config.precision
    models = Models.load(folders, lambda folder: read(folder, *how))
    service = Service(config, models, keys, Journal.standard(), runs)
    service.warm_up()
    keep_what_is_loaded()
    for model in models:
        for note in model.translator.notes:
            typer.echo(f"{model.name}: {note}", err=True)
    host, port = listener.getsockname()[:2]
    typer.echo(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    run(service, listener)


def _config(**settings: object) -> ServeConfig:
    from seq2see.serve.config import ServeConfig

    return ServeConfig.model_validate(settings)


def _table(pairs: list[str]) -> dict[str, float]:
    """Return the limits by their names; what they may be is the config's to say."""
    table: dict[str, float] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            table[name.strip()] = int(value) if value.strip().isdigit() else float(value)
        except ValueError:
            raise ConfigError([f"`--limit` must be NAME=VALUE, but is {pair} instead"]) from None
    return table


def _draw(path: Path | None, name: str) -> None:
    from seq2see.serve.auth import add_key

    if path is None:
        raise ConfigError(["`--new-key` needs --api-keys"])
    typer.echo(add_key(path, name))
    typer.echo(f"Only its hash is in {path}: keep the key.", err=True)


def _require_extra() -> None:
    from importlib.util import find_spec

    names = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")
    if missing := [name for name in names if find_spec(name) is None]:
        raise InputError(f"serving needs {', '.join(missing)}: pip install 'seq2see[serve]'")
