"""Small models that experiments train: specifications, cache, and evaluation.

A cached model is found by its settings and by the source code that defines models, losses and
training, so that a change of the code never uses old weights. Only weights and the training log are
cached: every loss and accuracy is computed with the loaded model.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch import Generator, Tensor

from seq2see.atomic_files import atomic_directory, flushed_file
from seq2see.bundle import Bundle
from seq2see.cpu import tune_malloc
from seq2see.data import digit_tasks
from seq2see.data.batch_loader import Batch
from seq2see.data.digit_tasks import DigitTask
from seq2see.data.readers import SplitName
from seq2see.engines.batching import collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import TrainingError
from seq2see.keyed_random import mix_seeds
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, PAD_ID, PackedIds
from seq2see.training.builder import RunBuilder
from seq2see.training.config import RunConfig, build_demo_config
from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.run_directory import RunDirectory
from seq2see.training.trainer import ModelUpdater
from seq2see.training.training_session import train_as_worker

FIRST_DIGIT_ID = 4
"""The id of the digit 0, after the special ids."""
DIGIT_MODEL = ModelConfig(
    vocab_size=FIRST_DIGIT_ID + 10,
    d_model=64,
    d_ff=128,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
).replace(dropout={"embedding": 0.0, "residual": 0.0})
"""The model of the digit tasks: small enough to learn in seconds, without dropout."""
DECODED_SOURCES = 400
"""Sources that are translated to compute the share of exact matches; the loss is over all."""
TRANSLATOR_SETTINGS: dict[str, Any] = {
    "schedule": {"peak_lr": 0.003},
    "validation": {"interval": 10**6, "max_sentences": 1000},
    "checkpoints": {"interval": 200},
    "model": {"norm": {"placement": "post"}},
}
"""Settings of the translator of fables that differ from those of the demo."""

Pair = tuple[list[int], list[int]]
"""Ids of a source and of its target, without special ids."""
LoadPairs = Callable[[SplitName, int], list[Pair]]
"""Returns the pairs of a split with at most this number of digits."""


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """Settings of the training of a small model. Functions must be those of a module."""

    task: DigitTask | LoadPairs = "reverse"
    model: ModelConfig = DIGIT_MODEL
    build: Callable[[ModelConfig], Transformer] = Transformer.from_config
    """Builds the model, whose modules it may replace."""
    updates: int = 300
    seed: int = 1
    """Seed of the initial weights and of the order of the data; set by the runner."""
    max_digits: int = 12
    """Maximum length of a source in training."""
    batch_size: int = 64
    peak_learning_rate: float = 3e-3
    """The learning rate falls to 0 with a cosine."""
    warmup_updates: int = 40
    label_smoothing: float = 0.0

    def replace(self, **settings: Any) -> TrainingSpec:
        """Return a copy with changed settings."""
        return replace(self, **settings)

    def with_model(self, **settings: Any) -> TrainingSpec:
        """Return a copy with changed settings of the model; nested dicts are merged."""
        return replace(self, model=self.model.replace(**settings))

    @property
    def key(self) -> str:
        """Hash of the settings and of the code that decides the weights."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        content["model"] = self.model.model_dump(mode="json")
        content |= {"task": _function_name(self.task), "build": _function_name(self.build)}
        sources = [each for each in (self.task, self.build) if not isinstance(each, str)]
        return _hash(content, _code_fingerprint(), *map(_source_file_hash, sources))

    def load_pairs(self, split: SplitName, max_digits: int | None = None) -> list[Pair]:
        """Return the pairs of a split, by default with the lengths of the training."""
        max_digits = max_digits or self.max_digits
        if isinstance(self.task, str):
            return load_digit_pairs(self.task, split, max_digits)
        return self.task(split, max_digits)

    def build_model(self) -> Transformer:
        """Return the model with its initial weights."""
        torch.manual_seed(mix_seeds(self.seed))
        return self.build(self.model)


COPY = TrainingSpec("copy")
REVERSE = TrainingSpec("reverse")
SORT = TrainingSpec("sort")


