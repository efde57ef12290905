"""The exceptions that seq2see raises.

    Seq2SeeError            base class: an error that the user can correct
    ├── ConfigError         invalid settings; `problems` lists all of them
    ├── InputError          invalid data: ids, shapes, lengths
    └── TrainingError       training cannot continue; the last valid state is on disk

The message is one line that states what is wrong and what to do. `ConfigError` and `InputError` are
also a `ValueError`. Violated invariants inside the code are an `assert`, never one of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Seq2SeeError(Exception):
    """An error that the user can correct; its message is one line that states how."""


class ConfigError(Seq2SeeError, ValueError):
    """Invalid settings. `problems` contains one message for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Sequence[str]]]:
        # By default, unpickling passes the joined message to the constructor.
        return type(self), (self.problems,)


class InputError(Seq2SeeError, ValueError):
    """Invalid data: ids, shapes, lengths or files."""


class TrainingError(Seq2SeeError):
    """Training cannot continue; its last valid state is on disk."""


@contextmanager
def reading(name: object) -> Iterator[None]:
    """Convert an OSError in the block to an InputError: the named file cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from None


@contextmanager
def writing(name: object) -> Iterator[None]:
    """Convert an OSError in the block to an InputError: the named file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name} cannot be written: {error.strerror or error}") from None
