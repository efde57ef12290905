"""Builds a trace: runs the usual search with a recorder, with or without interventions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Annotated, Literal

import torch
from pydantic import Field

from seq2see.config import Config
from seq2see.engines.batching import framed
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain import trace_builder
from seq2see.explain.attribution import agreement, attributions
from seq2see.explain.explained_model import Subject, Tape
from seq2see.explain.interventions import (
    Force,
    Intervention,
    heads_off,
    refuse_missing_keys,
    rescaled,
)
from seq2see.explain.trace import (
    AttentionMap,
    Attribution,
    Change,
    Method,
    Outcome,
    Sentence,
    Shape,
    Trace,
)
from seq2see.explain.words import source_sentence, start_token, target_sentence, word_choices
from seq2see.model import (
    DotProductAttention,
    LinformerAttention,
    RelativeAttention,
    Site,
    Stack,
    count_parameters,
)
from seq2see.model.attention import MultiHead
from seq2see.model.modules import PreNormResidual, Residual
from seq2see.search import Hypothesis, SearchConfig, StepRecord
from seq2see.text.languages import is_unspaced
from seq2see.translator import Translator


def outcome(subject: Subject, found: Hypothesis) -> Outcome:
    """Return a hypothesis in words."""
    return Outcome(
        text=subject.text(found),
        log_prob=found.log_prob,
        score=found.score,
        finished=found.finished,
    )


def forced_prefix(
    subject: Subject, baseline: Hypothesis, interventions: Sequence[Intervention]
) -> list[int]:
    """Return how the translation must start: the baseline's first words, and what is forced."""
    forces = [each for each in interventions if isinstance(each, Force)]
    if not forces:
        return []
    if len(forces) > 1:
        raise InputError("a text must be forced at one place, but two are given")
    tokenizer = subject.tokenizers.target
    words = target_sentence(
        "", baseline.tokens, baseline.finished, tokenizer, subject.languages[1]
    ).words
    if forces[0].word > len(words):
        raise InputError(
            f"`word` must be at most {len(words)}, the words of the translation, "
            f"but is {forces[0].word} instead"
        )
    ends = [0, *(word.end for word in words)]
    before = tokenizer.decode(baseline.tokens[: ends[forces[0].word]])
    space = "" if before.endswith(("'", "’")) or is_unspaced(subject.languages[1]) else " "
    return tokenizer.encode(f"{before}{space}{forces[0].text}")


def with_change(made: Trace, subject: Subject, baseline: Hypothesis, now: Hypothesis) -> Trace:
    """Return a trace that says what the interventions did."""
    before = target_sentence(
        "", baseline.tokens, baseline.finished, subject.tokenizers.target, subject.languages[1]
    )
    change = Change(
        baseline=outcome(subject, baseline),
        baseline_now=now.log_prob,
        words=tuple(
            difference([w.text for w in before.words], [w.text for w in made.target.words])
        ),
    )
    return made.model_copy(update={"change": change})


def difference(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[Literal["same", "gone", "new"], str]]:
    """Yield the words of both in one row, each with what became of it."""
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (("same", word) for word in after[c:d])
        else:
            yield from (("gone", word) for word in before[a:b])
            yield from (("new", word) for word in after[c:d])


Names = Annotated[tuple[str, ...], Field(strict=False)]