class TrainedModel:
    """A trained model, loaded from its file, with its training log."""

    def __init__(self, spec: TrainingSpec, path: Path) -> None:
        self.spec = spec
        self.model = spec.build_model()
        load_model(self.model, path)
        self.model.eval()
        with safe_open(path, "pt") as file:
            log = json.loads(file.metadata()["log"])
        self.losses: tuple[float, ...] = tuple(log["losses"])
        """Training loss of each update, before it; fewer than `updates` if training diverged."""
        self.gradient_norms: tuple[float, ...] = tuple(log["gradient_norms"])
        """Norm of the whole gradient of each update."""

    @property
    def diverged(self) -> bool:
        """Whether the loss or a gradient became infinite or NaN."""
        return len(self.losses) < self.spec.updates

    @cached_property
    def nll(self) -> float:
        """Mean of −log p over the tokens of the test set; ∞ if training diverged."""
        return torch.inf if self.diverged else loss_of(self.model, self.spec.load_pairs("test"))

    @cached_property
    def exact_match(self) -> float:
        """Share of test sources that greedy search solves; 0 if training diverged."""
        if self.diverged:
            return 0.0
        return exact_match(self.model, self.spec.load_pairs("test")[:DECODED_SOURCES])

    def exact_match_by_length(self, lengths: Sequence[int], max_sources: int = 200) -> float:
        """Return the share of test sources with these lengths that greedy search solves."""
        pairs = self.spec.load_pairs("test", max(*lengths, self.spec.max_digits))
        chosen = [pair for pair in pairs if len(pair[0]) in lengths]
        return exact_match(self.model, chosen[:max_sources])

    def smoothed_losses(self, window: int = 10) -> Tensor:
        """Return the mean training loss of each `window` updates."""
        whole = torch.tensor(self.losses)[: len(self.losses) // window * window]
        return whole.view(-1, window).mean(dim=1)


class ModelCache:
    """A directory with trained models."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_cache_directory()

    def path(self, spec: TrainingSpec) -> Path:
        """Return the file of a trained model."""
        return self.directory / "models" / f"{spec.key}.safetensors"

    def load(self, spec: TrainingSpec) -> TrainedModel:
        """Return the trained model; train it if it is not cached."""
        path = self.path(spec)
        if not path.exists():
            train(spec, path)
        return TrainedModel(spec, path)

    def translator_path(self, seed: int, epochs: float) -> Path:
        """Return the directory of the translator of fables."""
        return self.directory / "translators" / _translator_key(seed, epochs)

    def load_translator(self, seed: int, epochs: float) -> Bundle:
        """Return the translator of fables; train it if it is not cached."""
        path = self.translator_path(seed, epochs)
        if not path.exists():
            train_translator(path, seed, epochs)
        return Bundle.load(path)


def default_cache_directory() -> Path:
    """Return the lab's directory in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seq2see" / "lab"


def load_digit_pairs(task: DigitTask, split: SplitName, max_digits: int = 12) -> list[Pair]:
    """Return the pairs of a digit task as ids."""
    pairs = digit_tasks.load_digit_pairs(task, split, max_digits)
    return [(_digit_ids(source), _digit_ids(target)) for source, target in pairs]


def _digit_ids(text: str) -> list[int]:
    return [FIRST_DIGIT_ID + int(digit) for digit in text.split()]


def to_batch(pairs: Sequence[Pair]) -> Batch:
    """Return a batch of pairs."""
    return Batch.from_packed_ids(
        PackedIds.from_lists([s for s, _ in pairs]), PackedIds.from_lists([t for _, t in pairs])
    )


@torch.no_grad()
def loss_of(model: Transformer, pairs: Sequence[Pair]) -> float:
    """Return the mean of −log p over the target tokens, the end symbol included."""
    batch = to_batch(pairs)
    logits_BTV = model(batch.source_BS, batch.decoder_input_BT)
    losses = torch.nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1), batch.labels_BT.flatten(), ignore_index=PAD_ID
    )
    return float(losses)


def greedy(model: Transformer, sources: Sequence[list[int]]) -> list[list[int]]:
    """Return the greedy translation of each source, without special ids."""
    inputs = [SentenceSearchInput([*source, EOS_ID]) for source in sources]
    found = collect_in_order(TorchEngine(model).search(inputs, SearchConfig(beam_size=1)))
    return [list(hypotheses[0].tokens_without_eos) for hypotheses in found]


def exact_match(model: Transformer, pairs: Sequence[Pair]) -> float:
    """Return the share of sources whose greedy translation is the target."""
    found = greedy(model, [source for source, _ in pairs])
    return sum(f == target for f, (_, target) in zip(found, pairs, strict=True)) / len(pairs)


