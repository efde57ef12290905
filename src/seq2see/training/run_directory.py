"""The directory of a run: its files, its lock, and `run.json` with the recipe and the plan.

The plan contains the number of updates, processes and threads, which may have been chosen by
measuring. A run that is resumed reads them from `run.json`, so that they do not change.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from seq2see.atomic_files import atomic_write
from seq2see.bundle import DatasetInfo
from seq2see.bundle.files import CONFIG_FILE, RUN_FILE
from seq2see.config import Config
from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.errors import ConfigError, InputError, reading
from seq2see.file_locks import open_for_lock, try_lock
from seq2see.regular_files import read_regular_file
from seq2see.text.training_text_statistics import TrainingTextStatistics
from seq2see.training.config import RunConfig

ConfigT = TypeVar("ConfigT", bound=RunConfig)
_MAX_BYTES = 1 << 26
"""Maximum size of a JSON file of a run."""
LOCK_TIMEOUT = 5.0
"""Seconds to wait until another run releases the lock of the directory."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What was decided at the start of a run."""

    num_updates: int
    processes: int
    threads: int
    """Number of threads per process."""
    seconds_per_update: float | None = None
    """Measured at the start; None if it was not measured, as the next two."""
    seconds_per_validation: float | None = None
    final_evaluation_seconds: float | None = None
    """Estimated time of the final scores."""
    initial_processes: int | None = None
    """Number of processes at the start of the run, if it has changed since."""

    def with_processes(self, processes: int, threads: int) -> RunPlan:
        """Return the plan for another number of processes, whose speed was not measured."""
        if processes == self.processes:
            return self
        return RunPlan(self.num_updates, processes, threads, initial_processes=self.processes)

    def remaining_seconds(self, updates_done: int, validation_interval: int) -> float | None:
        """Estimate the remaining time in seconds; return None if the speed was not measured."""
        if self.seconds_per_update is None:
            return None
        updates = self.num_updates - updates_done
        validations = self.num_updates // validation_interval - updates_done // validation_interval
        training_seconds = updates * self.seconds_per_update
        validation_seconds = validations * (self.seconds_per_validation or 0.0)
        return training_seconds + validation_seconds + (self.final_evaluation_seconds or 0.0)


class CorpusRecord(DatasetInfo):
    """What the workers need to know of a corpus."""

    directory: str
    """Name of the directory of the encoded corpus in the cache."""


class RunFile(Config, strict=False):
    """Content of `run.json`."""

    recipe: dict[str, Any]
    base_directory: str
    """Directory that paths of the recipe are relative to, relative to that of the run."""
    plan: RunPlan
    models: dict[str, str]
    """Checksums of the pretrained models, by recipe key."""
    corpora: dict[str, str]
    """Fingerprints of the corpora, by name and recipe key."""


