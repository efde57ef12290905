"""Work that cannot share a batch: traces, head ablation and streamed translations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from seq2see.bundle import Framing
from seq2see.data.fables import Contrast
from seq2see.engines.base import Batch, Forced, Ids, Processors
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, Seq2SeeError
from seq2see.explain.explainer import explain as traced, subject_of
from seq2see.explain.head_ablation import Removals, removals
from seq2see.search import SearchConfig, Source
from seq2see.search.observer import StepRecord
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import Failed, Invalid, Problem, TooManyTokens
from seq2see.serve.model_registry import Model
from seq2see.serve.requests import ExplainRequest, HeadsRequest, searched
from seq2see.serve.text_translation import Paragraph, cut, joined
from seq2see.serve.work_queue import Alone, Call, WorkQueue
from seq2see.text import Tokenizer, split
from seq2see.translator import Translation, TranslationOptions, Translator

T = TypeVar("T")


_TRACE_COST = 20
"""What a token of a trace costs, in tokens of a translation: no batch, no fused attention, and all
of it written down."""


def explain_text(
    queue: WorkQueue, call: Call, model: Model, wanted: ExplainRequest, config: ServeConfig
) -> str:
    """Return a trace as JSON."""
    try:
        search = SearchConfig().replace(**searched(wanted, config), n_best=wanted.n_best)
    except ConfigError as error:
        raise Invalid(f"Invalid request: {error}") from None

    def work() -> str:
        trace = traced(
            model.glass,
            wanted.text,
            wanted.translation,
            search=search,
            interventions=wanted.interventions,
            detail=wanted.detail,
            between=call.still_wanted,
        )
        return trace.to_json()

    weight = _TRACE_COST * config.weight(search.beam_size)
    return run_unbatched(queue, call, work, _cost(model, wanted.text, weight))


def ablate_heads(queue: WorkQueue, call: Call, model: Model, wanted: HeadsRequest) -> Removals:
    """Return what is left of a preference without each head."""
    pair = Contrast(wanted.text, wanted.one, wanted.other)

    def work() -> Removals:
        subject = subject_of(model.glass, wanted.text)
        return removals(subject, pair, wanted.interventions, call.still_wanted)

    return run_unbatched(queue, call, work, _cost(model, wanted.text, _TRACE_COST))


def _cost(model: Model, text: str, weight: float) -> int:
    """Return what a trace costs; a text of which there is none is refused."""
    count = model.costs([text])[0] - 1  # without the end
    limit = model.glass.limit
    if count > limit:
        raise TooManyTokens(
            f"Invalid request: the text has {count} tokens; what is explained at once "
            f"must be at most {limit}"
        )
    return math.ceil(weight * (count + 1))


def stream_translation(
    queue: WorkQueue,
    call: Call,
    model: Model,
    text: str,
    options: TranslationOptions,
    emit: Emit,
    config: ServeConfig,
) -> Translation:
    """Translate a text and emit it while it grows."""

    def work() -> Translation:
        return translate_incrementally(model.glass, text, options, call, emit)

    weight = config.weight(options.search.beam_size)
    return run_unbatched(queue, call, work, model.costs([text], weight)[0])


def run_unbatched(queue: WorkQueue, call: Call, work: Callable[[], T], cost: int) -> T:
    """Do one thing in its turn; what goes wrong becomes a `Problem`."""
    (outcome,) = queue.submit(call, Alone(work), [None], [cost])
    if isinstance(outcome, Problem):
        raise outcome
    if isinstance(outcome, Seq2SeeError):
        raise Invalid(f"Invalid request: {outcome}") from None
    if isinstance(outcome, BaseException):
        raise Failed("the engine failed on this text") from outcome
    return cast("T", outcome)


Emit = Callable[[str], None]


def translate_incrementally(
    translator: Translator, text: str, options: TranslationOptions, call: Call, emit: Emit
) -> Translation:
    """Translate a text and emit what there is of it at every step, while somebody waits."""
    done = ""
    parts: list[Translation] = []

    def tell(beginning: str) -> None:
        call.still_wanted()
        emit(done + beginning)

    sentences = list(_sentences(text, translator.languages[0]))
    listening = _listening(translator, tell)
    end = 0
    for sentence in sentences:
        done += text[end : sentence.start]
        part = listening.translate(sentence.text, options.model_copy(update={"split": "long"}))
        parts.append(part)
        tell(part.text)
        done, end = done + part.text, sentence.end
    return joined(text, sentences, parts)


def _sentences(text: str, language: str) -> Sequence[Paragraph]:
    return [
        Paragraph(span.text, line.start + span.start)
        for line in cut(text, language)
        for span in split(line.text, language)
    ]


def _listening(translator: Translator, tell: Emit) -> Translator:
    """Return the same translator with ears, if its engine has a place for them."""
    if not isinstance(translator.engine, TorchEngine):
        return translator
    return Translator(
        _ListeningEngine(translator.engine, translator.tokenizers.target, tell),
        translator.tokenizers,
        translator.languages,
        translator.limit,
    )


class _ListeningEngine:
    """Our own engine; whoever listens hears the best beginning at every step."""

    def __init__(self, engine: TorchEngine, tokenizer: Tokenizer, tell: Emit) -> None:
        self._engine, self._tokenizer, self._tell = engine, tokenizer, tell
        self.name = engine.name
        self.framing: Framing = engine.framing

    def resolved(self, config: SearchConfig) -> SearchConfig:
        """Decide, as the engine does."""
        return self._engine.resolved(config)

    def search(
        self,
        sentences: Sequence[Ids],
        sources: Sequence[Source],
        config: SearchConfig,
        processors: Processors | None = None,
    ) -> Iterator[Batch]:
        """Search, and be heard."""
        return self._engine.search(sentences, sources, config, processors, self)

    def force(self, pairs: Sequence[tuple[Ids, Ids]], *, attention: bool = False) -> list[Forced]:
        """Score, as the engine does."""
        return self._engine.force(pairs, attention=attention)

    def step(self, record: StepRecord) -> None:
        """Tell the best candidate of the first row."""
        parent = int(record.candidates.parents_BC[0, 0])
        ids: list[Any] = record.beam.emitted_BKE[0, parent].tolist()
        ids.append(int(record.candidates.tokens_BC[0, 0]))
        self._tell(self._tokenizer.decode([i for i in ids if i != self.framing.target_end]))
