"""What `explain` changes in a model and shows of it: as typed, and whether the model has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from seq2see.cli.explain import METHODS
from seq2see.cli.usage import all_of
from seq2see.engines.batching import framed
from seq2see.errors import ConfigError, InputError
from seq2see.explain import Detail, Intervention, Subject, interventions
from seq2see.explain.interventions import refuse_missing_keys
from seq2see.explain.patched import altered
from seq2see.model.attention import MultiHead

Place = tuple[str, int, str, int | None]
"""Stack, layer, kind and head of an attention."""
_NAME = re.compile(r"`\w+`")
_LAYER = re.compile(r"(encoder|decoder)\.\d+")


@dataclass(frozen=True, slots=True)
class Change:
    """An intervention, and how it was asked for."""

    typed: str
    """Such as `--off decoder.1`."""
    intervention: Intervention


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to change, and what to show."""

    changes: Sequence[Change]
    detail: Detail
    site: Place | None = None
    """The attention that a picture shows alone."""

    @property
    def interventions(self) -> list[Intervention]:
        """What to change, without the words."""
        return [each.intervention for each in self.changes]

    def misfits(self, subject: Subject, sentence: str) -> Iterator[str]:
        """Yield what this model, or this sentence, does not have."""
        tokens = len(framed(subject.source_ids(sentence), subject.framing))
        for each in self.changes:
            try:
                altered(subject.model, [each.intervention])
                refuse_missing_keys([each.intervention], tokens)
            except InputError as error:
                yield f"`{each.typed}`: {str(error).replace('`', '')}"
        try:
            self.detail.whole(len(subject.model.encoder.layers), len(subject.model.decoder.layers))
        except InputError as error:
            yield str(error)
        if self.site:
            yield from _missing_site(subject, *self.site)

    def renamed(self, error: InputError) -> InputError | ConfigError:
        """Name a forced word, which only a translation can tell to be too far, as it was typed."""
        forces = [each.typed for each in self.changes if each.typed.startswith("--force ")]
        if not forces or not str(error).startswith("`word`"):
            return error
        return ConfigError([f"`{forces[0]}`: {str(error).replace('`', '')}"])


def _missing_site(
    subject: Subject, stack: str, layer: int, kind: str, head: int | None
) -> Iterator[str]:
    parts = [part for part in subject.model.modules() if isinstance(part, MultiHead)]
    names = {f"{each.site.stack}.{each.site.layer}.{each.site.kind}": each.heads for each in parts}
    name = f"{stack}.{layer}.{kind}"
    if name not in names:
        yield f"`--site` must be one of {', '.join(names)}, but is {name} instead"
    elif head is not None and head >= names[name]:
        yield f"`--site` must have a head below {names[name]}, but is {name}.{head} instead"


def changes(
    off: list[str] | None,
    scale: list[str] | None,
    hide: list[str] | None,
    shift: list[str] | None,
    force: str | None,
) -> list[Change]:
    """Read the options that change something, or say of all of them what is wrong."""
    asked: list[tuple[str, Callable[[str], Intervention], Sequence[str] | None]] = [
        ("--off", interventions.parse_off, off),
        ("--scale", interventions.parse_scale, scale),
        ("--hide", interventions.parse_hide, hide),
        ("--shift", interventions.parse_shift, shift),
        ("--force", interventions.parse_force, None if force is None else [force]),
    ]
    return all_of(
        *(
            partial(_change, option, parse, text)
            for option, parse, all_ in asked
            for text in all_ or ()
        )
    )


def _change(option: str, parse: Callable[[str], Intervention], text: str) -> Change:
    try:
        return Change(f"{option} {text}", parse(text))
    except ConfigError as error:
        problems = [_NAME.sub(f"`{option}`", problem, count=1) for problem in error.problems]
        raise ConfigError(problems) from None


def detail(layers: str, methods: Sequence[str], words: bool) -> Detail:
    """Read the options that show more, or say of all of them what is wrong."""
    names, _ = all_of(lambda: _layers(layers), lambda: Detail(methods=_methods(methods)))
    return Detail(layers=names, methods=_methods(methods), words=words)


def _layers(text: str) -> str | tuple[str, ...]:
    if text in {"none", "last", "all"}:
        return text
    names = tuple(text.split(","))
    if wrong := [name for name in names if not _LAYER.fullmatch(name)]:
        wanted = "none, last, all or layers such as encoder.0,decoder.1"
        raise ConfigError([f"`--layers` must be {wanted}, but has {wrong[0]!r} instead"])
    return names


def _methods(names: Sequence[str]) -> tuple[Any, ...]:
    every = [each for name in names for each in (METHODS if name == "all" else (name,))]
    return tuple(dict.fromkeys(every))
