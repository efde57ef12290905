"""Schema of `config.json`, and the model card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from seq2see import __version__
from seq2see.bundle.files import (
    DAMAGED_HINT,
    JOINT_TOKENIZER_FILE,
    SOURCE_TOKENIZER_FILE,
    TARGET_TOKENIZER_FILE,
    WEIGHTS_FILE,
    error_context,
)
from seq2see.bundle.weights import build_meta_model
from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.model import ModelConfig, count_parameters
from seq2see.text import BOS_ID, EOS_ID

FORMAT_VERSION = 1
"""A directory with a higher number is refused. Raise it when an older reader would go wrong."""


LanguageTag = Annotated[str, Field(min_length=1)]


Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SpecialTokens(Config):
    """Which ids stand around a sentence. These are ours; models from elsewhere have others."""

    source_bos_id: int | None = Field(default=None, ge=0)
    """Before a source."""
    source_eos_id: int | None = Field(default=EOS_ID, ge=0)
    """Behind a source."""
    decoder_start_id: int = Field(default=BOS_ID, ge=0)
    """What the decoder is given first."""
    target_eos_id: int = Field(default=EOS_ID, ge=0)
    """What ends a translation."""


class DatasetInfo(Config):
    """A text that had a part in the making."""

    name: str
    """What it is called. No path: it goes where the model goes."""
    fingerprint: str
    """SHA-256, as `Corpus.fingerprint` gives it."""
    pairs: int | None = Field(default=None, ge=0)
    """How many there were."""


class ReportedScore(Config):
    """A score that can be computed again."""

    data: str
    """The name of the test set."""
    metric: str
    """Such as BLEU."""
    value: float
    """As the signature says it is counted."""
    signature: str
    """How it was computed, in sacrebleu's words or our own."""


class Provenance(Config):
    """How a model was made: plain JSON that is kept with it."""

    recipe: dict[str, JsonValue] = Field(default_factory=dict)
    """All settings; the only part that is not on the card."""
    data: tuple[DatasetInfo, ...] = Field(default=(), strict=False)
    """What it was trained and validated on."""
    scores: tuple[ReportedScore, ...] = Field(default=(), strict=False)
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


class ModelInfo(Config):
    """What a model is, apart from its weights."""

    format: int = FORMAT_VERSION
    languages: Annotated[tuple[LanguageTag, LanguageTag], Field(strict=False)]
    model: ModelConfig
    special_tokens: SpecialTokens
    max_length: int | None = Field(ge=1)
    provenance: Provenance


class Manifest(ModelInfo):
    """The whole of `config.json`."""

    checksums: dict[str, Checksum]
    """SHA-256 of each file that belongs to it."""

    def conflicts(self) -> Iterator[str]:
        """Refuse other files than these: their names lead to paths."""
        names = set(self.checksums)
        if names not in (
            {WEIGHTS_FILE, JOINT_TOKENIZER_FILE},
            {WEIGHTS_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE},
        ):
            yield (
                f"`checksums` must name {WEIGHTS_FILE} and either {JOINT_TOKENIZER_FILE} or {SOURCE_TOKENIZER_FILE} and {TARGET_TOKENIZER_FILE}, "
                f"but has {', '.join(sorted(names)) or 'nothing'} instead"
            )


def parse_manifest(path: Path, content: bytes) -> Manifest:
    """Return what the content of this file says, if it is ours and not from the future."""
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"`{path}` must be JSON, but: {error}; {DAMAGED_HINT}") from None
    number = table.get("format") if isinstance(table, dict) else None
    if type(number) is not int:
        raise InputError(
            f"`{path}` has no number of a format, so it is not of a model of ours: "
            "`seq2see import` reads those of other systems"
        )
    if number > FORMAT_VERSION:
        raise InputError(
            f"`{path}` has format {number}, but seq2see {__version__} reads formats up to "
            f"{FORMAT_VERSION}: install a newer version"
        )
    with error_context(path):
        return Manifest(**table)


_CARD = """\
# {source} → {target}

A translator from {source} to {target}, made with seq2see.

| | |
|---|---|
{facts}

## Data

{data}

## Scores

{scores}

## Use

    seq2see translate DIR < input.txt > output.txt

```python
import seq2see

translator = seq2see.load("DIR")
translator.translate("…").text
```

DIR is this directory. It may be moved, and nothing in it is code.

## Licence

Not stated. Who passes this model on says here under which terms, and those of the data.
"""


def format_model_card(info: ModelInfo, is_joint: bool) -> str:
    """Return the card, in Markdown."""
    source, target = info.languages
    origin = info.provenance
    return _CARD.format(
        source=source,
        target=target,
        facts="\n".join(f"| {name} | {value} |" for name, value in _facts(info, is_joint)),
        data="\n".join(map(_data_line, origin.data)) or "Not recorded.",
        scores="\n".join(map(_score_line, origin.scores)) or "Not measured.",
    )


def _facts(model: ModelInfo, joint: bool) -> Iterator[tuple[str, str]]:
    config = model.model
    sizes = f"{config.vocab_size:,} pieces"
    yield "architecture", _architecture(config)
    yield "parameters", f"{count_parameters(build_meta_model(config)):,}"
    yield "vocabulary", sizes if joint else f"{sizes} and {config.output_vocab_size:,}"
    yield "made", _made(model.provenance)
    yield from ((name, _line(value)) for name, value in model.provenance.notes.items())


def _architecture(config: ModelConfig) -> str:
    return (
        f"{config.encoder_layers} + {config.decoder_layers} layers, d_model {config.d_model}, "
        f"{config.heads} heads, d_ff {config.d_ff}, {config.norm.placement}-norm"
    )


def _made(origin: Provenance) -> str:
    commit = f" ({origin.commit})" if origin.commit else ""
    parts = (
        origin.date,
        f"seq2see {origin.version}{commit}",
        None if origin.updates is None else f"{origin.updates:,} updates",
        None if origin.seconds is None else _duration(origin.seconds),
    )
    return ", ".join(filter(None, parts))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 600 else f"{seconds / 60:,.0f} minutes"


def _line(value: object) -> str:
    """Return a text that leaves the table or the list around it whole."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _data_line(data: DatasetInfo) -> str:
    pairs = "" if data.pairs is None else f"{data.pairs:,} pairs, "
    return f"- {_line(data.name)}: {pairs}fingerprint `{data.fingerprint}`"


def _score_line(score: ReportedScore) -> str:
    return f"- {_line(score.data)}: {score.metric} {score.value:.2f}, signature `{score.signature}`"
