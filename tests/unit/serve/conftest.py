"""Services over HTTP with a translator that is none."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.app import create_app
from seq2see.serve.auth import ApiKeys
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.model_registry import Loaded, Model, Models
from seq2see.serve.monitoring import Journal
from seq2see.serve.service import Service
from seq2see.translator import Link, Token, Translation, TranslationOptions


class Shouter:
    """A translator that shouts."""

    notes = ()
    limit = 100
    engine = SimpleNamespace(name="fake")

    def __init__(self, source: str, target: str) -> None:
        self.languages = (source, target)
        side = SimpleNamespace(encode_batch=lambda lines: [line.split() for line in lines])
        self.bundle = SimpleNamespace(tokenizers=SimpleNamespace(source=side))
        self.seconds = 0.0

    def translate(
        self, lines: str | Sequence[str], options: TranslationOptions | None = None, **settings: Any
    ) -> Translation | list[Translation]:
        time.sleep(self.seconds)
        options = (options or TranslationOptions()).changed(settings)
        if isinstance(lines, str):
            return self._one(lines, options)
        return [self._one(line, options) for line in lines]

    def _one(self, line: str, options: TranslationOptions) -> Translation:
        if "poison" in line:
            raise RuntimeError(line)
        text = (options.prefix + line).upper()
        tokens = (Token(text, -0.5, 0, len(text)),) if options.token_scores else ()
        links = (Link(0, len(line), 0, len(text), 1.0),) if options.alignment else ()
        found = Translation(text, -0.5, -1.0, tokens=tokens, alignment=links)
        others = [replace(found, text=f"{text}{n}") for n in range(1, options.search.n_best)]
        return replace(found, alternatives=tuple(others))


Serving = Callable[..., TestClient]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Services by their settings, each made once; `fresh` ones are the test's own."""
    clients: list[TestClient] = []
    known: dict[str, TestClient] = {}

    def find(fresh: bool = False, **settings: Any) -> TestClient:
        if fresh:
            return start(**settings)
        return known.get(str(settings)) or known.setdefault(str(settings), start(**settings))

    def start(
        pairs: str = "en-de fr-en",
        keys: Path | None = None,
        journal: io.StringIO | None = None,
        runs: Path | None = None,
        settings: dict[str, Any] | None = None,
        **limits: Any,
    ) -> TestClient:
        models = [
            Model(pair, Path(pair), *_loaded(*pair.split("-")))  # type: ignore[arg-type]
            for pair in pairs.split()
        ]
        config = ServeConfig(limits=LimitsConfig(**limits), **settings or {})
        service = Service(
            config,
            Models(models, lambda folder: _loaded(*folder.name.split("-"))),  # type: ignore[arg-type, return-value]
            ApiKeys(keys),
            Journal(journal),
            runs,
        )
        client = TestClient(
            create_app(service), base_url="http://localhost", raise_server_exceptions=False
        )
        client.__enter__()
        client.service = service  # type: ignore[attr-defined]
        clients.append(client)
        return client

    yield find
    for client in clients:
        client.__exit__(None, None, None)


def _loaded(source: str, target: str) -> Loaded:
    one = Shouter(source, target)
    return Loaded(one, one)  # type: ignore[arg-type]


Sender = Callable[[TestClient, str, bytes], Any]


@pytest.fixture(scope="module")
def sent() -> Sender:
    """Sends a file to be translated."""

    def send(client: TestClient, name: str, content: bytes) -> Any:
        form = {"source": "en", "target": "de"}
        return client.post("/translate_file", data=form, files={"file": (name, content)})

    return send
