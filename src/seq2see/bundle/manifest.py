"""What `config.json` says: what the model is, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from seq2see import __version__
from seq2see.bundle.files import AGAIN, JOINT, SOURCE, TARGET, WEIGHTS, about
from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.model import ModelConfig
from seq2see.text import BOS_ID, EOS_ID

FORMAT = 1
"""A directory with a higher number is refused. Raise it when an older reader would go wrong."""

Language = Annotated[str, Field(min_length=1)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Framing(Config):
    """Which ids stand around a sentence. These are ours; models from elsewhere have others."""

    source_start: int | None = Field(default=None, ge=0)
    """Before a source."""
    source_end: int | None = Field(default=EOS_ID, ge=0)
    """Behind a source."""
    target_start: int = Field(default=BOS_ID, ge=0)
    """What the decoder is given first."""
    target_end: int = Field(default=EOS_ID, ge=0)
    """What ends a translation."""


class DataOrigin(Config):
    """A text that had a part in the making."""

    name: str
    """What it is called. No path: it goes where the model goes."""
    fingerprint: str
    """SHA-256, as `Corpus.fingerprint` gives it."""
    pairs: int | None = Field(default=None, ge=0)
    """How many there were."""


class SignedScore(Config):
    """A score that can be computed again."""

    data: str
    """The name of the test set."""
    metric: str
    """Such as BLEU."""
    value: float
    """As the signature says it is counted."""
    signature: str
    """How it was computed, in sacrebleu's words or our own."""


class Origin(Config):
    """How a model was made: plain JSON that is kept with it."""

    recipe: dict[str, JsonValue] = Field(default_factory=dict)
    """All settings; the only part that is not on the card."""
    data: tuple[DataOrigin, ...] = Field(default=(), strict=False)
    """What it was trained and validated on."""
    scores: tuple[SignedScore, ...] = Field(default=(), strict=False)
    """How good it is."""
    version: str = __version__
    """Of seq2see."""
    commit: str | None = None
    """Of seq2see's source, where that is known."""
    date: str | None = None
    """ISO 8601."""
    seconds: float | None = Field(default=None, ge=0)
    """How long training took."""
    updates: int | None = Field(default=None, ge=0)
    """How many steps that was."""
    notes: dict[str, JsonValue] = Field(default_factory=dict)
    """Anything else, such as the system that a model was imported from."""


class Description(Config):
    """What a model is, apart from its weights."""

    format: int = FORMAT
    languages: Annotated[tuple[Language, Language], Field(strict=False)]
    model: ModelConfig
    framing: Framing
    max_length: int | None = Field(ge=1)
    origin: Origin


class Manifest(Description):
    """The whole of `config.json`."""

    checksums: dict[str, Checksum]
    """SHA-256 of each file that belongs to it."""

    def conflicts(self) -> Iterator[str]:
        """Refuse other files than these: their names lead to paths."""
        names = set(self.checksums)
        if names not in ({WEIGHTS, JOINT}, {WEIGHTS, SOURCE, TARGET}):
            yield (
                f"`checksums` must name {WEIGHTS} and either {JOINT} or {SOURCE} and {TARGET}, "
                f"but has {', '.join(sorted(names)) or 'nothing'} instead"
            )


def parse(path: Path, content: bytes) -> Manifest:
    """Return what the content of this file says, if it is ours and not from the future."""
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"`{path}` must be JSON, but: {error}; {AGAIN}") from None
    number = table.get("format") if isinstance(table, dict) else None
    if type(number) is not int:
        raise InputError(
            f"`{path}` has no number of a format, so it is not of a model of ours: "
            "`seq2see import` reads those of other systems"
        )
    if number > FORMAT:
        raise InputError(
            f"`{path}` has format {number}, but seq2see {__version__} reads formats up to "
            f"{FORMAT}: install a newer version"
        )
    with about(path):
        return Manifest(**table)
