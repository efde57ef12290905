"""Schema of `config.json`, and the model card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from seq2see import __version__
from seq2see.bundle.files import DAMAGED_HINT, WEIGHTS_FILE, error_context
from seq2see.config import Config
from seq2see.errors import InputError, Problem, escape_control_characters
from seq2see.model import ModelConfig
from seq2see.text import BOS_ID, EOS_ID
from seq2see.text.tokenizer import JOINT_FILE, SOURCE_FILE, TARGET_FILE
from seq2see.text.training_text_statistics import TrainingTextStatistics

FORMAT_VERSION = 1
"""Version of the model directory. Newer versions are rejected. It must be increased when older
versions of seq2see would misread a model."""

LanguageTag = Annotated[str, Field(min_length=1)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class StartAndEndTokenIds(Config):
    """Ids of the tokens that start and end a sequence. The defaults are those of seq2see; imported
    models may have others."""

    source_bos_id: int | None = Field(default=None, ge=0)
    """Id before a source; None if there is no such token."""
    source_eos_id: int | None = Field(default=EOS_ID, ge=0)
    """Id after a source; None if there is no such token."""
    decoder_start_id: int = Field(default=BOS_ID, ge=0)
    """First input of the decoder."""
    target_eos_id: int = Field(default=EOS_ID, ge=0)
    """Id that ends a translation."""


class DatasetInfo(Config):
    """A corpus that the model was trained or validated on."""

    name: str
    """Name of the corpus, without a path."""
    fingerprint: str
    """SHA-256 of the corpus; see `Corpus.fingerprint`."""
    pairs: int | None = Field(default=None, ge=0)
    """Number of sentence pairs."""


class ReportedScore(Config):
    """A score of the model, with a signature that makes it reproducible."""

    data: str
    """Name of the test set."""
    metric: str
    """Name of the metric, for example BLEU."""
    value: float
    """The score."""
    signature: str
    """How the score was computed, in the format of sacrebleu."""


class Provenance(Config):
    """How a model was made. It is stored as JSON with the model."""

    recipe: dict[str, JsonValue] = Field(default_factory=dict)
    """All settings of the training run; not on the model card."""
    data: tuple[DatasetInfo, ...] = Field(default=(), strict=False)
    """Corpora that the model was trained and validated on."""
    scores: tuple[ReportedScore, ...] = Field(default=(), strict=False)
    """Scores of the model."""
    version: str = __version__
    """Version of seq2see."""
    commit: str | None = None
    """Commit of seq2see, if known."""
    date: str | None = None
    """Date in ISO 8601."""
    seconds: float | None = Field(default=None, ge=0)
    """Duration of the training."""
    updates: int | None = Field(default=None, ge=0)
    """Number of updates."""
    notes: dict[str, JsonValue] = Field(default_factory=dict)
    """Further information, for example the system that the model was imported from."""


class BundleMetadata(Config):
    """All information about a model except its files."""

    format: int = FORMAT_VERSION
    languages: Annotated[tuple[LanguageTag, LanguageTag], Field(strict=False)]
    model: ModelConfig
    special_tokens: StartAndEndTokenIds
    max_length: int | None = Field(ge=1)
    provenance: Provenance
    training_text: TrainingTextStatistics | None = None
    """Statistics of the training text; None for imported models."""


class Manifest(BundleMetadata):
    """Content of `config.json`."""

    checksums: dict[str, Checksum]
    """SHA-256 of each file of the model."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message if other files are listed, because their names are used as paths."""
        names = set(self.checksums)
        if names not in ({WEIGHTS_FILE, JOINT_FILE}, {WEIGHTS_FILE, SOURCE_FILE, TARGET_FILE}):
            yield Problem(
                "checksums",
                f"must name {WEIGHTS_FILE} and either {JOINT_FILE} or {SOURCE_FILE} and "
                f"{TARGET_FILE}, but has {', '.join(sorted(names)) or 'nothing'} instead",
            )


