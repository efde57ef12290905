"""The loaded models: lookup by name or language pair, pivot routes, reload after a change.

A model directory can be replaced while the service runs. Once its files no longer change, the new
model is loaded next to the old one and then replaces it. If loading fails, the old model stays in
use, and `reload_error` contains the reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from seq2see.bundle import files
from seq2see.engines.loading import load_torch_engine
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError, Seq2SeeError
from seq2see.registries import EngineName, Precision
from seq2see.serve.authentication import FileStamp, read_file_stamp
from seq2see.serve.errors import BadRequest, UnsupportedLanguagePair
from seq2see.text.languages import language_name, match_language
from seq2see.text.tokenizer import TOKENIZER_FILES
from seq2see.translator import Translator, load

_PREFERRED_PIVOT = "en"
"""The pivot language if several are possible: most models translate from or to it."""
_MODEL_FILES = (files.CONFIG_FILE, files.WEIGHTS_FILE, *TOKENIZER_FILES)

ModelFilesStamp = tuple[FileStamp | None, ...]
"""Stamps of the files of a model; None for a missing file."""


class DefaultAndTorchTranslators(NamedTuple):
    """A model loaded from its directory."""

    translator: Translator
    torch_translator: Translator
    """The same model with the torch engine, for traces and streams. It is loaded at once, because
    weights are memory-mapped from a file that may be overwritten later."""


ModelLoader = Callable[[Path], DefaultAndTorchTranslators]


@dataclass(eq=False)
class ServedModel:
    """A model directory and its translators, which do not change: a request keeps its model.

    Instances are compared by identity.
    """

    name: str
    path: Path
    translator: Translator = field(repr=False)
    torch_translator: Translator = field(repr=False)
    loaded_stamp: ModelFilesStamp = ()
    """Stamp of the files when they were last loaded, also if that failed."""
    current_stamp: ModelFilesStamp = ()
    """Stamp of the files at the last call of `reload_if_changed`."""
    reload_error: str | None = None
    """Why the current content of the directory cannot be loaded; the previous model is in use."""
    loaded_at: float = field(default_factory=time.time)

    @property
    def source(self) -> str:
        """Code of the source language."""
        return self.translator.languages[0]

    @property
    def target(self) -> str:
        """Code of the target language."""
        return self.translator.languages[1]

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, without the end token."""
        return len(self.translator.tokenizers.source.encode(text))

    def reload_if_changed(self, load: ModelLoader) -> tuple[ServedModel, str | None]:
        """Load the directory again if its files have changed since the last load.

        It is loaded only if the files are the same as at the previous call: while they are being
        copied, they still change.

        Returns:
            The new model and "replaced"; or this model with "failed", or None if nothing changed.
        """
        previous, self.current_stamp = self.current_stamp, read_model_files_stamp(self.path)
        if self.current_stamp != previous or self.current_stamp == self.loaded_stamp:
            return self, None
        self.loaded_stamp = self.current_stamp
        try:
            loaded = load(self.path)
        except Exception as error:  # of any library that reads a file of the model
            is_readable = isinstance(error, Seq2SeeError | OSError)
            self.reload_error = str(error) if is_readable else "a file of the model is damaged"
            return self, "failed"
        stamp = self.loaded_stamp
        return ServedModel(self.name, self.path, *loaded, stamp, stamp), "replaced"


@dataclass(frozen=True, slots=True)
class LanguageRoute:
    """The models that translate from one language to another, in order.

    The list is empty if both languages are the same and no model translates within it.
    """

    source: str
    target: str
    models: tuple[ServedModel, ...]

    @property
    def via(self) -> list[str]:
        """The pivot languages."""
        return [model.target for model in self.models[:-1]]