class Detail(Config):
    """How much a trace holds. Weights of every head are always there."""

    layers: Literal["none", "last", "all"] | Names = "last"
    """Layers with scores, q, k, v and outputs whole: `none`, `all`, `last` (of each stack), or
    some by name, such as `decoder.1`."""
    top: int = Field(default=8, ge=1, le=100)
    """How many of the likeliest tokens each step shows."""
    methods: tuple[Method, ...] = Field(default=(), strict=False, max_length=5)
    """Which attributions to compute, each once."""
    words: bool = False
    """Find whole words that might stand in the place of each word."""

    def conflicts(self) -> Iterator[str]:
        """Refuse to compute anything twice."""
        if twice := [one for one in self.methods if self.methods.count(one) > 1]:
            yield f"`methods` must differ, but {twice[0]} is there more than once"

    def whole(self, encoder: int, decoder: int) -> set[tuple[Stack, int]]:
        """Return the layers that are kept whole, in a model of so many."""
        sizes: dict[Stack, int] = {"encoder": encoder, "decoder": decoder}
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
    detail: Detail | None = None,
    between: Callable[[], None] = lambda: None,
) -> Trace:
    """Return how a translator's translation of a sentence came about.

    A `target` is forced. So is the translation of an engine that cannot be seen through, unless
    our own search finds the same, and has its beam to show. `between` is called at every step and
    before every attribution: whoever no longer wants the answer may raise there.
    """
    engine = translator.engine
    search = engine.resolved(search or SearchConfig())
    subject, detail = subject_of(translator, source), detail or Detail()
    made = trace(subject, source, target, search, interventions, detail, between)
    if isinstance(engine, TorchEngine) or target is not None or interventions:
        return made
    served = translator.translate(source, **search.model_dump()).text
    if made.translation.text == served:
        return made
    return trace(subject, source, served, search, (), detail, between)


def subject_of(translator: Translator, source: str) -> Subject:
    """Return what a translator uses for a sentence.

    What it would cut into sentences is refused: each has a trace of its own.
    """
    length = len(translator.tokenizers.source.encode(source))
    if length > translator.limit:
        raise InputError(
            f"the text must have at most {translator.limit} tokens to be explained at once, "
            f"but has {length}: give one sentence"
        )
    engine = translator.engine
    if isinstance(engine, TorchEngine) and len(engine.models) > 1:
        raise InputError("one model can be seen through at a time: give one of the ensemble's")
    if isinstance(engine, TorchEngine):
        parts = translator.tokenizers, translator.languages, engine.framing
        return Subject(engine.model, *parts, engine.alignment, engine.stop, translator.limit)
    return Subject.of(translator.bundle)


@torch.inference_mode()
def trace(
    subject: Subject,
    source: str,
    target: str | None = None,
    search: SearchConfig | None = None,
    interventions: Sequence[Intervention] = (),
    detail: Detail | None = None,
    between: Callable[[], None] = lambda: None,
) -> Trace:
    """Return how a translation came about; the model must not be in training."""
    search, detail = search or SearchConfig(), detail or Detail()
    assert not subject.model.training, "dropout would blur what is seen"
    ids = subject.source_ids(source)
    forced = _forced(subject, target)
    if not interventions:
        return _Tracing(subject, subject, source, ids, search, detail, between).trace(forced)
    if forced and any(isinstance(each, Force) for each in interventions):
        raise InputError("a translation must be left out where a text is forced in its middle")
    refuse_missing_keys(interventions, len(framed(ids, subject.framing)))
    plain, changed = subject.altered([]), subject.altered(interventions)
    tokens = plain.search(ids, search, forced=forced).tokens
    # Forced in both, so that the two log-probabilities differ by the interventions alone.
    baseline, now = (each.search(ids, search, forced=tokens) for each in (plain, changed))
    prefix = forced_prefix(subject, baseline, interventions)
    tracing = _Tracing(subject, changed, source, ids, search, detail, between, tuple(interventions))
    return with_change(tracing.trace(forced, prefix), subject, baseline, now)


def _forced(subject: Subject, target: str | None) -> list[int]:
    if target is None:
        return []
    return [*subject.tokenizers.target.encode(target), subject.framing.target_end]


class _WatchedTape(Tape):
    """A tape that can be stopped at every step."""

    def __init__(
        self, whole: Collection[tuple[Stack, int]], top: int, between: Callable[[], None]
    ) -> None:
        super().__init__(whole, top)
        self._between = between

    def step(self, record: StepRecord) -> None:
        """Go on, if anybody wants it."""
        self._between()
        super().step(record)