def train(spec: TrainingSpec, path: Path) -> None:
    """Train a model on one thread and write it to a file."""
    tune_malloc()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a model of this size is not faster with more
    try:
        model = spec.build_model()
        log = _update_weights(spec, model)
    finally:
        torch.set_num_threads(threads)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")  # other processes may train it, too
    with flushed_file(partial):
        save_model(model, str(partial), metadata={"log": json.dumps(log)})
    partial.replace(path)


def _update_weights(spec: TrainingSpec, model: Transformer) -> dict[str, list[float]]:
    objective = Objective(model, LossConfig(label_smoothing=spec.label_smoothing), PAD_ID)
    schedule = ScheduleConfig(
        kind="cosine", peak_lr=spec.peak_learning_rate, warmup_updates=spec.warmup_updates
    )
    updater = ModelUpdater(
        objective,
        build_optimizer(OptimizerConfig(), objective),
        LearningRateSchedule(schedule, spec.model.d_model, spec.updates),
        0.0,
        spec.seed,
        WorkerCommunicator(),
    )
    losses: list[float] = []
    gradient_norms: list[float] = []
    with suppress(TrainingError):  # training diverged: the log ends early
        for number, batch in enumerate(_sample_batches(spec), 1):
            report = updater(number, [batch])
            losses.append(report.loss)
            gradient_norms.append(report.gradient_norm)
    return {"losses": losses, "gradient_norms": gradient_norms}


def _sample_batches(spec: TrainingSpec) -> Iterator[Batch]:
    """Yield the batch of each update; each pair occurs once per epoch."""
    pairs = spec.load_pairs("train")
    generator = Generator().manual_seed(spec.seed)
    order: list[int] = []
    for _ in range(spec.updates):
        if len(order) < spec.batch_size:
            order = torch.randperm(len(pairs), generator=generator).tolist()
        chosen, order = order[: spec.batch_size], order[spec.batch_size :]
        yield to_batch([pairs[index] for index in chosen])


def train_translator(path: Path, seed: int, epochs: float) -> None:
    """Train the translator of fables into a model directory, on one thread.

    Raises:
        TrainingError: If a signal stopped it.
    """
    config = _translator_config(seed, epochs)
    try:
        with atomic_directory(path) as directory:
            builder = RunBuilder(config, Path(), RunDirectory(directory))
            with prepare_run(builder, resume=True):
                ending = train_as_worker(builder, lambda *_: _NoLog())
            if ending and ending.signal_name:  # otherwise an unfinished model would be cached
                raise TrainingError(f"stopped by {ending.signal_name}")
    except OSError:
        if not path.exists():  # otherwise another process has trained it
            raise


class _NoLog:
    def write(self, record: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def _translator_config(seed: int, epochs: float) -> RunConfig:
    hardware = {"processes": 1, "threads": 1}
    return build_demo_config(epochs, seed).replace(**TRANSLATOR_SETTINGS, train=hardware)


def _translator_key(seed: int, epochs: float) -> str:
    config = _translator_config(seed, epochs)
    corpora = [config.data.build_corpus(each, Path()).fingerprint for each in config.data.train]
    return _hash([config.model_dump(mode="json"), corpora], _code_fingerprint())


def _function_name(function: str | Callable[..., Any]) -> str:
    if isinstance(function, str):
        return function
    return f"{function.__module__}.{function.__qualname__}"


def _source_file_hash(function: Callable[..., Any]) -> str:
    path = sys.modules[function.__module__].__file__
    assert path is not None
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _code_fingerprint() -> str:
    """Hash of the source files that decide the weights of a trained model, and of torch."""
    contents = (path.read_text("utf-8") for path in list_fingerprinted_files())
    return _hash(torch.__version__, *contents)


def list_fingerprinted_files() -> list[Path]:
    """Return the source files that decide the weights of a trained model."""
    root = Path(str(files("seq2see")))
    packages = ("model", "training", "data", "text")
    paths = [path for package in packages for path in (root / package).rglob("*.py")]
    return sorted(
        [*paths, *(root / f"{name}.py" for name in ("loss", "keyed_random", "cpu")), Path(__file__)]
    )


def _hash(*contents: Any) -> str:
    encoded = json.dumps(contents, sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()[:20]
