"""Builds a trace: runs the usual search with a recorder, with or without interventions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from seq2see.config import Config
from seq2see.engines.batching import add_special_tokens
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.explain import trace_builder
from seq2see.explain.explained_model_and_recorder import ExplainedModel, TraceRecorder
from seq2see.explain.interventions import (
    ForceContinuation,
    Intervention,
    check_masked_key_indices,
    find_ablated_heads_of_module,
    has_score_scaling_intervention,
)
from seq2see.explain.source_attribution import (
    compute_attributions_per_method,
    correlate_attribution_methods,
)
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    AttributionMethod,
    InterventionEffect,
    ModelShape,
    ScoredTranslation,
    SourceAttribution,
    TokenizedSentence,
    Trace,
)
from seq2see.explain.word_grouping_and_word_alternatives import (
    build_source_sentence,
    build_start_token,
    build_target_sentence,
    find_word_alternatives,
)
from seq2see.model import (
    AttentionModuleId,
    DotProductAttention,
    LinformerAttention,
    RelativeAttention,
    StackName,
    Transformer,
    count_parameters,
)
from seq2see.model.attention import MultiHeadAttention
from seq2see.model.basic_modules import BatchNorm, PreNormResidual, Residual
from seq2see.model.embeddings import LearnedPositions, SinusoidalPositions
from seq2see.search import Hypothesis, SearchConfig, StepRecord
from seq2see.text.languages import is_written_without_spaces
from seq2see.translator import Translator

LayerNames = Annotated[tuple[str, ...], Field(strict=False)]


class TraceOptions(Config):
    """What a trace contains. Attention weights of all heads are always included."""

    layers: Literal["none", "last", "all"] | LayerNames = "last"
    """Layers with scores, queries, keys, values and outputs: `none`, `all`, `last` (of each stack),
    or names such as `decoder.1`."""
    top_k: int = Field(default=8, ge=1, le=100)
    """Number of most likely tokens per step."""
    attributions: tuple[AttributionMethod, ...] = Field(default=(), strict=False, max_length=5)
    """Attribution methods to compute."""
    word_alternatives: bool = False
    """Find alternatives for each word of the translation."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if a method is repeated."""
        methods = self.attributions
        if repeated := [method for method in methods if methods.count(method) > 1]:
            yield Problem("attributions", f"must differ, but {repeated[0]} is repeated")

    def detailed_layers(
        self, encoder_layers: int, decoder_layers: int
    ) -> set[tuple[StackName, int]]:
        """Return stack and index of the detailed layers of a model with these numbers of layers.

        Raises:
            ConfigError: If the model does not have a layer of `layers`.
        """
        sizes: dict[StackName, int] = {"encoder": encoder_layers, "decoder": decoder_layers}
        known = {f"{stack}.{i}": (stack, i) for stack, size in sizes.items() for i in range(size)}
        if self.layers == "all":
            return set(known.values())
        if self.layers == "last":
            return {(stack, size - 1) for stack, size in sizes.items()}
        names = () if self.layers == "none" else self.layers
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(
                Problem(
                    "layers",
                    f"must be none, last, all or some of {', '.join(known)}, "
                    f"but has {unknown[0]} instead",
                )
            )
        return {known[name] for name in names}