class _Tracing:
    """One sentence under way to its trace."""

    def __init__(
        self,
        original: Subject,
        subject: Subject,
        source: str,
        ids: Sequence[int],
        search: SearchConfig,
        detail: Detail,
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
        self.modules = {m.site: m for m in model.modules() if isinstance(m, MultiHead)}
        sizes = len(model.encoder.layers), len(model.decoder.layers)
        self.tape = _WatchedTape(detail.whole(*sizes), detail.top, between)

    def trace(self, forced: Sequence[int], prefix: Sequence[int] = ()) -> Trace:
        """Translate, and return what was seen."""
        subject, tape = self.subject, self.tape
        best = subject.search(self.ids, self.search, prefix=prefix, forced=forced, tape=tape)
        nodes = trace_builder.forest(tape, self.search.length_penalty, subject.shown)
        path = trace_builder.path_of(tape, nodes, best)
        start = start_token(subject.framing, subject.tokenizers.target)
        steps = trace_builder.steps(tape, nodes, path, start.piece, subject.shown)
        lenses = trace_builder.lenses(subject.model, tape, path, best.tokens, subject.shown)
        plain = Trace(
            model=_shape(self.original, self.modules),
            search=self.search,
            forced=bool(forced),
            interventions=self.interventions,
            source=self._source(),
            target=self._target(best),
            start=start,
            translation=outcome(subject, best),
            steps=tuple(steps),
            beam=trace_builder.beam(tape, nodes, path),
            attention=tuple(self._maps(path)),
            layers=tuple(trace_builder.layer_outputs(tape, path)),
            lens=tuple(lenses),
        )
        return self._with_explanations(plain)

    def _with_explanations(self, plain: Trace) -> Trace:
        found: list[Attribution] = []
        for method in self.detail.methods:
            self.between()
            found += attributions(self.subject, plain, [method])
        self.between()
        words = word_choices(self.subject, plain) if self.detail.words else ()
        return plain.model_copy(
            update={
                "attributions": tuple(found),
                "agreement": agreement(found),
                "words": tuple(words),
            }
        )

    def _source(self) -> Sentence:
        subject = self.subject
        tokenizer, language = subject.tokenizers.source, subject.languages[0]
        return source_sentence(self.source, self.ids, subject.framing, tokenizer, language)

    def _target(self, best: Hypothesis) -> Sentence:
        subject = self.subject
        tokenizer, language = subject.tokenizers.target, subject.languages[1]
        text = subject.text(best)
        return target_sentence(text, best.tokens, best.finished, tokenizer, language)

    def _maps(self, path: trace_builder.Path) -> Iterator[AttentionMap]:
        for site in sorted(self.tape.encoder, key=_order):
            whole = (site.stack, site.layer) in self.tape.whole
            record = self.tape.encoder[site]
            yield trace_builder.encoder_map(site, record, whole, self._common(site))
        for site in sorted(self.tape.steps[0].attention, key=_order):
            yield trace_builder.decoder_map(site, self.tape, path, self._common(site))

    def _common(self, site: Site) -> trace_builder.Common:
        heads = self.modules[site]
        inside = getattr(heads.attention, "inner", heads.attention)
        scale = inside.scale if isinstance(inside, DotProductAttention) else None
        return trace_builder.Common(
            scale=None if rescaled(site, self.interventions) else scale,
            off=heads_off(site, self.interventions, heads.heads),
            mixtures=isinstance(inside, LinformerAttention),
        )


def _order(site: Site) -> tuple[str, int, int]:
    """Self-attention comes first in a layer."""
    return site.stack, site.layer, site.kind == "cross"


def _shape(subject: Subject, modules: dict[Site, MultiHead]) -> Shape:
    model = subject.model
    heads = next(iter(modules.values())).heads
    d_model = model.encoder.embeddings.tokens.weight_VM.size(1)
    relative = any(isinstance(m.attention, RelativeAttention) for m in modules.values())
    residual = next(part for part in model.modules() if isinstance(part, Residual))
    placement = "pre" if isinstance(residual, PreNormResidual) else "post"
    kind = type(model.encoder.embeddings.positions).__name__.removesuffix("Positions").lower()
    return Shape(
        encoder_layers=len(model.encoder.layers),
        decoder_layers=len(model.decoder.layers),
        heads=heads,
        d_model=d_model,
        d_head=d_model // heads,
        vocab_size=subject.tokenizers.target.vocab_size,
        positions="relative" if relative else kind or "none",
        norm=f"{placement} {type(residual.norm).__name__}",
        parameters=count_parameters(model),
    )
