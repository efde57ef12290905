"""`seq2see explain`: trace one translation, or measure heads and pronouns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from seq2see.cli import options, usage_errors
from seq2see.cli.inputs import check_extension, check_output_path
from seq2see.errors import ConfigError, Problem, reading
from seq2see.registries import FIGURE_FORMATS

if TYPE_CHECKING:
    from seq2see.explain import Intervention, TraceOptions

_TRACE_ONLY = (
    *("target", "ablate", "scale_scores", "mask_keys", "shift_positions", "force_continuation"),
    *("layers", "attribution", "word_alternatives", "plot_attention"),
    *("beam_size", "length_penalty"),
)
"""Options that only apply to the trace of a sentence."""


@dataclass(frozen=True, slots=True)
class InterventionOptions:
    """Changes of the model and of its translation."""

    ablate: Annotated[list[str] | None, typer.Option(metavar="ADDRESS")] = None
    scale_scores: Annotated[list[str] | None, typer.Option(metavar="ADDRESS=FACTOR")] = None
    mask_keys: Annotated[list[str] | None, typer.Option(metavar="ADDRESS=I,J")] = None
    shift_positions: Annotated[list[str] | None, typer.Option(metavar="STACK=N")] = None
    force_continuation: Annotated[list[str] | None, typer.Option(metavar="N=TEXT")] = None

    def parse(self) -> list[tuple[str, Intervention]]:
        """Return the interventions, each with the option as it was typed."""
        typed = [(name, text) for name, texts in asdict(self).items() for text in texts or ()]
        parsed = usage_errors.call_all_collecting_errors(
            *(partial(_parse_intervention, *one) for one in typed)
        )
        names = (f"{usage_errors.option_name(name)} {text}" for name, text in typed)
        return list(zip(names, parsed, strict=True))


@dataclass(frozen=True, slots=True)
class TracedInferenceOptions(options.InferenceOptions):
    """Where a model runs; a trace needs torch, also of a translation of ctranslate2."""

    engine: Literal["torch", "ctranslate2"] = "torch"


def explain(
    context: typer.Context,
    model: options.ModelArgument,
    text: Annotated[str | None, typer.Argument(metavar="TEXT")] = None,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE")] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    intervention_options: InterventionOptions,
    layers: Annotated[str, typer.Option(metavar="none|last|all|LAYERS")] = "last",
    attribution: Annotated[list[str] | None, typer.Option(metavar="METHOD")] = None,
    word_alternatives: Annotated[bool, typer.Option("--word-alternatives")] = False,
    plot_attention: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    pronoun_test: Annotated[bool, typer.Option("--pronoun-test")] = False,
    head_importance: Annotated[list[str] | None, typer.Option(metavar="FILE")] = None,
    max_sentences: Annotated[int | None, typer.Option(min=1)] = None,
    engine_options: TracedInferenceOptions,
    beam_search: options.BeamSearchOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Trace one translation.

    The trace has attention, beam search, attributions, and the effects of interventions.

    Args:
        text: Source sentence to translate; `-` reads it from standard input. Required unless
            --pronoun-test or --head-importance is given.
        output: Also write the result to this file: interactive page (.html), figure (.svg, .png,
            .pdf) or data (.json).
        target: Trace this translation of the sentence (forced decoding) instead of the one that the
            model finds.
        ablate: Ablate a part of the model. The address of a head is STACK.LAYER.KIND.HEAD, for
            example decoder.1.cross.3: STACK is encoder or decoder, KIND is self or, in the decoder,
            cross; indices start at 0. The output of a head, or of a sublayer (decoder.1.cross,
            decoder.1.feed_forward), is set to zero; a layer (decoder.1) is skipped; the positional
            encoding of a stack (decoder.positions) is removed. May be repeated.
        scale_scores: Multiply the attention scores, before the softmax, by a factor. ADDRESS is a
            head (decoder.1.cross.3=0.5) or all heads of an attention (decoder.1.cross=0.5). May be
            repeated.
        mask_keys: Mask the keys at these token positions, which start at 0, in attention. ADDRESS
            is a head (decoder.1.cross.3=4,5), an attention (decoder.1.cross=4,5) or the attention
            of all layers (decoder.cross=4,5). May be repeated.
        shift_positions: Add N to all position indices of the encoder or decoder, for example
            encoder=5. May be repeated.
        force_continuation: Keep the first N words of the model's translation, append TEXT, and let
            the model complete the sentence, for example 3=elle.
        layers: Layers whose attention scores, queries, keys and values are stored in the trace:
            none, last (of encoder and decoder), all, or a list such as encoder.0,decoder.1.
        attribution: Compute how much each source word contributes to each target token, by this
            method: attention, rollout, gradient_x_input, integrated_gradients, occlusion or all.
            May be repeated. Default: none is computed.
        word_alternatives: List likely alternatives for each word of the translation.
        plot_attention: Plot only the attention weights at this address: of a head
            (decoder.1.cross.3), or the mean over all heads (decoder.1.cross). Requires --output
            with a figure.
        pronoun_test: Instead of tracing TEXT, test how the model translates the pronoun "it", on
            contrastive sentence pairs of builtin:fables (English-French models only).
        head_importance: Instead of tracing TEXT, measure the importance of each head: the change in
            BLEU on this test set when the head is ablated. One .tsv file, two text files (give the
            option twice), or builtin:fables/test.
        max_sentences: Number of sentences that --head-importance uses (default: all) or of pairs
            that --pronoun-test uses (default: 300), from the start.
        engine: Inference backend that finds the translation. A translation of ctranslate2 is traced
            by forced decoding in torch. With --target or an intervention (--ablate, --scale-scores,
            --mask-keys, --shift-positions, --force-continuation), torch is used.
        device: Device, for example cpu or cuda:0. `auto` uses cuda if it is available, otherwise
            mps (Apple), otherwise cpu.
        as_json: Print the trace or report as one line of JSON.
    """
    from seq2see.cli import explain_output
    from seq2see.explain.interventions import parse_attention_address
    from seq2see.explain.tracing import explain as trace_sentence

    _, interventions, trace_options, address, _, translation_options = (
        usage_errors.call_all_collecting_errors(
            lambda: usage_errors.raise_problems([*_find_conflicts(context)]),
            intervention_options.parse,
            lambda: _build_trace_options(layers, attribution or (), word_alternatives),
            lambda: parse_attention_address(plot_attention) if plot_attention else None,
            lambda: _check_output_extension(output, plot_attention),
            lambda: options.build_translation_options(beam_search),
        )
    )
    check_output_path(output)
    translator = engine_options.load_translator(model)
    if pronoun_test:
        explain_output.run_and_print_pronoun_test(translator, max_sentences, output, as_json)
    elif head_importance:
        explain_output.measure_and_print_head_importance(
            translator, head_importance, max_sentences, output, as_json
        )
    else:
        assert text is not None
        sentence = text
        if text == "-":
            with reading("standard input"):
                sentence = sys.stdin.read().strip()
        try:
            trace = trace_sentence(
                translator,
                sentence,
                target,
                search=translation_options.search,
                interventions=[intervention for _, intervention in interventions],
                options=trace_options,
            )
        except ConfigError as error:
            typed = [option for option, _ in interventions]
            problems = (_name_intervention(problem, typed) for problem in error.problems)
            raise ConfigError(*problems) from None
        explain_output.output_trace(trace, output, address, as_json)


