"""Everything that a run needs to go on as if it had not been stopped.

A checkpoint is a folder `checkpoints/000012000`, named by the update: for each part its tensors
(`model.safetensors`) and one `state.json`. It is written aside, flushed and renamed, so there is a
whole one or none, and killing the run at any moment leaves the last one intact.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2see.bundle.files import flush, write_readable
from seq2see.errors import InputError, TrainingError
from seq2see.training.sharding import whole

STATE = "state.json"
_PARTIAL = ".partial"
_LATE = 0.75
"""Of a run: from here on, weights are good enough to take the mean of."""


class Readable(Protocol):
    """Something that has a state: tensors, and what JSON can hold."""

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors, none of them twice; those that are shared out as they are."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the rest."""
        ...


class Part(Readable, Protocol):
    """Something that can take a state over, too."""

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over both."""
        ...


class Snapshot:
    """The state of a part as it is now, for those who keep it.

    What workers share out is put together by all of them, one tensor at a time: no device ever
    holds more of it than its share and that.
    """

    def __init__(self, part: Readable, keep: bool = True) -> None:
        self._tensors = {}
        for name, tensor in part.tensors().items():
            together = whole(tensor)
            if keep:
                self._tensors[name] = together.cpu()
        self._state = part.state()

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors."""
        return self._tensors

    def state(self) -> dict[str, Any]:
        """Return the rest."""
        return self._state


class Checkpoints:
    """The checkpoints of a run: the last, the last `keep` that are due, and those that are named.

    One is due at each multiple of `every`. One of an interruption is not: it lasts until the next.
    """

    def __init__(self, folder: Path, keep: int, every: int = 1) -> None:
        self.folder = folder
        self._keep = keep
        self._every = every

    def save(
        self, update: int, parts: Mapping[str, Readable], precious: Iterable[int] = ()
    ) -> Path:
        """Write a checkpoint, and delete old ones that are not precious."""
        home, aside = self.path(update), self._aside(update)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            self._write(update, parts, aside, home)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise TrainingError(
                f"{home} cannot be written: {getattr(error, 'strerror', None) or error}; "
                "the checkpoints before it are whole, and --resume goes on from the last"
            ) from error
        self._forget({*precious, update})
        return home

    def _write(self, update: int, parts: Mapping[str, Readable], aside: Path, home: Path) -> None:
        """Write all of it aside, flush it, and give it its name: the one moment at which it is."""
        aside.mkdir(parents=True)
        files = []
        for name, part in parts.items():
            if tensors := part.tensors():
                files.append(f"{name}.safetensors")
                write_readable(aside / files[-1], partial(save_file, tensors))
        state = {name: part.state() for name, part in parts.items()}
        content = {"update": update, "files": files, **state}
        (aside / STATE).write_text(json.dumps(content), "utf-8")
        _flush_all(aside)
        shutil.rmtree(home, ignore_errors=True)
        aside.rename(home)
        flush(self.folder)

    def restore(self, update: int, parts: Mapping[str, Part]) -> None:
        """Give every part its state of this update."""
        home = self.path(update)
        with undamaged(home):
            state = json.loads((home / STATE).read_text("utf-8"))
            for missing in (f for f in state.get("files", ()) if not (home / f).exists()):
                raise FileNotFoundError(f"{missing} is missing")
            for name, part in parts.items():
                file = home / f"{name}.safetensors"
                part.restore(load_file(file) if file.exists() else {}, state[name])

    def updates(self) -> list[int]:
        """Return the updates of which there is a checkpoint, in order."""
        folders = self.folder.glob("[0-9]*")
        return sorted(int(f.name) for f in folders if f.name.isdecimal())

    def final(self) -> list[int]:
        """Return the last `keep` of a run that has ended, interrupted or not.

        All are of its last quarter: a short run has others that had not learnt much yet.
        """
        updates = self.updates()
        late = [update for update in updates[:-1] if update >= _LATE * updates[-1]]
        return [*self._due(late), *updates[-1:]][-self._keep :]

    def _due(self, updates: Iterable[int]) -> list[int]:
        return [update for update in updates if update % self._every == 0]

    def path(self, update: int) -> Path:
        """Return where the checkpoint of this update is."""
        return self.folder / f"{update:09d}"

    def _aside(self, update: int) -> Path:
        return self.folder / f"{update:09d}{_PARTIAL}"

    def _forget(self, precious: set[int]) -> None:
        kept = {*self._due(self.updates())[-self._keep :], *precious}
        self._sweep()
        for update in self.updates():
            if update not in kept:  # killed in the middle of it, no half of one keeps its name
                with suppress(OSError):
                    self.path(update).rename(self._aside(update))
        self._sweep()

    def _sweep(self) -> None:
        """Remove what is no whole checkpoint: none yet, when a run was killed, or no longer."""
        for aside in self.folder.glob(f"*{_PARTIAL}"):
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def undamaged(home: Path) -> Iterator[None]:
    """Say of a checkpoint that cannot be read that it is damaged, and what to do."""
    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{home} is damaged: {error}; delete it to go on from the one before"
        ) from None


def _flush_all(folder: Path) -> None:
    """Wait until the files of a folder are on the disk, and the folder too."""
    for path in (*folder.iterdir(), folder):
        flush(path)
