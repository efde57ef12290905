"""`seq2see explain`: trace one translation, or measure heads and pronouns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2see.cli.corpora_and_path_checks import check_extension, check_output_path
from seq2see.cli.options import (
    DeviceOption,
    ModelArgument,
    ThreadsOption,
    load_translator,
)
from seq2see.cli.usage_errors import (
    call_all_collecting_errors,
    format_given_option_names,
    option_name,
)
from seq2see.errors import ConfigError, Problem

if TYPE_CHECKING:
    from seq2see.explain import Intervention, TraceOptions
    from seq2see.model import ModelConfig

AttentionAddress = tuple[str, int, str, int | None]
"""Stack, layer, kind and head of an attention; None means all heads."""
ATTRIBUTION_METHODS = (
    "attention",
    "rollout",
    "gradient_x_input",
    "integrated_gradients",
    "occlusion",
)


def explain(
    model: ModelArgument,
    text: Annotated[str | None, typer.Argument(metavar="TEXT")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE")] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    ablate: Annotated[list[str] | None, typer.Option(metavar="ADDRESS")] = None,
    scale_scores: Annotated[list[str] | None, typer.Option(metavar="ADDRESS=FACTOR")] = None,
    mask_keys: Annotated[list[str] | None, typer.Option(metavar="ADDRESS=I,J")] = None,
    shift_positions: Annotated[list[str] | None, typer.Option(metavar="STACK=N")] = None,
    force_continuation: Annotated[str | None, typer.Option(metavar="N=TEXT")] = None,
    layers: Annotated[str, typer.Option(metavar="none|last|all|LAYERS")] = "last",
    attribution: Annotated[list[str] | None, typer.Option(metavar="METHOD")] = None,
    word_alternatives: Annotated[bool, typer.Option("--word-alternatives")] = False,
    plot_attention: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    pronoun_test: Annotated[bool, typer.Option("--pronoun-test")] = False,
    head_importance: Annotated[list[str] | None, typer.Option(metavar="FILE")] = None,
    max_sentences: Annotated[int | None, typer.Option(min=1)] = None,
    engine: Literal["torch", "ctranslate2"] = "torch",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
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
            cpu.
        as_json: Print the trace or report as one line of JSON.
    """
    from seq2see.cli import explain_output
    from seq2see.explain.intervention_types import parse_attention_address
    from seq2see.explain.tracing import explain as trace_sentence
    from seq2see.search import SearchConfig

    search: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    intervention_options = {
        "ablate": ablate,
        "scale_scores": scale_scores,
        "mask_keys": mask_keys,
        "shift_positions": shift_positions,
        "force_continuation": None if force_continuation is None else [force_continuation],
    }
    trace_only: dict[str, object] = {
        "target": target,
        **intervention_options,
        "layers": layers != "last",
        "attribution": attribution,
        "word_alternatives": word_alternatives,
        "plot_attention": plot_attention,
        **search,
    }
    _, interventions, trace_options, address, _, search_config = call_all_collecting_errors(
        lambda: _check_conflicts(text, pronoun_test, head_importance, max_sentences, trace_only),
        lambda: call_all_collecting_errors(
            *(
                partial(_parse_intervention, name, value)
                for name, values in intervention_options.items()
                for value in values or ()
            )
        ),
        lambda: _build_trace_options(layers, attribution or (), word_alternatives),
        lambda: parse_attention_address(plot_attention) if plot_attention else None,
        lambda: _check_output_extension(output, plot_attention),
        lambda: SearchConfig(**{name: x for name, x in search.items() if x is not None}),
    )
    check_output_path(output)
    translator = load_translator(model, engine, device, threads)
    if pronoun_test:
        explain_output.run_and_print_pronoun_test(translator, max_sentences, output, as_json)
    elif head_importance:
        explain_output.measure_and_print_head_importance(
            translator, head_importance, max_sentences, output, as_json
        )
    else:
        assert text is not None
        sentence = sys.stdin.read().strip() if text == "-" else text
        if address:
            _check_plot_attention(translator.bundle.config, address)
        try:
            trace = trace_sentence(
                translator,
                sentence,
                target,
                search=search_config,
                interventions=[intervention for _, intervention in interventions],
                options=trace_options,
            )
        except ConfigError as error:
            options = [option for option, _ in interventions]
            problems = (_name_intervention(problem, options) for problem in error.problems)
            raise ConfigError(*problems) from None
        explain_output.output_trace(trace, output, address, as_json)


