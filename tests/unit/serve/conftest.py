"""Services with fake translators, with and without HTTP."""

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

from seq2see.bundle import StartAndEndTokenIds
from seq2see.search import SearchObserver
from seq2see.serve.app import create_app
from seq2see.serve.authentication import ApiKeyStore
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.model_registry import DefaultAndTorchTranslators, ModelRegistry, ServedModel
from seq2see.serve.monitoring import JsonLog
from seq2see.serve.service import Service
from seq2see.translator import (
    AlignmentLink,
    ScoredToken,
    SourceSegment,
    Translation,
    TranslationOptions,
    Translator,
)
from seq2see.translator.constraints import LexicalConstraints


class WordTokenizer:
    """A tokenizer whose ids count the words of a text."""

    def encode(self, text: str) -> list[int]:
        return list(range(len(text.split())))

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        return [self.encode(text) for text in texts]


class FakeTranslator(Translator):
    """A translator without an engine. Subclasses translate segments."""

    def __init__(self, source: str, target: str) -> None:
        special_tokens = StartAndEndTokenIds()
        engine = SimpleNamespace(name="fake", special_tokens=special_tokens)
        tokenizers = SimpleNamespace(source=WordTokenizer())
        super().__init__(engine, tokenizers, (source, target), 100)  # type: ignore[arg-type]
        self.seconds = 0.0
        self.options: list[TranslationOptions] = []
        self.lines: list[str] = []

    def translate_segments(
        self,
        segments: Sequence[SourceSegment],
        options: TranslationOptions,
        observer: SearchObserver | None = None,
        constraints: LexicalConstraints | None = None,
    ) -> list[Translation]:
        time.sleep(self.seconds)
        self.options += [options.with_settings({"prefix": each.prefix}) for each in segments[:1]]
        lines = [segment.span.text for segment in segments]
        self.lines += lines
        return [
            self.translate_line(line, options.with_settings({"prefix": segment.prefix}))
            for line, segment in zip(lines, segments, strict=True)
        ]

    def translate_line(self, line: str, options: TranslationOptions) -> Translation:
        raise NotImplementedError


class UppercaseTranslator(FakeTranslator):
    """A translator that returns its input in upper case and raises on "poison"."""

    def translate_line(self, line: str, options: TranslationOptions) -> Translation:
        if "poison" in line:
            raise RuntimeError(line)
        text = (options.prefix + line).upper()
        tokens = (ScoredToken(text, -0.5, 0, len(text)),) if options.token_scores else ()
        links = (AlignmentLink(0, len(line), 0, len(text), 1.0),) if options.alignment else ()
        best = Translation(text, -0.5, -1.0, tokens=tokens, alignment=links)
        others = [replace(best, text=f"{text}{n}") for n in range(1, options.search.n_best)]
        return replace(best, alternatives=tuple(others))


class SuffixTranslator(FakeTranslator):
    """A translator that appends its target language to each word and raises on "poison"."""

    def translate_line(self, line: str, options: TranslationOptions) -> Translation:
        if "poison" in line:
            raise ValueError(line)
        if "unfit" in line:
            return Translation("", 0.0, 0.0, error="unfit")
        words = [f"{word}-{self.languages[1]}" for word in line.split()]
        links, source, target = [], 0, 0
        for word in line.split():
            size = len(word) + len(self.languages[1]) + 1
            links.append(AlignmentLink(source, source + len(word), target, target + size, 1.0))
            source, target = source + len(word) + 1, target + size + 1
        best = Translation(" ".join(words), -1.0, -2.0, alignment=tuple(links))
        return replace(best, alternatives=(best,) * (options.search.n_best - 1))


def load_suffix_translator(source: str, target: str) -> DefaultAndTorchTranslators:
    translators = SuffixTranslator(source, target), SuffixTranslator(source, target)
    return DefaultAndTorchTranslators(*translators)


Registry = Callable[..., ModelRegistry]


def create_registry(*pairs: str) -> ModelRegistry:
    models = [
        ServedModel(pair, Path(pair), *load_suffix_translator(*pair.split("-"))) for pair in pairs
    ]
    return ModelRegistry(models, lambda _: load_suffix_translator("en", "de"))


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Function that returns a registry of suffix translators for language pairs like "en-de"."""
    return create_registry


@pytest.fixture(scope="session")
def suffix_translator() -> type[SuffixTranslator]:
    """The class of the fake translators of `registry` and `service`."""
    return SuffixTranslator


@pytest.fixture
def uppercase_translator() -> UppercaseTranslator:
    """A fake translator from English to German."""
    return UppercaseTranslator("en", "de")


@pytest.fixture
def service() -> Iterator[Service]:
    """A running service without HTTP: en-de and fr-en."""
    running = Service(ServeConfig(), create_registry("en-de", "fr-en"))
    running.start()
    yield running
    running.close()


Serving = Callable[..., TestClient]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Function that returns a client of a service with the given settings.

    Services are shared by the tests of a module, except with `fresh=True`.
    """
    clients: list[TestClient] = []
    shared: dict[str, TestClient] = {}

    def find(fresh: bool = False, **settings: Any) -> TestClient:
        if fresh:
            return start(**settings)
        return shared.get(str(settings)) or shared.setdefault(str(settings), start(**settings))

    def start(
        pairs: str = "en-de fr-en",
        keys: Path | None = None,
        log: io.StringIO | None = None,
        runs: Path | None = None,
        settings: dict[str, Any] | None = None,
        **limits: Any,
    ) -> TestClient:
        models = [ServedModel(pair, Path(pair), *_load(*pair.split("-"))) for pair in pairs.split()]
        config = ServeConfig(limits=LimitsConfig(**limits), **settings or {})
        service = Service(
            config,
            ModelRegistry(models, lambda directory: _load(*directory.name.split("-"))),
            ApiKeyStore(keys),
            JsonLog(log),
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


def _load(source: str, target: str) -> DefaultAndTorchTranslators:
    translator = UppercaseTranslator(source, target)
    return DefaultAndTorchTranslators(translator, translator)


Upload = Callable[[TestClient, str, bytes], Any]


@pytest.fixture(scope="module")
def upload() -> Upload:
    """Function that sends a file to /translate_file and returns the response."""

    def send(client: TestClient, name: str, content: bytes) -> Any:
        form = {"source": "en", "target": "de"}
        return client.post("/translate_file", data=form, files={"file": (name, content)})

    return send