def _find_conflicts(context: typer.Context) -> Iterator[Problem | str]:
    """Yield a message for each combination of options that is not allowed."""
    has_text = context.params["text"] is not None
    modes = usage_errors.given_options(context, "pronoun_test", "head_importance")
    if len(modes) > 1:
        yield f"{' and '.join(modes)} exclude each other"
    if modes and has_text:
        yield f"TEXT must be left out with {modes[0]}"
    if not modes and not has_text:
        yield "TEXT, `--pronoun-test` or `--head-importance` must be given"
    if not modes and usage_errors.given_options(context, "max_sentences"):
        yield Problem("--max-sentences", "needs --pronoun-test or --head-importance")
    if modes and (names := usage_errors.given_options(context, *_TRACE_ONLY)):
        yield f"{', '.join(names)} must be left out with {modes[0]}"
    if len(usage_errors.given_options(context, "target", "force_continuation")) > 1:
        reason = "which changes the translation of the model"
        yield Problem("--target", f"must be left out with --force-continuation, {reason}")


def _check_output_extension(path: Path | None, plot_attention: str | None) -> None:
    """Raise ConfigError if the output is not a supported file, or not a figure to plot to."""
    from seq2see.explain.trace_format import OUTPUT_FORMATS

    check_extension(path, OUTPUT_FORMATS, "--output")
    if plot_attention and (path is None or path.suffix.lower() not in FIGURE_FORMATS):
        raise ConfigError(
            Problem("--plot-attention", "needs --output with a figure, for example attention.svg")
        )


def _parse_intervention(name: str, text: str) -> Intervention:
    """Return the intervention of an option; raise a ConfigError that names the option."""
    from seq2see.explain.interventions import parse_intervention

    try:
        return parse_intervention(name, text)
    except ConfigError as error:
        raise ConfigError(*(replace(p, field=name) for p in error.problems)) from None


def _build_trace_options(
    layers: str, attributions: Sequence[str], word_alternatives: bool
) -> TraceOptions:
    """Return what the trace contains; the method `all` means all attribution methods."""
    from seq2see.explain import TraceOptions
    from seq2see.explain.trace_format import AttributionMethod

    methods = [
        m
        for each in attributions
        for m in (get_args(AttributionMethod) if each == "all" else [each])
    ]
    names: Any = layers if layers in {"none", "last", "all"} else tuple(layers.split(","))
    of_layers, of_methods = usage_errors.call_all_collecting_errors(
        lambda: TraceOptions(layers=names),
        lambda: TraceOptions(
            attributions=tuple(dict.fromkeys(methods)), word_alternatives=word_alternatives
        ),
    )
    trace_options: TraceOptions = of_methods.replace(layers=of_layers.layers)
    return trace_options


def _name_intervention(problem: Problem, typed: Sequence[str]) -> Problem | str:
    """Return the problem of an intervention with the option that requested it."""
    match problem.field.split("."):
        case ["interventions", index, name]:
            return f"`{typed[int(index)]}`: {name} {problem.message}"
    return problem