def _check_conflicts(
    text: str | None,
    pronoun_test: bool,
    head_importance: list[str] | None,
    max_sentences: int | None,
    trace_only: Mapping[str, object],
) -> None:
    """Raise ConfigError if options exclude each other.

    `trace_only` has the options that apply only to the trace of a sentence.
    """
    problems: list[Problem | str] = []
    modes = {"--pronoun-test": pronoun_test, "--head-importance": bool(head_importance)}
    given = [option for option, is_given in modes.items() if is_given]
    if len(given) > 1:
        problems.append("`--pronoun-test` and `--head-importance` exclude each other")
    if given and text is not None:
        problems.append(f"TEXT must be left out with `{given[0]}`")
    if not given and text is None:
        problems.append("TEXT, `--pronoun-test` or `--head-importance` must be given")
    if max_sentences is not None and not given:
        problems.append(Problem("--max-sentences", "needs --pronoun-test or --head-importance"))
    if given and (names := format_given_option_names(trace_only)):
        problems.append(f"{names} must be left out with `{given[0]}`")
    if trace_only["target"] is not None and trace_only["force_continuation"] is not None:
        problems.append(
            Problem(
                "--target",
                "must be left out with --force-continuation, which changes the translation of the "
                "model",
            )
        )
    if problems:
        raise ConfigError(*problems)


def _check_output_extension(path: Path | None, plot_attention: str | None) -> None:
    """Raise ConfigError if the output is not a supported file, or not a figure to plot to."""
    from seq2see import draw
    from seq2see.explain.trace_format import OUTPUT_FORMATS

    if path:
        check_extension(path, OUTPUT_FORMATS, "--output")
    if plot_attention and (path is None or path.suffix.lower() not in draw.FIGURE_FORMATS):
        raise ConfigError(
            Problem("--plot-attention", "needs --output with a figure, for example attention.svg")
        )


def _check_plot_attention(config: ModelConfig, address: AttentionAddress) -> None:
    """Raise ConfigError if the model does not have this attention or this head."""
    stack, layer, kind, head = address
    names = [f"encoder.{i}.self" for i in range(config.encoder_layers)]
    for i in range(config.decoder_layers):
        names += [f"decoder.{i}.self", f"decoder.{i}.cross"]
    name = f"{stack}.{layer}.{kind}"
    if name not in names:
        message = f"must be one of {', '.join(names)}, but is {name} instead"
        raise ConfigError(Problem("--plot-attention", message))
    if head is not None and head >= config.heads:
        message = f"must have a head below {config.heads}, but is {name}.{head} instead"
        raise ConfigError(Problem("--plot-attention", message))


def _parse_intervention(name: str, value: str) -> tuple[str, Intervention]:
    """Return the option as it was typed, and the intervention that it requests."""
    from seq2see.explain.intervention_types import parse_intervention

    try:
        return f"{option_name(name)} {value}", parse_intervention(name, value)
    except ConfigError as error:
        raise ConfigError(*(replace(p, field=name) for p in error.problems)) from None


def _build_trace_options(
    layers: str, attributions: Sequence[str], word_alternatives: bool
) -> TraceOptions:
    """Return what the trace contains; the method `all` means all attribution methods."""
    from seq2see.explain import TraceOptions

    methods = [
        m for each in attributions for m in (ATTRIBUTION_METHODS if each == "all" else [each])
    ]
    names: Any = layers if layers in {"none", "last", "all"} else tuple(layers.split(","))
    of_layers, of_methods = call_all_collecting_errors(
        lambda: TraceOptions(layers=names),
        lambda: TraceOptions(attributions=tuple(dict.fromkeys(methods))),
    )
    return TraceOptions(
        layers=of_layers.layers,
        attributions=of_methods.attributions,
        word_alternatives=word_alternatives,
    )


def _name_intervention(problem: Problem, options: Sequence[str]) -> Problem | str:
    """Return the problem of an intervention with the option that requested it."""
    match problem.field.split("."):
        case ["interventions", index, name]:
            return f"`{options[int(index)]}`: {name} {problem.message}"
    return problem
