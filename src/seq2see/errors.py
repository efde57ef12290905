"""Everything that seq2see raises on purpose.

    Seq2SeeError            something a user can mend; its text is one line that says what and how
    ├── ConfigError         settings that cannot be, all of them at once in `problems`
    ├── InputError          data that a part cannot take: ids, shapes, lengths
    └── TrainingError       a run that cannot go on; its last good state is on disk

The first two are a `ValueError` as well, since the value that was given is what is wrong.
A broken promise inside the code is an `assert`, never one of these.
"""

from __future__ import annotations

from collections.abc import Sequence


class Seq2SeeError(Exception):
    """Something a user can mend; the text is one line that says what is wrong and what to do."""


class ConfigError(Seq2SeeError, ValueError):
    """Settings that cannot be; `problems` names every one of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Sequence[str]]]:
        return type(self), (self.problems,)  # by default it would be made from its own text


class InputError(Seq2SeeError, ValueError):
    """Data that a part cannot take."""


class TrainingError(Seq2SeeError):
    """A run that cannot go on; its last good state is on disk."""
