"""The directory of a run: its files, its lock, and `run.json` with the recipe and the plan."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2see.bundle.files import CONFIG_FILE, RUN_FILE, atomic_write, fsync_path
from seq2see.errors import ConfigError, InputError

RecipeCompleter = Callable[[Mapping[str, Any]], Mapping[str, Any]]


LOCK_TIMEOUT = 5.0
"""Seconds to wait for another run to leave the folder."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What was decided at the start."""

    num_updates: int
    processes: int
    threads: int
    """Of each process."""
    seconds_per_update: float | None = None
    """As measured, if it was; so are the next two."""
    seconds_per_validation: float | None = None
    final_evaluation_seconds: float | None = None
    """Of the last scores."""
    uses_shared_memory: bool = False
    """Whether the workers sum gradients through memory that they share."""
    initial_processes: int | None = None
    """The processes that the run began with, if these are others."""

    def with_processes(self, processes: int, threads: int) -> RunPlan:
        """Return it for another number of processes, whose speed was not measured."""
        if processes == self.processes:
            return self
        return RunPlan(self.num_updates, processes, threads, initial_processes=self.processes)

    def remaining_seconds(self, updates_done: int, validation_interval: int) -> float | None:
        """Estimate how long it takes from here, if anything was measured."""
        if self.seconds_per_update is None:
            return None
        left = self.num_updates - updates_done
        looks = self.num_updates // validation_interval - updates_done // validation_interval
        look, end = self.seconds_per_validation or 0.0, self.final_evaluation_seconds or 0.0
        return left * self.seconds_per_update + looks * look + end


class RunDirectory:
    """Where everything of a run is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log.jsonl"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.cache = path / "cache"
        self.curves = path / "curves.png"

    @property
    def has_run(self) -> bool:
        """Whether there is a run in it."""
        return (self.path / RUN_FILE).exists()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all other runs out of the folder, which must be there.

        The lock is the kernel's, on the folder itself: whoever holds it may be killed, and leaves
        nothing behind.
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            if not _locked(folder):
                raise InputError(
                    f"another run is at work in {self.path}: wait until it has ended, or stop it"
                )
            yield
        finally:
            os.close(folder)

    def check_can_start(self) -> None:
        """Refuse a folder that has something which a new run would write over, or take for its own.

        Its own `tokenizer.model` is no such thing: a run may be killed before it has begun.
        """
        for name in (self.checkpoints.name, CONFIG_FILE):
            if (self.path / name).exists():
                raise InputError(
                    f"{self.path} has {name}, but no {RUN_FILE}: it is not the folder of a run; "
                    "name another folder, or remove it"
                )

    def write_start(
        self,
        recipe: Mapping[str, Any],
        plan: RunPlan,
        model_checksums: Mapping[str, str] | None = None,
        corpus_fingerprints: Mapping[str, str] | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        """Write down what was decided, checksums of models and texts, and who started it."""
        sums = {"models": model_checksums or {}, "corpora": corpus_fingerprints or {}}
        content = {"recipe": recipe, "plan": asdict(plan), **sums, "agents": [*agents]}
        for tokenizer in self.path.glob("*.model"):  # no checkpoint is of use without it
            fsync_path(tokenizer)
        atomic_write(self.path / RUN_FILE, json.dumps(content, indent=1))

    def was_started_by(self, agent: str) -> bool:
        """Whether there is a run in it that this agent of torchrun has begun."""
        try:
            return agent in self._content().get("agents", ())
        except (OSError, ValueError):
            return False

    def _content(self) -> dict[str, Any]:
        return dict(json.loads((self.path / RUN_FILE).read_text("utf-8")))

    def load_plan(
        self,
        recipe: Mapping[str, Any],
        complete_recipe: RecipeCompleter = dict,
        model_checksums: Mapping[str, str] | None = None,
        corpus_fingerprints: Mapping[str, str] | None = None,
    ) -> RunPlan:
        """Return what was decided; refuse a recipe, models or texts that were others at the start.

        `completed` gives a recipe of an earlier version the keys that have come since.
        """
        try:
            content = self._content()
            before, plan = complete_recipe(content["recipe"]), RunPlan(**content["plan"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path / RUN_FILE} is damaged: {error}") from None
        began = {"recipe": before, "models": content.get("models", {})}
        now = {"recipe": recipe, "models": model_checksums or {}}
        if found := list(_differences(json.loads(json.dumps(began)), json.loads(json.dumps(now)))):
            raise ConfigError([f"a run must go on as it began, but {each}" for each in found])
        _refuse_others(content.get("corpora", {}), corpus_fingerprints or {})
        return plan


def _locked(folder: int) -> bool:
    """Lock a folder; one who was killed a moment ago may still hold it."""
    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        except OSError:  # a file system without locks
            return True
        else:
            return True


def _refuse_others(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse texts of the same name that are others; a run of an earlier version knows none."""
    if changed := [name for name, sum_ in now.items() if before.get(name, sum_) != sum_]:
        raise InputError(
            f"a run must go on as it began, but the text of {', '.join(changed)} is another now: "
            "put the old one back, or begin a new run"
        )


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield each key that is another."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{path}.{key}" if path not in {"", "recipe"} else str(key)
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        then, today = ("unset" if value is None else json.dumps(value) for value in (before, now))
        yield f"`{path}` was {then} and is {today}{_advice(path, before)}"


def _advice(path: str, before: Any) -> str:
    """Say how a setting becomes what it was; it may have been given on the command line."""
    has_tables = isinstance(before, list) and any(isinstance(each, dict) for each in before)
    if path.startswith("models.") or isinstance(before, dict) or has_tables:
        return ""
    if before is None:
        return ": leave it out"
    return f": add {shlex.quote(f'{path}={json.dumps(before, ensure_ascii=False)}')}"