def explain(
    translator: Translator,
    source: str,
    target: str | None = None,
    *,
    search: SearchConfig | None = None,
    interventions: Sequence[Intervention] = (),
    options: TraceOptions | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
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
        check_cancelled: Called at each step and before each attribution; it may raise to cancel.

    Raises:
        InputError: If the text is too long for one segment, or an intervention is impossible.
    """
    engine = translator.engine
    search = engine.resolve_config(search or SearchConfig())
    explained, options = wrap_model_for_explaining(translator, source), options or TraceOptions()
    trace = trace_translation(
        explained, source, target, search, interventions, options, check_cancelled
    )
    if isinstance(engine, TorchEngine) or target is not None or interventions:
        return trace
    translation = translator.translate(source, **search.model_dump()).text
    if trace.translation.text == translation:
        return trace
    return trace_translation(explained, source, translation, search, (), options, check_cancelled)


def wrap_model_for_explaining(translator: Translator, source: str) -> ExplainedModel:
    """Return the model of a translator, to explain the translation of a source text.

    Raises:
        InputError: If the text has more tokens than one segment, or the engine is an ensemble.
    """
    length = len(translator.tokenizers.source.encode(source))
    if length > translator.max_tokens:
        raise InputError(
            f"the text must have at most {translator.max_tokens} tokens to be explained, "
            f"but has {length}: enter one sentence"
        )
    engine = translator.engine
    if not isinstance(engine, TorchEngine):
        return ExplainedModel.from_bundle(translator.bundle)
    if len(engine.models) > 1:
        raise InputError("an ensemble cannot be explained: load one of its models")
    return ExplainedModel(
        engine.model,
        translator.tokenizers,
        translator.languages,
        engine.special_tokens,
        engine.alignment,
        engine.stop_rule,
        translator.max_tokens,
    )


@torch.inference_mode()
def trace_translation(
    explained: ExplainedModel,
    source: str,
    target: str | None = None,
    search: SearchConfig | None = None,
    interventions: Sequence[Intervention] = (),
    options: TraceOptions | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Trace:
    """Return the trace of a translation by a model in eval mode; see `explain`."""
    search, options = search or SearchConfig(), options or TraceOptions()
    assert not explained.model.training, "the model must be in eval mode"
    ids = explained.encode_source(source)
    forced = _encode_forced_target(explained, target)
    if not interventions:
        builder = _TraceBuilder(explained, explained, source, ids, search, options, check_cancelled)
        return builder.build(forced)
    if forced and any(isinstance(each, ForceContinuation) for each in interventions):
        raise InputError("a target and a forced continuation cannot be combined: give one of them")
    check_masked_key_indices(interventions, len(add_special_tokens(ids, explained.special_tokens)))
    plain, patched = explained.with_interventions([]), explained.with_interventions(interventions)
    tokens = plain.search(ids, search, forced_tokens=forced).tokens
    # Both are forced, so that the log-probabilities differ only by the interventions.
    baseline, patched_baseline = (
        each.search(ids, search, forced_tokens=tokens) for each in (plain, patched)
    )
    prefix = build_forced_prefix(explained, baseline, interventions)
    builder = _TraceBuilder(
        explained, patched, source, ids, search, options, check_cancelled, tuple(interventions)
    )
    trace = builder.build(forced, prefix)
    return add_intervention_effect(trace, explained, baseline, patched_baseline)


def _encode_forced_target(explained: ExplainedModel, target: str | None) -> list[int]:
    if target is None:
        return []
    return [*explained.tokenizers.target.encode(target), explained.special_tokens.target_eos_id]


class _CancellableRecorder(TraceRecorder):
    """A recorder that calls `check_cancelled` at each step."""

    def __init__(
        self,
        detailed_layers: Collection[tuple[StackName, int]],
        top_k: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        super().__init__(detailed_layers, top_k)
        self._check_cancelled = check_cancelled

    def step(self, record: StepRecord) -> None:
        """Record a step, unless the request was canceled."""
        self._check_cancelled()
        super().step(record)


class _TraceBuilder:
    """Runs the search of one sentence with a recorder and builds its trace.

    `original` is the unchanged model, `explained` the model that translates, which is patched if
    there are interventions.
    """

    def __init__(
        self,
        original: ExplainedModel,
        explained: ExplainedModel,
        source: str,
        ids: Sequence[int],
        search: SearchConfig,
        options: TraceOptions,
        check_cancelled: Callable[[], None],
        interventions: tuple[Intervention, ...] = (),
    ) -> None:
        self.original = original
        self.explained = explained
        self.source = source
        self.ids = ids
        self.search = search
        self.options = options
        self.check_cancelled = check_cancelled
        self.interventions = interventions
        model = original.model
        self.modules = {m.site: m for m in model.modules() if isinstance(m, MultiHeadAttention)}
        detailed = options.detailed_layers(len(model.encoder.layers), len(model.decoder.layers))
        self.recorder = _CancellableRecorder(detailed, options.top_k, check_cancelled)

    def build(self, forced: Sequence[int], prefix: Sequence[int] = ()) -> Trace:
        """Translate and return the trace; `forced` are all tokens, `prefix` the first ones."""
        explained, recorder = self.explained, self.recorder
        best = explained.search(
            self.ids, self.search, prefix=prefix, forced_tokens=forced, recorder=recorder
        )
        display = explained.display_target_token
        nodes = trace_builder.build_beam_nodes(recorder, self.search.length_penalty, display)
        path = trace_builder.find_beam_path(recorder, nodes, best)
        start = build_start_token(explained.special_tokens, explained.tokenizers.target)
        steps = trace_builder.build_decoding_steps(recorder, nodes, path, start.piece, display)
        lenses = trace_builder.compute_logit_lenses(
            explained.model, recorder, path, best.tokens, display
        )
        trace = Trace(
            model=_describe_model(self.original, self.modules),
            search=self.search,
            is_forced=bool(forced),
            interventions=self.interventions,
            source=self._source_sentence(),
            target=self._target_sentence(best),
            start_token=start,
            translation=build_scored_translation(explained, best),
            steps=tuple(steps),
            beam=trace_builder.build_beam_tree(recorder, nodes, path),
            attention=tuple(self._attention_maps(path)),
            layer_outputs=tuple(trace_builder.build_layer_outputs(recorder, path)),
            logit_lens=tuple(lenses),
        )
        return self._add_attributions(trace)

    def _add_attributions(self, trace: Trace) -> Trace:
        attributions: list[SourceAttribution] = []
        for method in self.options.attributions:
            self.check_cancelled()
            attributions += compute_attributions_per_method(self.explained, trace, [method])
        self.check_cancelled()
        with_words = self.options.word_alternatives
        alternatives = find_word_alternatives(self.explained, trace) if with_words else ()
        return trace.model_copy(
            update={
                "attributions": tuple(attributions),
                "rank_correlation": correlate_attribution_methods(attributions),
                "word_alternatives": tuple(alternatives),
            }
        )

    def _source_sentence(self) -> TokenizedSentence:
        explained = self.explained
        tokenizer, language = explained.tokenizers.source, explained.languages[0]
        return build_source_sentence(
            self.source, self.ids, explained.special_tokens, tokenizer, language
        )

    def _target_sentence(self, best: Hypothesis) -> TokenizedSentence:
        explained = self.explained
        tokenizer, language = explained.tokenizers.target, explained.languages[1]
        text = explained.decode_hypothesis(best)
        return build_target_sentence(text, best.tokens, best.is_finished, tokenizer, language)

    def _attention_maps(self, path: trace_builder.BeamPath) -> Iterator[AttentionModuleTrace]:
        recorder = self.recorder
        for site in sorted(recorder.encoder_attention, key=_sort_key):
            is_detailed = (site.stack, site.layer) in recorder.detailed_layers
            record = recorder.encoder_attention[site]
            info = self._attention_info(site)
            yield trace_builder.build_encoder_layer_attention_map(site, record, is_detailed, info)
        for site in sorted(recorder.steps[0].attention, key=_sort_key):
            yield trace_builder.build_decoder_layer_attention_map(
                site, recorder, path, self._attention_info(site)
            )

    def _attention_info(
        self, site: AttentionModuleId
    ) -> trace_builder.AttentionScaleAndAblatedHeads:
        module = self.modules[site]
        attention = getattr(module.attention, "inner", module.attention)
        scale = attention.scale if isinstance(attention, DotProductAttention) else None
        return trace_builder.AttentionScaleAndAblatedHeads(
            scale=None if has_score_scaling_intervention(site, self.interventions) else scale,
            ablated_heads=find_ablated_heads_of_module(site, self.interventions, module.heads),
            projects_keys=isinstance(attention, LinformerAttention),
        )


def _sort_key(site: AttentionModuleId) -> tuple[str, int, int]:
    """Order by stack and layer, self-attention before cross-attention."""
    return site.stack, site.layer, site.kind == "cross"


def _describe_model(
    explained: ExplainedModel, modules: dict[AttentionModuleId, MultiHeadAttention]
) -> ModelShape:
    model = explained.model
    heads = next(iter(modules.values())).heads
    d_model = model.encoder.embeddings.tokens.weight_VM.size(1)
    return ModelShape(
        encoder_layers=len(model.encoder.layers),
        decoder_layers=len(model.decoder.layers),
        heads=heads,
        d_model=d_model,
        d_head=d_model // heads,
        vocab_size=explained.tokenizers.target.vocab_size,
        positions=_positions_kind(model, modules),
        norm=_norm_kind(model),
        num_parameters=count_parameters(model),
    )


def _positions_kind(
    model: Transformer, modules: dict[AttentionModuleId, MultiHeadAttention]
) -> str:
    """Return the kind of positions by its name in `PositionsConfig`."""
    if any(isinstance(module.attention, RelativeAttention) for module in modules.values()):
        return "relative"
    positions = model.encoder.embeddings.positions
    if isinstance(positions, SinusoidalPositions):
        return "sinusoid"
    return "learned" if isinstance(positions, LearnedPositions) else "none"


def _norm_kind(model: Transformer) -> str:
    """Return placement and kind of the norm by their names in `NormConfig`, as `post layer`."""
    residual = next(module for module in model.modules() if isinstance(module, Residual))
    placement = "pre" if isinstance(residual, PreNormResidual) else "post"
    kinds = {nn.LayerNorm: "layer", BatchNorm: "batch"}
    kind = next((name for cls, name in kinds.items() if isinstance(residual.norm, cls)), "none")
    return f"{placement} {kind}"


def build_scored_translation(
    explained: ExplainedModel, hypothesis: Hypothesis
) -> ScoredTranslation:
    """Return the text and scores of a hypothesis."""
    return ScoredTranslation(
        text=explained.decode_hypothesis(hypothesis),
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
        InputError: If two continuations are forced, or the baseline has fewer words.
    """
    forced = [each for each in interventions if isinstance(each, ForceContinuation)]
    if not forced:
        return []
    if len(forced) > 1:
        raise InputError(f"only one continuation can be forced, but {len(forced)} are given")
    num_words = forced[0].num_prefix_words
    language = explained.languages[1]
    words = _baseline_sentence(explained, baseline).words
    if num_words > len(words):
        raise InputError(
            f"`num_prefix_words` must be at most {len(words)}, the number of words of the "
            f"translation, but is {num_words} instead"
        )
    tokenizer = explained.tokenizers.target
    ends = [0, *(word.end_token for word in words)]
    before = tokenizer.decode(baseline.tokens[: ends[num_words]])
    is_joined = before.endswith(("'", "’")) or is_written_without_spaces(language)
    return tokenizer.encode(f"{before}{'' if is_joined else ' '}{forced[0].text}")


def _baseline_sentence(explained: ExplainedModel, baseline: Hypothesis) -> TokenizedSentence:
    tokenizer, language = explained.tokenizers.target, explained.languages[1]
    return build_target_sentence("", baseline.tokens, baseline.is_finished, tokenizer, language)


def add_intervention_effect(
    trace: Trace, explained: ExplainedModel, baseline: Hypothesis, patched_baseline: Hypothesis
) -> Trace:
    """Return the trace with the effect of its interventions.

    Args:
        trace: Trace of the patched model.
        explained: The unchanged model.
        baseline: Translation by the unchanged model.
        patched_baseline: The same tokens, scored by the patched model.
    """
    before = _baseline_sentence(explained, baseline)
    effect = InterventionEffect(
        baseline=build_scored_translation(explained, baseline),
        baseline_log_prob_after=patched_baseline.log_prob,
        word_diff=tuple(
            tag_word_changes([w.text for w in before.words], [w.text for w in trace.target.words])
        ),
    )
    return trace.model_copy(update={"intervention_effect": effect})


def tag_word_changes(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[Literal["same", "removed", "added"], str]]:
    """Yield the words of both texts in order, each with its kind of change."""
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (("same", word) for word in after[c:d])
        else:
            yield from (("removed", word) for word in before[a:b])
            yield from (("added", word) for word in after[c:d])
