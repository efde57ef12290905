"""`seq2see explain`: how a translation came about, and what parts of the model are good for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2see.cli.inputs import check_output_path
from seq2see.cli.options import (
    BeamSizeOption,
    DeviceOption,
    LengthPenaltyOption,
    ModelArgument,
    ThreadsOption,
    build_translation_options,
    exit_on_interrupt,
    load_translator,
)
from seq2see.cli.usage import collect_errors, format_given_options
from seq2see.errors import ConfigError

ATTRIBUTION_METHODS = (
    "attention",
    "rollout",
    "gradient_x_input",
    "integrated_gradients",
    "occlusion",
)

_TextArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[TEXT]",
        help="Source sentence to translate; `-` reads it from standard input. Required unless "
        "--pronoun-test or --head-importance is given.",
    ),
]
_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Also write the result to this file: interactive page (.html), figure (.svg, .png, "
        ".pdf) or data (.json).",
    ),
]
_TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Trace this translation of the sentence (forced decoding) instead of the one that the "
        "model finds.",
    ),
]
_AblateOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="Ablate a part of the model: a head (decoder.1.cross.3), a sublayer "
        "(decoder.1.feed_forward), a layer (decoder.1) or the positional encoding "
        "(decoder.positions). Indices start at 0. May be repeated.",
    ),
]
_ScaleScoresOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS=FACTOR",
        help="Multiply the attention scores (before the softmax) by a factor, for example "
        "decoder.1.cross.3=0.5. May be repeated.",
    ),
]
_MaskKeysOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS=I,J",
        help="Mask the keys at these token positions (from 0) in attention, for example "
        "decoder.cross=4,5. May be repeated.",
    ),
]
_ShiftPositionsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STACK=N",
        help="Add N to all position indices of the encoder or decoder, for example encoder=5. May "
        "be repeated.",
    ),
]
_ForceContinuationOption = Annotated[
    str | None,
    typer.Option(
        metavar="N=TEXT",
        help="Keep the first N words of the model's translation, append TEXT, and let the model "
        "complete the sentence, for example 3=elle.",
    ),
]
_LayersOption = Annotated[
    str,
    typer.Option(
        metavar="none|last|all|LAYERS",
        help="Layers whose attention scores, queries, keys, values and outputs are stored in the "
        "trace: none, last (of encoder and decoder), all, or a list such as encoder.0,decoder.1.",
    ),
]
_AttributionOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="|".join((*ATTRIBUTION_METHODS, "all")),
        help="Attribution method: compute how much each source word contributes to each target "
        "token. May be repeated. Default: none.",
    ),
]
_WordAlternativesOption = Annotated[
    bool,
    typer.Option(
        "--word-alternatives", help="List likely alternatives for each word of the translation."
    ),
]
_PlotAttentionOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Plot only this attention, for example all heads of decoder.1.cross or the head "
        "decoder.1.cross.3. Requires --output with a figure.",
    ),
]
_PronounTestOption = Annotated[
    bool,
    typer.Option(
        "--pronoun-test",
        help='Instead of tracing TEXT, test how the model translates the pronoun "it", on '
        "contrastive sentence pairs of builtin:fables (English-French models only).",
    ),
]
_HeadImportanceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Instead of tracing TEXT, measure the importance of each head: the change in BLEU on "
        "this test set when the head is ablated. One .tsv file, two text files (give the option "
        "twice), or builtin:fables/test.",
    ),
]
_MaxSentencesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of sentences that --head-importance uses (default: all) or of pairs that "
        "--pronoun-test uses (default: 300), from the start.",
    ),
]
_EngineOption = Annotated[
    Literal["torch", "ctranslate2"],
    typer.Option(
        help="Inference backend that produces the translation. A translation of ctranslate2 is "
        "traced by forced decoding in torch."
    ),
]
_JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the trace or report as one line of JSON.")
]


def explain(
    model: ModelArgument,
    text: _TextArgument = None,
    output: _OutputOption = None,
    target: _TargetOption = None,
    ablate: _AblateOption = None,
    scale_scores: _ScaleScoresOption = None,
    mask_keys: _MaskKeysOption = None,
    shift_positions: _ShiftPositionsOption = None,
    force_continuation: _ForceContinuationOption = None,
    layers: _LayersOption = "last",
    attribution: _AttributionOption = None,
    word_alternatives: _WordAlternativesOption = False,
    plot_attention: _PlotAttentionOption = None,
    pronoun_test: _PronounTestOption = False,
    head_importance: _HeadImportanceOption = None,
    max_sentences: _MaxSentencesOption = None,
    engine: _EngineOption = "torch",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    beam_size: BeamSizeOption = None,
    length_penalty: LengthPenaltyOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Trace one translation: attention, beam search, attributions, and effects of interventions."""
    from seq2see.cli import explain_output, interventions

    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    trace_only: dict[str, object] = {
        "target": target,
        "ablate": ablate,
        "scale_scores": scale_scores,
        "mask_keys": mask_keys,
        "shift_positions": shift_positions,
        "force_continuation": force_continuation,
        "layers": layers != "last",
        "attribution": attribution,
        "word_alternatives": word_alternatives,
        "plot_attention": plot_attention,
        **search,
    }
    _, parsed, trace_options, address, _, options = collect_errors(
        lambda: _check_conflicts(text, pronoun_test, head_importance, max_sentences, trace_only),
        lambda: interventions.parse_interventions(
            ablate, scale_scores, mask_keys, shift_positions, force_continuation
        ),
        lambda: interventions.parse_trace_options(layers, attribution or (), word_alternatives),
        lambda: explain_output.parse_plot_attention(plot_attention),
        lambda: explain_output.check_output_name(output, plot_attention),
        lambda: build_translation_options(search),
    )
    check_output_path(output)
    with exit_on_interrupt():
        translator = load_translator(model, engine, device, threads)
        if pronoun_test:
            explain_output.output_pronoun_test(translator, max_sentences, output, as_json)
        elif head_importance:
            explain_output.output_head_importance(
                translator, head_importance, max_sentences, output, as_json
            )
        else:
            arguments = interventions.ExplainArguments(parsed, trace_options, address)
            assert text is not None
            trace = explain_output.trace_sentence(
                translator, _sentence(text), target, options.search, arguments
            )
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
    problems = []
    modes = {"--pronoun-test": pronoun_test, "--head-importance": bool(head_importance)}
    given = [option for option, is_given in modes.items() if is_given]
    if len(given) > 1:
        problems.append("`--pronoun-test` and `--head-importance` exclude each other")
    if given and text is not None:
        problems.append(f"TEXT must be left out with `{given[0]}`")
    if not given and text is None:
        problems.append("TEXT, `--pronoun-test` or `--head-importance` must be given")
    if max_sentences is not None and not given:
        problems.append("`--max-sentences` needs --pronoun-test or --head-importance")
    if given and (names := format_given_options(trace_only)):
        problems.append(f"{names} must be left out with `{given[0]}`")
    if trace_only["target"] is not None and trace_only["force_continuation"] is not None:
        problems.append(
            "`--target` must be left out with --force-continuation, which changes the translation "
            "of the model"
        )
    if problems:
        raise ConfigError(problems)


def _sentence(text: str) -> str:
    return sys.stdin.read().strip() if text == "-" else text