class ModelRegistry:
    """All models of a service."""

    def __init__(self, models: Sequence[ServedModel], load: ModelLoader) -> None:
        if not models:
            raise InputError("give at least one model directory")
        self._models = tuple(models)
        self._load = load
        self._lock = threading.Lock()

    @classmethod
    def load(cls, directories: Iterable[Path], load: ModelLoader) -> ModelRegistry:
        """Load all model directories; raises if one of them cannot be loaded."""
        models: list[ServedModel] = []
        for directory in directories:
            name, used = directory.resolve().name, {model.name for model in models}
            candidates = chain([name], (f"{name}-{number}" for number in count(2)))
            unique_name = next(each for each in candidates if each not in used)
            stamp = read_model_files_stamp(directory)
            models.append(ServedModel(unique_name, directory, *load(directory), stamp, stamp))
        return cls(models, load)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models)

    @property
    def first(self) -> ServedModel:
        """The first model, whose languages are the default."""
        return self._models[0]

    def find(self, name: str) -> ServedModel | None:
        """Return the model of this name, or None."""
        return next((model for model in self._models if model.name == name), None)

    @property
    def languages(self) -> list[str]:
        """All language codes, source languages first."""
        sources = [model.source for model in self._models]
        return list(dict.fromkeys([*sources, *(model.target for model in self._models)]))

    def find_targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated to, itself included."""
        return [code for code in self.languages if self._find_models(source, code) is not None]

    def find_route(self, source: str, target: str, model_name: str | None = None) -> LanguageRoute:
        """Return the models that translate between two languages, with one pivot at most.

        Args:
            source: Source language as a client writes it.
            target: Target language as a client writes it.
            model_name: Name of the only model of the route. `source` and `target` must match it,
                unless they are empty or "auto".

        Raises:
            BadRequest: There is no such model.
            UnsupportedLanguagePair: A language is unknown, there is no route, or the named model
                translates another language pair.
        """
        if model_name:
            return self._find_model_route(model_name, source, target)
        source_code, target_code = self._match_language(source), self._match_language(target)
        models = self._find_models(source_code, target_code)
        if models is None:
            raise UnsupportedLanguagePair(
                f"{language_name(target)} ({target}) is not available as a target language "
                f"from {language_name(source)} ({source})"
            )
        return LanguageRoute(source_code, target_code, models)

    def _match_language(self, code: str) -> str:
        if matched := match_language(code, self.languages):
            return matched
        raise UnsupportedLanguagePair(f"{code[:40]} is not supported")

    def _find_models(self, source: str, target: str) -> tuple[ServedModel, ...] | None:
        """Return the models between two languages; none are needed within one language."""
        pairs = {(model.source, model.target): model for model in reversed(self._models)}
        if direct := pairs.get((source, target)):
            return (direct,)
        if source == target:
            return ()
        pivots = [m for s, m in pairs if s == source and (m, target) in pairs]
        if not pivots:
            return None
        pivot = min(pivots, key=lambda code: (code != _PREFERRED_PIVOT, code))
        return pairs[source, pivot], pairs[pivot, target]

    def _find_model_route(self, name: str, source: str, target: str) -> LanguageRoute:
        model = self.find(name)
        if model is None:
            raise BadRequest(f"model {name[:40]} not found")
        source = "" if is_auto(source) else source.strip()
        pairs = (source, model.source), (target.strip(), model.target)
        if any(code and match_language(code, [own]) is None for code, own in pairs):
            raise UnsupportedLanguagePair(
                f"{model.name} translates from {model.source} to {model.target}: "
                "`source` and `target` must be these, or be left out"
            )
        return LanguageRoute(model.source, model.target, (model,))

    def reload_changed(self) -> list[tuple[ServedModel, str]]:
        """Reload all models whose files have changed.

        Returns:
            The models that were loaded again, each with "replaced" or "failed".
        """
        with self._lock:
            reloaded = [model.reload_if_changed(self._load) for model in self._models]
            self._models = tuple(model for model, _ in reloaded)
        return [(model, outcome) for model, outcome in reloaded if outcome]


def is_auto(source: str) -> bool:
    """Return whether a client wants the source language to be detected."""
    return source.strip().lower() == "auto"


def load_served_model(
    directory: Path,
    engine: EngineName = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
) -> DefaultAndTorchTranslators:
    """Load a model directory, also with the torch engine if another engine is used."""
    translator = load(directory, engine=engine, threads=threads, precision=precision)
    torch_translator = copy(translator)
    if not isinstance(translator.engine, TorchEngine):  # torch searches and aligns like it
        torch_translator.engine = load_torch_engine(translator.bundle)
    return DefaultAndTorchTranslators(translator, torch_translator)


def read_model_files_stamp(directory: Path) -> ModelFilesStamp:
    """Return a value that changes when a file of a model changes."""
    return tuple(read_file_stamp(directory / name) for name in _MODEL_FILES)
