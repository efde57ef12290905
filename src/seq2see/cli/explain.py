"""`seq2see explain`: how a translation came about, and what parts of the model are good for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2see.cli.inputs import refuse_place
from seq2see.cli.options import (
    BeamSize,
    Device,
    LengthPenalty,
    Model,
    Threads,
    dying_of_interrupts,
    loaded,
    translation_options,
)
from seq2see.cli.usage import all_of, given
from seq2see.errors import ConfigError

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
    from seq2see.cli import explain_output, interventions

    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    shown: dict[str, object] = {"target": target, "off": off, "scale": scale, "hide": hide}
    shown |= {"shift": shift, "force": force, "layers": layers != "last", "method": method}
    shown |= {"words": words, "site": site, **search}
    _, changes, detail, place, _, options = all_of(
        lambda: _refuse_misuse(text, pronoun, heads, sentences, shown),
        lambda: interventions.changes(off, scale, hide, shift, force),
        lambda: interventions.detail(layers, method or (), words),
        lambda: explain_output.parse_plot_attention(site),
        lambda: explain_output.refuse_name(output, site),
        lambda: translation_options(search),
    )
    refuse_place(output)
    with dying_of_interrupts():
        translator = loaded(model, engine, device, threads)
        if pronoun:
            explain_output.pronoun(translator, sentences, output, as_json)
        elif heads:
            explain_output.heads(translator, heads, sentences, output, as_json)
        else:
            wanted = interventions.Wanted(changes, detail, place)
            assert text is not None
            trace = explain_output.traced(
                translator, _sentence(text), target, options.search, wanted
            )
            explain_output.show(trace, output, wanted.site, as_json)


def _refuse_misuse(
    text: str | None,
    pronoun: bool,
    heads: list[str] | None,
    sentences: int | None,
    shown: Mapping[str, object],
) -> None:
    """Refuse what cannot be asked for together; `shown` are the options of one sentence."""
    problems = []
    modes = [name for name, wanted in (("--pronoun", pronoun), ("--heads", heads)) if wanted]
    if len(modes) > 1:
        problems.append("`--pronoun` and `--heads` must be asked for one at a time")
    if modes and text is not None:
        problems.append(f"TEXT must be left out with `{modes[0]}`")
    if not modes and text is None:
        problems.append("TEXT, `--pronoun` or `--heads` must be given")
    if sentences is not None and not modes:
        problems.append("`--sentences` needs --pronoun or --heads")
    if modes and (names := given(shown)):
        problems.append(f"{names} must be left out with `{modes[0]}`")
    if shown["target"] is not None and shown["force"] is not None:
        problems.append("`--target` must be left out with --force, which changes the model's own")
    if problems:
        raise ConfigError(problems)


def _sentence(text: str) -> str:
    return sys.stdin.read().strip() if text == "-" else text
