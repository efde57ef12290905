"""Builds a trace: runs the usual search with a recorder, with or without interventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from seq2see.cancellation import check_cancelled
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.evaluate.comparison import DiffSide, diff_tokens
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.interventions import (
    ForceContinuation,
    Intervention,
    find_intervention_problems,
    named_attention_modules,
)
from seq2see.explain.source_attribution import compute_attribution, correlate_attribution_methods
from seq2see.explain.trace_builder import (
    TraceOptions,
    TraceRecorder,
    build_attention_maps,
    build_decoding_steps,
    build_layer_outputs,
    compute_logit_lenses,
)
from seq2see.explain.trace_format import (
    BeamTree,
    InterventionEffect,
    ModelShape,
    ScoredTranslation,
    TokenizedSentence,
    Trace,
)
from seq2see.explain.words import (
    build_source_sentence,
    build_start_token,
    build_target_sentence,
    find_word_alternatives,
)
from seq2see.model import RelativeAttention
from seq2see.model.basic_modules import NORMS, PreNormResidual, Residual
from seq2see.model.positional_encodings import PositionalEncoding
from seq2see.search import Hypothesis, SearchConfig
from seq2see.text.languages import is_written_without_spaces
from seq2see.translator import Translator

_DIFF_KINDS: dict[DiffSide, Literal["same", "removed", "added"]] = {
    "both": "same",
    "first": "removed",
    "second": "added",
}


def explain(
    translator: Translator,
    source: str,
    target: str | None = None,
    *,
    search: SearchConfig | None = None,
    interventions: Sequence[Intervention] = (),
    options: TraceOptions | None = None,
) -> Trace:
    """Return the trace of a translation.

    With another engine than torch, the translation of the engine is force-decoded, unless the
    search in torch finds the same text.

    Args:
        translator: Translator of the sentence.
        source: Sentence to translate.
        target: Translation to trace by forced decoding, instead of searching for one.
        search: Search configuration; the defaults of the engine if None.
        interventions: Changes of the model.
        options: Contents of the trace.

    Raises:
        ConfigError: If the model does not have a layer or head of an intervention or an option.
        InputError: If the text is too long for one segment, or has several sentences.
    """
    search = translator.engine.resolve_config(search or SearchConfig())
    explained = ExplainedModel(translator)
    is_torch = isinstance(translator.engine, TorchEngine)
    if not (is_torch or target is not None or interventions):
        translation = translator.translate(source, **search.model_dump()).text
        best = explained.search(explained.encode_source(source), search)
        if explained.tokenizers.target.decode(best.tokens_without_eos) != translation:
            target = translation
    return trace_translation(explained, source, target, search, interventions, options)


@torch.inference_mode()
def trace_translation(
    explained: ExplainedModel,
    source: str,
    target: str | None = None,
    search: SearchConfig | None = None,
    interventions: Sequence[Intervention] = (),
    options: TraceOptions | None = None,
) -> Trace:
    """Return the trace of a translation by a model in eval mode; see `explain`."""
    search, options = search or SearchConfig(), options or TraceOptions()
    model = explained.model
    assert not model.training, "the model must be in eval mode"
    explained.check_sentences(source)
    ids = explained.encode_source(source)
    sentence = build_source_sentence(explained, source, ids)
    problems = [*find_intervention_problems(model, interventions, len(sentence.tokens))]
    if problems := [*problems, *options.find_problems(model)]:
        raise ConfigError(*problems)
    forced = [] if target is None else explained.encode_targets([target])[0]
    if forced and any(isinstance(each, ForceContinuation) for each in interventions):
        raise InputError("a target and a forced continuation cannot be combined: give one of them")
    patched, prefix, baselines = explained, list[int](), list[Hypothesis]()
    if interventions:
        patched = explained.with_interventions(interventions)
        baselines = search_baselines(explained, patched, ids, search, forced)
        prefix = build_forced_prefix(explained, baselines[0], interventions)
    recorder = TraceRecorder(explained, search, options)
    best = patched.search(ids, search, prefix=prefix, forced_tokens=forced, recorder=recorder)
    target_sentence = build_target_sentence(explained, best)
    effect = compare_with_baseline(explained, baselines, target_sentence) if baselines else None
    trace = _build_trace(
        patched,
        recorder,
        best,
        search=search,
        is_forced=bool(forced),
        interventions=interventions,
        intervention_effect=effect,
        source=sentence,
        target=target_sentence,
    )
    return _add_attributions(trace, patched, options)


def _build_trace(
    patched: ExplainedModel, recorder: TraceRecorder, best: Hypothesis, **fields: Any
) -> Trace:
    """Return the trace of a recorded search with the patched model, without attributions."""
    explained, path = recorder.explained, recorder.find_path(best)
    start = build_start_token(explained)
    return Trace(
        **fields,
        model=_describe_model(explained),
        start_token=start,
        translation=build_scored_translation(explained, best),
        steps=build_decoding_steps(explained, path, start.piece),
        beam=BeamTree(nodes=recorder.nodes, best_path=[each.node.id for each in path]),
        attention=build_attention_maps(recorder, path, fields["interventions"]),
        layer_outputs=build_layer_outputs(recorder, path),
        logit_lens=compute_logit_lenses(patched, path),
    )


def _add_attributions(
    trace: Trace,
    explained: ExplainedModel,
    options: TraceOptions,
) -> Trace:
    """Return the trace with attributions and word alternatives as far as they are requested."""
    attributions = []
    for method in options.attributions:
        check_cancelled()
        attributions.append(compute_attribution(explained, trace, method))
    correlation = correlate_attribution_methods(attributions) if attributions else None
    alternatives = find_word_alternatives(explained, trace) if options.word_alternatives else []
    return trace.model_copy(
        update={
            "attributions": tuple(attributions),
            "rank_correlation": correlation,
            "word_alternatives": tuple(alternatives),
        }
    )


def _describe_model(explained: ExplainedModel) -> ModelShape:
    """Return the size of the model, and the kinds of positions and norm by their names."""
    model = explained.model
    _, first = next(named_attention_modules(model))
    positions: PositionalEncoding = model.encoder.embeddings.positions
    if isinstance(first.attention, RelativeAttention):
        positions = first.attention.distances
    residual = next(module for module in model.modules() if isinstance(module, Residual))
    placement = "pre" if isinstance(residual, PreNormResidual) else "post"
    norm = next(name for name, kind in NORMS.items() if isinstance(residual.norm, kind))
    d_model = model.encoder.embeddings.tokens.weight_VM.size(1)
    return ModelShape(
        encoder_layers=len(model.encoder.layers),
        decoder_layers=len(model.decoder.layers),
        heads=first.heads,
        d_model=d_model,
        d_head=d_model // first.heads,
        vocab_size=explained.tokenizers.target.vocab_size,
        positions=positions.kind,
        norm=f"{placement} {norm}",
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def build_scored_translation(
    explained: ExplainedModel, hypothesis: Hypothesis
) -> ScoredTranslation:
    """Return the text and scores of a hypothesis."""
    return ScoredTranslation(
        text=explained.tokenizers.target.decode(hypothesis.tokens_without_eos),
        log_prob=hypothesis.log_prob,
        score=hypothesis.score,
        is_finished=hypothesis.is_finished,
    )


def build_forced_prefix(
    explained: ExplainedModel, baseline: Hypothesis, interventions: Sequence[Intervention]
) -> list[int]:
    """Return the ids of the forced prefix: the first words of the baseline and the forced text.

    Without a `ForceContinuation` the prefix is empty.

    Raises:
        InputError: If two continuations are forced.
        ConfigError: If the baseline has fewer words.
    """
    forced = [(i, x) for i, x in enumerate(interventions) if isinstance(x, ForceContinuation)]
    if not forced:
        return []
    if len(forced) > 1:
        raise InputError(f"only one continuation can be forced, but {len(forced)} are given")
    ((index, continuation),) = forced
    num_words = continuation.num_prefix_words
    words = build_target_sentence(explained, baseline).words
    if num_words > len(words):
        raise ConfigError(
            Problem(
                f"interventions.{index}.num_prefix_words",
                f"must be at most {len(words)}, the number of words of the translation, "
                f"but is {num_words} instead",
            )
        )
    tokenizer = explained.tokenizers.target
    end = words[num_words - 1].end_token if num_words else 0
    before = tokenizer.decode(baseline.tokens[:end])
    is_joined = before.endswith(("'", "’")) or is_written_without_spaces(explained.languages[1])
    return tokenizer.encode(f"{before}{'' if is_joined else ' '}{continuation.text}")


def search_baselines(
    explained: ExplainedModel,
    patched: ExplainedModel,
    ids: Sequence[int],
    search: SearchConfig,
    forced: Sequence[int],
) -> list[Hypothesis]:
    """Return the translation by the unchanged model, and its tokens scored by the patched model.

    Both are forced, so that the log-probabilities differ only by the interventions.
    """
    plain = explained.with_interventions([])
    tokens = plain.search(ids, search, forced_tokens=forced).tokens
    return [each.search(ids, search, forced_tokens=tokens) for each in (plain, patched)]


def compare_with_baseline(
    explained: ExplainedModel, baselines: Sequence[Hypothesis], after: TokenizedSentence
) -> InterventionEffect:
    """Return the effect of interventions.

    Args:
        explained: The unchanged model.
        baselines: Result of `search_baselines`.
        after: Translation by the patched model.
    """
    baseline, patched_baseline = baselines
    before = build_target_sentence(explained, baseline)
    spans = diff_tokens([w.text for w in before.words], [w.text for w in after.words])
    return InterventionEffect(
        baseline=build_scored_translation(explained, baseline),
        baseline_log_prob_after=patched_baseline.log_prob,
        word_diff=[(_DIFF_KINDS[side], word) for side, words in spans for word in words],
    )