class RunDirectory:
    """Directory with the files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log.jsonl"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.cache = path / "cache"
        self.curves = path / "curves.png"
        self._index = self.cache / "index.json"
        self._training_text = path / "training_text.json"

    @property
    def has_run(self) -> bool:
        """Whether a run was started in the directory."""
        return (self.path / RUN_FILE).exists()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory, which must exist; raise InputError if another run holds the lock.

        The kernel releases it when the process ends, even if it is killed.
        """
        with open_for_lock(self.path) as descriptor:
            if not _acquire_lock(descriptor):
                raise InputError(
                    f"another run is using {self.path}: wait until it has ended, or stop it"
                )
            yield

    def check_can_start(self, resume: bool = False) -> None:
        """Raise InputError if the directory has a run that is not to be resumed, or other files.

        A tokenizer is allowed: a run may have been killed before it wrote `run.json`.
        """
        if self.has_run and not resume:
            raise InputError(
                f"{self.path} already has a run: continue it with --resume, or name another "
                "directory"
            )
        for name in (self.checkpoints.name, CONFIG_FILE):
            if not self.has_run and (self.path / name).exists():
                raise InputError(
                    f"{self.path} has {name}, but no {RUN_FILE}: it is not a run directory; name "
                    f"another directory, or remove {name}"
                )

    def write_corpus_records(self, records: Mapping[str, CorpusRecord]) -> None:
        """Write what the workers need to know of the corpora, by recipe key."""
        content = {key: record.model_dump() for key, record in records.items()}
        _write_json(self._index, content)

    def read_corpus_records(self) -> dict[str, CorpusRecord]:
        """Return what `write_corpus_records` has written. Raise InputError if it is damaged."""
        with reading(self._index), _describing_damage(self._index):
            content = json.loads(read_regular_file(self._index, _MAX_BYTES))
            return {key: CorpusRecord(**record) for key, record in content.items()}

    def write_training_text(self, statistics: TrainingTextStatistics | None) -> None:
        """Write the statistics of the training text, which become part of the model."""
        content = statistics.model_dump(mode="json") if statistics else None
        _write_json(self._training_text, content)

    def read_training_text(self) -> TrainingTextStatistics | None:
        """Return what `write_training_text` has written.

        Raise InputError if it is missing or damaged.
        """
        with reading(self._training_text), _describing_damage(self._training_text):
            table = json.loads(read_regular_file(self._training_text, _MAX_BYTES))
            return None if table is None else TrainingTextStatistics(**table)

    def write_start(
        self,
        run_config: RunConfig,
        plan: RunPlan,
        model_checksums: Mapping[str, str] | None = None,
        corpus_fingerprints: Mapping[str, str] | None = None,
        base_directory: Path = Path(),
    ) -> None:
        """Write `run.json`: recipe, directory that its paths are relative to, plan, checksums."""
        content = {
            "recipe": run_config.model_dump(mode="json"),
            "base_directory": _relative_path(base_directory, self.path),
            "plan": asdict(plan),
            "models": model_checksums or {},
            "corpora": corpus_fingerprints or {},
        }
        _write_json(self.path / RUN_FILE, content)

    def read_run_config(self, config_type: type[ConfigT]) -> tuple[ConfigT, Path]:
        """Return the settings of the run, and the directory that their paths are relative to.

        Raise InputError if there is no run, or `run.json` is damaged.
        """
        content = self._read_run_file()
        with _describing_damage(self.path / RUN_FILE):
            base_directory = Path(os.path.normpath(self.path / content.base_directory))
            return config_type(**content.recipe), base_directory

    def read_test_set(self) -> Corpus:
        """Return the test set of the run.

        Raise InputError if the run has none, or if its text has changed since the start of the run.
        """
        run_config, base_directory = self.read_run_config(RunConfig)
        data = run_config.data
        if data.test is None:
            raise InputError(f"the run in {self.path} has no test set: name one with --test-set")
        corpus = data.build_corpus(data.test, base_directory)
        recorded = self._read_run_file().corpora.get(f"{corpus.name} (data.test)")
        if recorded != corpus.fingerprint:
            raise InputError(
                f"{corpus.name}, the test set of {self.path}, has changed since the start of the "
                "run: name a test set with --test-set"
            )
        return corpus

    def read_plan(self) -> RunPlan:
        """Return the plan of the run."""
        return self._read_run_file().plan

    def _read_run_file(self) -> RunFile:
        path = self.path / RUN_FILE
        with reading(path), _describing_damage(path):
            return RunFile.model_validate_json(read_regular_file(path, _MAX_BYTES))

    def load_plan(
        self,
        run_config: RunConfig,
        model_checksums: Mapping[str, str] | None = None,
        corpus_fingerprints: Mapping[str, str] | None = None,
    ) -> RunPlan:
        """Return the plan of a run that is resumed.

        Raise ConfigError or InputError if the recipe, a model or a corpus has changed since its
        start. A key that is missing in the stored recipe has its default.
        """
        content = self._read_run_file()
        stored_recipe, _ = self.read_run_config(type(run_config))
        old = {**stored_recipe.model_dump(mode="json"), "models": content.models}
        new = {**run_config.model_dump(mode="json"), "models": model_checksums or {}}
        if changes := [_describe_change(*each) for each in find_differences(old, new)]:
            raise ConfigError(*changes)
        _check_corpora_unchanged(content.corpora, corpus_fingerprints or {})
        return content.plan


@contextmanager
def _describing_damage(path: Path) -> Iterator[None]:
    """Convert errors of reading JSON of another form to an InputError that names the file."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def _relative_path(path: Path, start: Path) -> str:
    """Return a path relative to a directory, or absolute if they are on different drives."""
    try:
        return os.path.relpath(path.resolve(), start.resolve())
    except ValueError:
        return str(path.resolve())


def _write_json(path: Path, content: object) -> None:
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(content, indent=1), "utf-8")


def _acquire_lock(descriptor: int) -> bool:
    """Lock a directory; wait, since a process that was just killed may still hold the lock."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _check_corpora_unchanged(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise InputError if a corpus has another fingerprint."""
    if changed := [name for name, value in new.items() if old.get(name, value) != value]:
        raise InputError(
            f"cannot resume: {', '.join(changed)} has changed since the start of the run; restore "
            "the old text, or start a new run"
        )


def find_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted path, old and new value of each key whose value differs; None if unset."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if isinstance(before or after, Mapping):  # a table may be unset
            yield from find_differences(before or {}, after or {}, f"{prefix}{name}.")
        elif before != after:
            yield f"{prefix}{name}", before, after


def _describe_change(path: str, old: Any, new: Any) -> str:
    old_text, new_text = ("unset" if x is None else json.dumps(x) for x in (old, new))
    return (
        f"cannot resume with changed settings: `{path}` was {old_text}, but is {new_text} instead"
        f"{_advice(path, old)}"
    )


def _advice(path: str, old: Any) -> str:
    """Return how to restore a setting, which may have been set on the command line."""
    has_tables = isinstance(old, list) and any(isinstance(each, dict) for each in old)
    if path.startswith("models.") or has_tables:
        return ""
    if old is None:
        return ": leave it out"
    return f": add {shlex.quote(f'{path}={json.dumps(old, ensure_ascii=False)}')}"
