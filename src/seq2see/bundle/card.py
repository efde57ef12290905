"""The model card: what a person wants to know before using a model."""

from __future__ import annotations

from collections.abc import Iterator

from seq2see.bundle.manifest import DataOrigin, Description, Origin, SignedScore
from seq2see.bundle.weights import blank
from seq2see.model import ModelConfig, count_parameters

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


def card(model: Description, joint: bool) -> str:
    """Return the card, in Markdown."""
    source, target = model.languages
    origin = model.origin
    return _CARD.format(
        source=source,
        target=target,
        facts="\n".join(f"| {name} | {value} |" for name, value in _facts(model, joint)),
        data="\n".join(map(_data_line, origin.data)) or "Not recorded.",
        scores="\n".join(map(_score_line, origin.scores)) or "Not measured.",
    )


def _facts(model: Description, joint: bool) -> Iterator[tuple[str, str]]:
    config = model.model
    sizes = f"{config.vocab_size:,} pieces"
    yield "architecture", _architecture(config)
    yield "parameters", f"{count_parameters(blank(config)):,}"
    yield "vocabulary", sizes if joint else f"{sizes} and {config.output_size:,}"
    yield "made", _made(model.origin)
    yield from ((name, _line(value)) for name, value in model.origin.notes.items())


def _architecture(config: ModelConfig) -> str:
    return (
        f"{config.encoder_layers} + {config.decoder_layers} layers, d_model {config.d_model}, "
        f"{config.heads} heads, d_ff {config.d_ff}, {config.norm.placement}-norm"
    )


def _made(origin: Origin) -> str:
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


def _data_line(data: DataOrigin) -> str:
    pairs = "" if data.pairs is None else f"{data.pairs:,} pairs, "
    return f"- {_line(data.name)}: {pairs}fingerprint `{data.fingerprint}`"


def _score_line(score: SignedScore) -> str:
    return f"- {_line(score.data)}: {score.metric} {score.value:.2f}, signature `{score.signature}`"