def parse_manifest(path: Path, content: bytes) -> Manifest:
    """Return the content of a `config.json`.

    Raises:
        InputError: If it is no `config.json` of seq2see, is invalid or has a newer format.
    """
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"`{path}` must be JSON, but: {error}; {DAMAGED_HINT}") from None
    version = table.get("format") if isinstance(table, dict) else None
    if type(version) is not int:
        raise InputError(
            f"`{path}` has no format version, so it is not from seq2see: "
            "import models of other systems with `seq2see import`"
        )
    if version > FORMAT_VERSION:
        raise InputError(
            f"`{path}` has format {version}, but seq2see {__version__} reads formats up to "
            f"{FORMAT_VERSION}: install a newer version"
        )
    with error_context(path):
        return Manifest(**table)


_CARD = """\
# {source} → {target}

A model for translation from {source} to {target}, in the format of seq2see.

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

DIR is this directory. It can be moved and contains no code.

## License

Not stated. Before you share this model, state its license and the licenses of the data here.
"""


def format_model_card(info: BundleMetadata, is_joint: bool, num_parameters: int) -> str:
    """Return the model card in Markdown."""
    source, target = info.languages
    provenance, facts = info.provenance, _describe_model(info, is_joint, num_parameters)
    card = _CARD.format(
        source=source,
        target=target,
        facts="\n".join(f"| {name} | {value} |" for name, value in facts),
        data="\n".join(map(_format_dataset, provenance.data)) or "Not recorded.",
        scores="\n".join(map(_format_score, provenance.scores)) or "Not measured.",
    )
    return escape_control_characters(card)


def _describe_model(
    info: BundleMetadata, is_joint: bool, num_parameters: int
) -> Iterator[tuple[str, str]]:
    """Yield name and value of each row of the table."""
    config = info.model
    pieces = f"{config.vocab_size:,} pieces"
    sizes = f"d_model {config.d_model}, {config.heads} heads, d_ff {config.d_ff}"
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
    yield "architecture", f"{layers}, {sizes}, {config.norm.placement}-norm"
    yield "parameters", f"{num_parameters:,}"
    yield "vocabulary", pieces if is_joint else f"{pieces} and {config.output_vocab_size:,}"
    if text := info.training_text:
        yield "training text", _describe_training_text(text)
    yield "made", _format_provenance(info.provenance)
    yield from ((name, _escape(value)) for name, value in info.provenance.notes.items())


def _describe_training_text(text: TrainingTextStatistics) -> str:
    number = text.max_sentences_per_line
    sentences = "1 sentence" if number == 1 else f"up to {number} sentences"
    lengths = (
        f"{text.source.mean_tokens:.1f} source and {text.target.mean_tokens:.1f} target tokens"
    )
    return f"{sentences} per line; {lengths} on average"


def _format_provenance(provenance: Provenance) -> str:
    commit = f" ({provenance.commit})" if provenance.commit else ""
    parts = [provenance.date, f"seq2see {provenance.version}{commit}"]
    if provenance.updates is not None:
        parts.append(f"{provenance.updates:,} updates")
    if provenance.seconds is not None:
        seconds = provenance.seconds
        parts.append(f"{seconds:.0f} seconds" if seconds < 600 else f"{seconds / 60:,.0f} minutes")
    return ", ".join(filter(None, parts))


def _escape(value: object) -> str:
    """Return a value as one line that can be used in a Markdown table or list."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _format_dataset(dataset: DatasetInfo) -> str:
    pairs = "" if dataset.pairs is None else f"{dataset.pairs:,} pairs, "
    return f"- {_escape(dataset.name)}: {pairs}fingerprint `{dataset.fingerprint}`"


def _format_score(score: ReportedScore) -> str:
    value = f"{score.metric} {score.value:.2f}"
    return f"- {_escape(score.data)}: {value}, signature `{score.signature}`"
