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
from seq2see.errors import InputError
from seq2see.explain import trace_builder
from seq2see.explain.attribution import compute_attributions, compute_rank_correlation
from seq2see.explain.explained_model import ExplainedModel, TraceRecorder
from seq2see.explain.interventions import (
    ForceContinuation,
    Intervention,
    check_masked_keys,
    find_ablated_heads,
    has_scaled_scores,
)
from seq2see.explain.trace import (
    AttentionMap,
    Attribution,
    AttributionMethod,
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
from seq2see.model import (
    AttentionSite,
    DotProductAttention,
    LinformerAttention,
    RelativeAttention,
    StackName,
    Transformer,
    count_parameters,
)
from seq2see.model.attention import MultiHeadAttention
from seq2see.model.embeddings import LearnedPositions, SinusoidalPositions
from seq2see.model.modules import BatchNorm, PreNormResidual, Residual
from seq2see.search import Hypothesis, SearchConfig, StepRecord
from seq2see.text.languages import is_written_without_spaces
from seq2see.translator import Translator


def build_scored_translation(
    explained: ExplainedModel, hypothesis: Hypothesis
) -> ScoredTranslation:
    """Return a hypothesis in words."""
    return ScoredTranslation(
        text=explained.decode_hypothesis(hypothesis),
        log_prob=hypothesis.log_prob,
        score=hypothesis.score,
        is_finished=hypothesis.is_finished,
    )


def build_forced_prefix(
    explained: ExplainedModel, baseline: Hypothesis, interventions: Sequence[Intervention]
) -> list[int]:
    """Return how the translation must start: the baseline's first words, and what is forced."""
    forces = [each for each in interventions if isinstance(each, ForceContinuation)]
    if not forces:
        return []
    if len(forces) > 1:
        raise InputError("a text must be forced at one place, but two are given")
    tokenizer = explained.tokenizers.target
    words = build_target_sentence(
        "", baseline.tokens, baseline.is_finished, tokenizer, explained.languages[1]
    ).words
    if forces[0].num_prefix_words > len(words):
        raise InputError(
            f"`word` must be at most {len(words)}, the words of the translation, "
            f"but is {forces[0].num_prefix_words} instead"
        )
    ends = [0, *(word.end_token for word in words)]
    before = tokenizer.decode(baseline.tokens[: ends[forces[0].num_prefix_words]])
    space = (
        ""
        if before.endswith(("'", "’")) or is_written_without_spaces(explained.languages[1])
        else " "
    )
    return tokenizer.encode(f"{before}{space}{forces[0].text}")


def add_intervention_effect(
    trace: Trace, explained: ExplainedModel, baseline: Hypothesis, patched_baseline: Hypothesis
) -> Trace:
    """Return a trace that says what the interventions did."""
    before = build_target_sentence(
        "",
        baseline.tokens,
        baseline.is_finished,
        explained.tokenizers.target,
        explained.languages[1],
    )
    change = InterventionEffect(
        baseline=build_scored_translation(explained, baseline),
        baseline_log_prob_after=patched_baseline.log_prob,
        word_diff=tuple(
            diff_words([w.text for w in before.words], [w.text for w in trace.target.words])
        ),
    )
    return trace.model_copy(update={"intervention_effect": change})


def diff_words(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[Literal["same", "removed", "added"], str]]:
    """Yield the words of both in one row, each with what became of it."""
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (("same", word) for word in after[c:d])
        else:
            yield from (("removed", word) for word in before[a:b])
            yield from (("added", word) for word in after[c:d])


LayerNames = Annotated[tuple[str, ...], Field(strict=False)]


class TraceOptions(Config):
    """How much a trace holds. Weights of every head are always there."""

    layers: Literal["none", "last", "all"] | LayerNames = "last"
    """Layers with scores, q, k, v and outputs whole: `none`, `all`, `last` (of each stack), or
    some by name, such as `decoder.1`."""
    top_k: int = Field(default=8, ge=1, le=100)
    """How many of the likeliest tokens each step shows."""
    attributions: tuple[AttributionMethod, ...] = Field(default=(), strict=False, max_length=5)
    """Which attributions to compute, each once."""
    word_alternatives: bool = False
    """Find whole words that might stand in the place of each word."""

    def conflicts(self) -> Iterator[str]:
        """Refuse to compute anything twice."""
        if twice := [one for one in self.attributions if self.attributions.count(one) > 1]:
            yield f"`methods` must differ, but {twice[0]} is there more than once"

    def detailed_layers(
        self, encoder_layers: int, decoder_layers: int
    ) -> set[tuple[StackName, int]]:
        """Return the layers that are kept whole, in a model of so many."""
        sizes: dict[StackName, int] = {"encoder": encoder_layers, "decoder": decoder_layers}
        every = {f"{stack}.{i}": (stack, i) for stack, size in sizes.items() for i in range(size)}
        if self.layers == "all":
            return set(every.values())
        if self.layers == "last":
            return {(stack, size - 1) for stack, size in sizes.items()}
        names = () if self.layers == "none" else self.layers
        if wrong := [name for name in names if name not in every]:
            raise InputError(
                f"`layers` must be none, last, all or some of {', '.join(every)}, "
                f"but has {wrong[0]} instead"
            )
        return {every[name] for name in names}


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
    """Return how a translator's translation of a sentence came about.

    A `target` is forced. So is the translation of an engine that cannot be seen through, unless
    our own search finds the same, and has its beam to show. `between` is called at every step and
    before every attribution: whoever no longer wants the answer may raise there.
    """
    engine = translator.engine
    search = engine.resolve_config(search or SearchConfig())
    subject, options = build_explained_model(translator, source), options or TraceOptions()
    made = trace_translation(
        subject, source, target, search, interventions, options, check_cancelled
    )
    if isinstance(engine, TorchEngine) or target is not None or interventions:
        return made
    served = translator.translate(source, **search.model_dump()).text
    if made.translation.text == served:
        return made
    return trace_translation(subject, source, served, search, (), options, check_cancelled)


def build_explained_model(translator: Translator, source: str) -> ExplainedModel:
    """Return what a translator uses for a sentence.

    What it would cut into sentences is refused: each has a trace of its own.
    """
    length = len(translator.tokenizers.source.encode(source))
    if length > translator.max_tokens:
        raise InputError(
            f"the text must have at most {translator.max_tokens} tokens to be explained at once, "
            f"but has {length}: give one sentence"
        )
    engine = translator.engine
    if isinstance(engine, TorchEngine) and len(engine.models) > 1:
        raise InputError("one model can be seen through at a time: give one of the ensemble's")
    if isinstance(engine, TorchEngine):
        parts = translator.tokenizers, translator.languages, engine.special_tokens
        return ExplainedModel(
            engine.model, *parts, engine.alignment, engine.stop_rule, translator.max_tokens
        )
    return ExplainedModel.from_bundle(translator.bundle)


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
    """Return how a translation came about; the model must not be in training."""
    search, options = search or SearchConfig(), options or TraceOptions()
    assert not explained.model.training, "dropout would blur what is seen"
    ids = explained.encode_source(source)
    forced = _forced(explained, target)
    if not interventions:
        return _Tracing(explained, explained, source, ids, search, options, check_cancelled).trace(
            forced
        )
    if forced and any(isinstance(each, ForceContinuation) for each in interventions):
        raise InputError("a translation must be left out where a text is forced in its middle")
    check_masked_keys(interventions, len(add_special_tokens(ids, explained.special_tokens)))
    plain, changed = explained.with_interventions([]), explained.with_interventions(interventions)
    tokens = plain.search(ids, search, forced_tokens=forced).tokens
    # Forced in both, so that the two log-probabilities differ by the interventions alone.
    baseline, now = (each.search(ids, search, forced_tokens=tokens) for each in (plain, changed))
    prefix = build_forced_prefix(explained, baseline, interventions)
    tracing = _Tracing(
        explained, changed, source, ids, search, options, check_cancelled, tuple(interventions)
    )
    return add_intervention_effect(tracing.trace(forced, prefix), explained, baseline, now)


def _forced(subject: ExplainedModel, target: str | None) -> list[int]:
    if target is None:
        return []
    return [*subject.tokenizers.target.encode(target), subject.special_tokens.target_eos_id]


class _WatchedTape(TraceRecorder):
    """A tape that can be stopped at every step."""

    def __init__(
        self,
        detailed_layers: Collection[tuple[StackName, int]],
        top_k: int,
        between: Callable[[], None],
    ) -> None:
        super().__init__(detailed_layers, top_k)
        self._between = between

    def step(self, record: StepRecord) -> None:
        """Go on, if anybody wants it."""
        self._between()
        super().step(record)


class _Tracing:
    """One sentence under way to its trace."""

    def __init__(
        self,
        original: ExplainedModel,
        subject: ExplainedModel,
        source: str,
        ids: Sequence[int],
        search: SearchConfig,
        detail: TraceOptions,
        between: Callable[[], None],
        interventions: tuple[Intervention, ...] = (),
    ) -> None:
        self.original = original
        self.subject = subject
        self.source = source
        self.ids = ids
        self.search = search
        self.detail = detail
        self.between = between
        self.interventions = interventions
        model = original.model
        self.modules = {m.site: m for m in model.modules() if isinstance(m, MultiHeadAttention)}
        sizes = len(model.encoder.layers), len(model.decoder.layers)
        self.tape = _WatchedTape(detail.detailed_layers(*sizes), detail.top_k, between)

    def trace(self, forced: Sequence[int], prefix: Sequence[int] = ()) -> Trace:
        """Translate, and return what was seen."""
        subject, tape = self.subject, self.tape
        best = subject.search(
            self.ids, self.search, prefix=prefix, forced_tokens=forced, recorder=tape
        )
        nodes = trace_builder.build_beam_nodes(
            tape, self.search.length_penalty, subject.display_target_token
        )
        path = trace_builder.find_beam_path(tape, nodes, best)
        start = build_start_token(subject.special_tokens, subject.tokenizers.target)
        steps = trace_builder.build_decoding_steps(
            tape, nodes, path, start.piece, subject.display_target_token
        )
        lenses = trace_builder.compute_logit_lenses(
            subject.model, tape, path, best.tokens, subject.display_target_token
        )
        plain = Trace(
            model=_shape(self.original, self.modules),
            search=self.search,
            is_forced=bool(forced),
            interventions=self.interventions,
            source=self._source(),
            target=self._target(best),
            start_token=start,
            translation=build_scored_translation(subject, best),
            steps=tuple(steps),
            beam=trace_builder.build_beam_tree(tape, nodes, path),
            attention=tuple(self._maps(path)),
            layer_outputs=tuple(trace_builder.build_layer_outputs(tape, path)),
            logit_lens=tuple(lenses),
        )
        return self._with_explanations(plain)

    def _with_explanations(self, plain: Trace) -> Trace:
        found: list[Attribution] = []
        for method in self.detail.attributions:
            self.between()
            found += compute_attributions(self.subject, plain, [method])
        self.between()
        words = find_word_alternatives(self.subject, plain) if self.detail.word_alternatives else ()
        return plain.model_copy(
            update={
                "attributions": tuple(found),
                "rank_correlation": compute_rank_correlation(found),
                "word_alternatives": tuple(words),
            }
        )

    def _source(self) -> TokenizedSentence:
        subject = self.subject
        tokenizer, language = subject.tokenizers.source, subject.languages[0]
        return build_source_sentence(
            self.source, self.ids, subject.special_tokens, tokenizer, language
        )

    def _target(self, best: Hypothesis) -> TokenizedSentence:
        subject = self.subject
        tokenizer, language = subject.tokenizers.target, subject.languages[1]
        text = subject.decode_hypothesis(best)
        return build_target_sentence(text, best.tokens, best.is_finished, tokenizer, language)

    def _maps(self, path: trace_builder.BeamPath) -> Iterator[AttentionMap]:
        for site in sorted(self.tape.encoder_attention, key=_order):
            whole = (site.stack, site.layer) in self.tape.detailed_layers
            record = self.tape.encoder_attention[site]
            yield trace_builder.build_encoder_map(site, record, whole, self._common(site))
        for site in sorted(self.tape.steps[0].attention, key=_order):
            yield trace_builder.build_decoder_map(site, self.tape, path, self._common(site))

    def _common(self, site: AttentionSite) -> trace_builder.AttentionInfo:
        heads = self.modules[site]
        inside = getattr(heads.attention, "inner", heads.attention)
        scale = inside.scale if isinstance(inside, DotProductAttention) else None
        return trace_builder.AttentionInfo(
            scale=None if has_scaled_scores(site, self.interventions) else scale,
            ablated_heads=find_ablated_heads(site, self.interventions, heads.heads),
            mixes_keys=isinstance(inside, LinformerAttention),
        )


def _order(site: AttentionSite) -> tuple[str, int, int]:
    """Self-attention comes first in a layer."""
    return site.stack, site.layer, site.kind == "cross"


def _shape(subject: ExplainedModel, modules: dict[AttentionSite, MultiHeadAttention]) -> ModelShape:
    model = subject.model
    heads = next(iter(modules.values())).heads
    d_model = model.encoder.embeddings.tokens.weight_VM.size(1)
    return ModelShape(
        encoder_layers=len(model.encoder.layers),
        decoder_layers=len(model.decoder.layers),
        heads=heads,
        d_model=d_model,
        d_head=d_model // heads,
        vocab_size=subject.tokenizers.target.vocab_size,
        positions=_positions_kind(model, modules),
        norm=_norm_kind(model),
        num_parameters=count_parameters(model),
    )


def _positions_kind(model: Transformer, modules: dict[AttentionSite, MultiHeadAttention]) -> str:
    """Return the kind of positions by its name in `PositionsConfig`."""
    if any(isinstance(module.attention, RelativeAttention) for module in modules.values()):
        return "relative"
    positions = model.encoder.embeddings.positions
    if isinstance(positions, SinusoidalPositions):
        return "sinusoid"
    return "learned" if isinstance(positions, LearnedPositions) else "none"


def _norm_kind(model: Transformer) -> str:
    """Return placement and kind of the norm by their names in `NormConfig`, such as `post layer`."""
    residual = next(module for module in model.modules() if isinstance(module, Residual))
    placement = "pre" if isinstance(residual, PreNormResidual) else "post"
    kinds = {nn.LayerNorm: "layer", BatchNorm: "batch"}
    kind = next((name for cls, name in kinds.items() if isinstance(residual.norm, cls)), "none")
    return f"{placement} {kind}"
