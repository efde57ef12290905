"""The loaded models: lookup by name or language pair, pivot routes, reload after a change."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from seq2see.bundle import files
from seq2see.engines.ctranslate2_engine import Precision
from seq2see.engines.loading import EngineName, torch_engine
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError, Seq2SeeError
from seq2see.text.languages import match
from seq2see.translator import Translator, load

_PIVOT = "en"
"""The language to go through where several would do: most models know it."""


_FILES = (files.CONFIG, files.WEIGHTS, files.JOINT, files.SOURCE, files.TARGET)


Stamp = tuple[tuple[int, int, int] | None, ...]


class Loaded(NamedTuple):
    """A model as it comes from its directory."""

    translator: Translator
    glass: Translator
    """The same model on our own engine, which can be seen through. It is made at once: weights
    are mapped from a file that may be overwritten later."""


Load = Callable[[Path], Loaded]


@dataclass(eq=False)
class Model:
    """A model directory and its translator; equal only to itself."""

    name: str
    path: Path
    translator: Translator = field(repr=False)
    glass: Translator = field(repr=False)
    stamp: Stamp = ()
    problem: str | None = None
    """Why the directory as it is now cannot be read; the model of before goes on."""
    loaded: float = field(default_factory=time.time)
    _seen: Stamp = ()
    _unreadable: Stamp = ()

    @property
    def source(self) -> str:
        """The language that it reads."""
        return self.translator.languages[0]

    @property
    def target(self) -> str:
        """The language that it writes."""
        return self.translator.languages[1]

    def costs(self, texts: Sequence[str], weight: float = 1.0) -> list[int]:
        """Return the tokens of each text, the end counted, times what each of them costs."""
        ids = self.translator.bundle.tokenizers.source.encode_batch(list(texts))
        return [math.ceil(weight * (len(sentence) + 1)) for sentence in ids]

    def refresh(self, load: Load) -> str | None:
        """Look at the directory, and read it if it is another and stands still.

        Returns "replaced" or "failed" if it was read.
        """
        now = stamp(self.path)
        still, self._seen = now == self._seen, now
        if now == self.stamp:
            self.problem = None
        if not still or now in {self.stamp, self._unreadable}:
            return None
        try:
            self.translator, self.glass = load(self.path)
        except (Seq2SeeError, OSError) as error:
            self.problem, self._unreadable = str(error), now
            return "failed"
        self.stamp, self.problem, self.loaded = now, None, time.time()
        return "replaced"


@dataclass(frozen=True, slots=True)
class Route:
    """The models that lead from one language to another; none if they are the same."""

    source: str
    target: str
    legs: tuple[Model, ...]

    @property
    def via(self) -> list[str]:
        """The languages in between."""
        return [leg.target for leg in self.legs[:-1]]


class Models:
    """See the module."""

    def __init__(self, models: Sequence[Model], load: Load) -> None:
        if not models:
            raise InputError("give a model directory at least")
        self._models = tuple(models)
        self._load = load
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folders: Iterable[Path], load: Load) -> Models:
        """Read every directory; one that cannot be read is an error."""
        models: list[Model] = []
        for folder in folders:
            seen = stamp(folder)
            name = _free_name(folder.resolve().name, {model.name for model in models})
            models.append(Model(name, folder, *load(folder), seen, _seen=seen))
        return cls(models, load)

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    def named(self, name: str) -> Model | None:
        """Return a model by its name."""
        return next((model for model in self._models if model.name == name), None)

    @property
    def languages(self) -> list[str]:
        """Every language that is read or written, those that are read first."""
        sources = [model.source for model in self._models]
        return list(dict.fromkeys([*sources, *(model.target for model in self._models)]))

    def targets(self, source: str) -> list[str]:
        """Return what a language can become, itself included."""
        return [code for code in self.languages if self.route(source, code)]

    def route(self, source: str, target: str) -> Route | None:
        """Return the way from one language to another, by codes as clients write them."""
        known = self.languages
        start, end = match(source, known), match(target, known)
        if start is None or end is None:
            return None
        if start == end:
            return Route(start, end, self._direct(start, end))
        legs = self._direct(start, end) or self._chained(start, end)
        return Route(start, end, legs) if legs else None

    def refresh(self) -> list[tuple[Model, str]]:
        """Read anew what was replaced, and return what became of it."""
        with self._lock:
            outcomes = [(model, model.refresh(self._load)) for model in self._models]
        return [(model, outcome) for model, outcome in outcomes if outcome]

    def _direct(self, source: str, target: str) -> tuple[Model, ...]:
        for model in self._models:
            if (model.source, model.target) == (source, target):
                return (model,)
        return ()

    def _chained(self, source: str, target: str) -> tuple[Model, ...]:
        middles = sorted((m.target for m in self._models if m.source == source), key=_preference)
        for middle in middles:
            if second := self._direct(middle, target):
                return (*self._direct(source, middle), *second)
        return ()


def read(
    folder: Path,
    engine: EngineName = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
) -> Loaded:
    """Read a model directory."""
    translator = load(folder, engine=engine, threads=threads, precision=precision)
    if isinstance(translator.engine, TorchEngine):
        return Loaded(translator, translator)
    bundle = translator.bundle
    own = torch_engine(bundle)  # searches and aligns as the other does
    parts = bundle.tokenizers, bundle.languages, bundle.max_length, bundle
    return Loaded(translator, Translator(own, *parts))


def stamp(folder: Path) -> Stamp:
    """Return what changes when the files of a model do."""
    return tuple(_file_stamp(folder / name) for name in _FILES)


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _preference(language: str) -> tuple[bool, str]:
    return language != _PIVOT, language


def _free_name(name: str, taken: set[str]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free
