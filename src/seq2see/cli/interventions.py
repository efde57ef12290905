"""What `explain` changes in a model and shows of it: as typed, and whether the model has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from seq2see.cli.explain import ATTRIBUTION_METHODS
from seq2see.cli.usage import collect_errors
from seq2see.engines.batching import add_special_tokens
from seq2see.errors import ConfigError, InputError
from seq2see.explain import ExplainedModel, Intervention, TraceOptions, interventions
from seq2see.explain.interventions import check_masked_keys
from seq2see.explain.patched import patch_model
from seq2see.model.attention import MultiHeadAttention

AttentionAddress = tuple[str, int, str, int | None]
"""Stack, layer, kind and head of an attention."""
_NAME = re.compile(r"`\w+`")
_LAYER = re.compile(r"(encoder|decoder)\.\d+")


@dataclass(frozen=True, slots=True)
class ParsedIntervention:
    """An intervention, and how it was asked for."""

    option_text: str
    """For example `--ablate decoder.1`."""
    intervention: Intervention


@dataclass(frozen=True, slots=True)
class ExplainArguments:
    """What to change, and what to show."""

    parsed_interventions: Sequence[ParsedIntervention]
    trace_options: TraceOptions
    plot_attention: AttentionAddress | None = None
    """The attention that a picture shows alone."""

    @property
    def interventions(self) -> list[Intervention]:
        """What to change, without the words."""
        return [each.intervention for each in self.parsed_interventions]

    def find_problems(self, subject: ExplainedModel, sentence: str) -> Iterator[str]:
        """Yield what this model, or this sentence, does not have."""
        tokens = len(add_special_tokens(subject.encode_source(sentence), subject.special_tokens))
        for each in self.parsed_interventions:
            try:
                patch_model(subject.model, [each.intervention])
                check_masked_keys([each.intervention], tokens)
            except InputError as error:
                yield f"`{each.option_text}`: {str(error).replace('`', '')}"
        try:
            self.trace_options.detailed_layers(
                len(subject.model.encoder.layers), len(subject.model.decoder.layers)
            )
        except InputError as error:
            yield str(error)
        if self.plot_attention:
            yield from _missing_site(subject, *self.plot_attention)

    def with_option_name(self, error: InputError) -> InputError | ConfigError:
        """Name a forced word, which only a translation can tell to be too far, as it was typed."""
        forces = [
            each.option_text
            for each in self.parsed_interventions
            if each.option_text.startswith("--force-continuation ")
        ]
        if not forces or not str(error).startswith("`num_prefix_words`"):
            return error
        return ConfigError([f"`{forces[0]}`: {str(error).replace('`', '')}"])


def _missing_site(
    subject: ExplainedModel, stack: str, layer: int, kind: str, head: int | None
) -> Iterator[str]:
    parts = [part for part in subject.model.modules() if isinstance(part, MultiHeadAttention)]
    names = {f"{each.site.stack}.{each.site.layer}.{each.site.kind}": each.heads for each in parts}
    name = f"{stack}.{layer}.{kind}"
    if name not in names:
        yield f"`--plot-attention` must be one of {', '.join(names)}, but is {name} instead"
    elif head is not None and head >= names[name]:
        yield (
            f"`--plot-attention` must have a head below {names[name]}, but is {name}.{head} instead"
        )


def parse_interventions(
    ablate: list[str] | None,
    scale_scores: list[str] | None,
    mask_keys: list[str] | None,
    shift_positions: list[str] | None,
    force_continuation: str | None,
) -> list[ParsedIntervention]:
    """Read the options that change something, or say of all of them what is wrong."""
    asked: list[tuple[str, Callable[[str], Intervention], Sequence[str] | None]] = [
        ("--ablate", interventions.parse_ablation, ablate),
        ("--scale-scores", interventions.parse_scale_scores, scale_scores),
        ("--mask-keys", interventions.parse_mask_keys, mask_keys),
        ("--shift-positions", interventions.parse_shift_positions, shift_positions),
        (
            "--force-continuation",
            interventions.parse_force_continuation,
            None if force_continuation is None else [force_continuation],
        ),
    ]
    return collect_errors(
        *(
            partial(_change, option, parse, text)
            for option, parse, all_ in asked
            for text in all_ or ()
        )
    )


def _change(option: str, parse: Callable[[str], Intervention], text: str) -> ParsedIntervention:
    try:
        return ParsedIntervention(f"{option} {text}", parse(text))
    except ConfigError as error:
        problems = [_NAME.sub(f"`{option}`", problem, count=1) for problem in error.problems]
        raise ConfigError(problems) from None


def parse_trace_options(
    layers: str, attributions: Sequence[str], word_alternatives: bool
) -> TraceOptions:
    """Read the options that show more, or say of all of them what is wrong."""
    names, _ = collect_errors(
        lambda: _layers(layers), lambda: TraceOptions(attributions=_methods(attributions))
    )
    return TraceOptions(
        layers=names, attributions=_methods(attributions), word_alternatives=word_alternatives
    )


def _layers(text: str) -> str | tuple[str, ...]:
    if text in {"none", "last", "all"}:
        return text
    names = tuple(text.split(","))
    if wrong := [name for name in names if not _LAYER.fullmatch(name)]:
        wanted = "none, last, all or layers such as encoder.0,decoder.1"
        raise ConfigError([f"`--layers` must be {wanted}, but has {wrong[0]!r} instead"])
    return names


def _methods(names: Sequence[str]) -> tuple[Any, ...]:
    every = [each for name in names for each in (ATTRIBUTION_METHODS if name == "all" else (name,))]
    return tuple(dict.fromkeys(every))
