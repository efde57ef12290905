"""`seq2see explain`: how a translation came about, and what parts of the model are good for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2see.cli.translating import (
    BeamSize,
    Device,
    LengthPenalty,
    Model,
    Threads,
    dying_of_interrupts,
    loaded,
    translation_options,
)
from seq2see.cli.usage import wrong_use
from seq2see.errors import ConfigError

if TYPE_CHECKING:
    from seq2see.explain import Detail, Intervention

METHODS = ("attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion")

Sentence = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="A sentence, or - for standard input.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A page (.html), a picture (.svg, .png, .pdf) or .json."),
]
Target = Annotated[
    str | None, typer.Option(help="Explain this translation instead of the model's own.")
]
Off = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PLACE",
        help="Switch off a head (decoder.1.cross.3), a sublayer (decoder.1.feed_forward), a "
        "layer (decoder.1) or decoder.positions; counted from 0. May be given again.",
    ),
]
Scale = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE=X", help="Multiply the scores: decoder.1.cross.3=0.5."),
]
Hide = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE=I,J", help="Hide positions: decoder.cross=4,5."),
]
Shift = Annotated[
    list[str] | None,
    typer.Option(metavar="STACK=N", help="Begin at another position: encoder=5."),
]
Force = Annotated[
    str | None,
    typer.Option(metavar="N=TEXT", help="Behind the first N words go on with this: 3=elle."),
]
Layers = Annotated[
    str,
    typer.Option(help="Show all numbers inside: none, last, all, or encoder.0,decoder.1."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        metavar="|".join((*METHODS, "all")),
        help="Which source words mattered, by this method. May be given again.",
    ),
]
Words = Annotated[
    bool, typer.Option("--words", help="Find other words for each word of the translation.")
]
Site = Annotated[
    str | None,
    typer.Option(metavar="PLACE", help="Draw this attention alone: decoder.1.cross.3."),
]
Pronoun = Annotated[
    bool, typer.Option("--pronoun", help='Ask what "it" means, en to fr, by builtin:fables.')
]
Heads = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="The change in BLEU without each head, on this test set: a .tsv, two text files "
        "(--heads a.en --heads a.de), or builtin:fables/test.",
    ),
]
Sentences = Annotated[
    int | None, typer.Option(min=1, help="Of --heads and --pronoun: the first so many.")
]
Engine = Annotated[
    Literal["torch", "ctranslate2"],
    typer.Option(help="What translates; the words of ctranslate2 are forced and traced."),
]
Json = Annotated[bool, typer.Option("--json", help="The trace, on one line.")]


def explain(
    model: Model,
    text: Sentence = None,
    output: Output = None,
    target: Target = None,
    off: Off = None,
    scale: Scale = None,
    hide: Hide = None,
    shift: Shift = None,
    force: Force = None,
    layers: Layers = "last",
    method: Methods = None,
    words: Words = False,
    site: Site = None,
    pronoun: Pronoun = False,
    heads: Heads = None,
    sentences: Sentences = None,
    engine: Engine = "torch",
    device: Device = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    as_json: Json = False,
) -> None:
    """Show how a translation came about: attention, the beam, and what changes without a part."""
    from seq2see.cli import explanation

    with wrong_use():
        _refuse_misuse(text, pronoun, heads)
        interventions = _interventions(off, scale, hide, shift, force)
        detail = _detail(layers, method, words)
        place = explanation.place(site)
        search = translation_options(
            {"beam_size": beam_size, "length_penalty": length_penalty}
        ).search
        explanation.refuse_name(output, site)
    with dying_of_interrupts():
        translator = loaded(model, engine, device, threads)
        if pronoun:
            explanation.pronoun(translator, sentences, output, as_json)
        elif heads:
            explanation.heads(translator, heads, sentences, output, as_json)
        else:
            sentence = _sentence(text or "-")
            trace = explanation.traced(translator, sentence, target, search, interventions, detail)
            explanation.show(trace, output, place, as_json)


def _refuse_misuse(text: str | None, pronoun: bool, heads: list[str] | None) -> None:
    given = [name for name, is_given in (("--pronoun", pronoun), ("--heads", heads)) if is_given]
    if len(given) > 1:
        raise ConfigError(["`--pronoun` and `--heads` must be asked for one at a time"])
    if given and text is not None:
        raise ConfigError([f"TEXT must be left out with `{given[0]}`"])
    if not given and text is None:
        raise ConfigError(["TEXT, `--pronoun` or `--heads` must be given"])


def _sentence(text: str) -> str:
    return sys.stdin.read().strip() if text == "-" else text


def _interventions(
    off: list[str] | None,
    scale: list[str] | None,
    hide: list[str] | None,
    shift: list[str] | None,
    force: str | None,
) -> list[Intervention]:
    from seq2see.explain import addresses

    return [
        *map(addresses.parse_off, off or ()),
        *map(addresses.parse_scale, scale or ()),
        *map(addresses.parse_hide, hide or ()),
        *map(addresses.parse_shift, shift or ()),
        *([addresses.parse_force(force)] if force is not None else []),
    ]


def _detail(layers: str, methods: list[str] | None, words: bool) -> Detail:
    from seq2see.explain import Detail

    usual = {"none", "last", "all"}
    wanted = METHODS if "all" in (methods or ()) else tuple(dict.fromkeys(methods or ()))
    names = layers if layers in usual else layers.split(",")
    return Detail.model_validate({"layers": names, "methods": wanted, "words": words})
