"""The exceptions that seq2see raises.

    Seq2SeeError            base class: an error that the user can correct
    ├── ConfigError         invalid settings; `problems` lists each of them as a `Problem`
    ├── InputError          invalid data: ids, shapes, lengths
    └── TrainingError       training cannot continue; the last valid state is on disk

The message is one line that states what is wrong and what to do. `ConfigError` and `InputError` are
also a `ValueError`. Violated invariants inside the code are an `assert`, never one of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal or the direction of text, and halves of surrogate pairs."""


def escape_control_characters(text: str) -> str:
    """Return the text with control characters other than newlines as `\\u001b`.

    Text from a model directory could otherwise clear the terminal or change what it shows.
    """
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Seq2SeeError(Exception):
    """An error that the user can correct; its message is one line that states how."""

    def __str__(self) -> str:
        """Return the message as one line without control characters."""
        return escape_control_characters(super().__str__()).replace("\n", " ")


@dataclass(frozen=True, slots=True)
class Problem:
    """One invalid setting."""

    field: str
    """Name of the setting, such as `model.heads`; empty if the message names no single setting."""
    message: str
    """What is wrong, without the name: "must be …, but is … instead"."""
    suggested_field: str = ""
    """Name of the setting that was probably meant."""

    def __str__(self) -> str:
        """Return the problem as one line."""
        text = f"`{self.field}` {self.message}" if self.field else self.message
        return f"{text}; did you mean `{self.suggested_field}`?" if self.suggested_field else text

    def with_prefix(self, prefix: str) -> Problem:
        """Return the problem with `prefix` and a dot before the names of settings."""
        if not prefix:
            return self
        names = {"field": self.field, "suggested_field": self.suggested_field}
        return replace(self, **{key: f"{prefix}.{name}" for key, name in names.items() if name})


class ConfigError(Seq2SeeError, ValueError):
    """Invalid settings. `problems` contains each of them; a string is one without a field."""

    def __init__(self, *problems: Problem | str) -> None:
        super().__init__(*problems)
        self.problems = tuple(Problem("", p) if isinstance(p, str) else p for p in problems)

    def __str__(self) -> str:
        """Return all problems as one line."""
        return escape_control_characters("; ".join(map(str, self.problems))).replace("\n", " ")


class InputError(Seq2SeeError, ValueError):
    """Invalid data: ids, shapes, lengths or files."""


class TrainingError(Seq2SeeError):
    """Training cannot continue; its last valid state is on disk."""


@contextmanager
def _converting_os_errors(action: str, name: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{name} cannot be {action}: {error.strerror or error}") from None


reading = partial(_converting_os_errors, "read")
"""Converts an OSError in the block to an InputError: the named file cannot be read."""
writing = partial(_converting_os_errors, "written")
"""Converts an OSError in the block to an InputError: the named file cannot be written."""
