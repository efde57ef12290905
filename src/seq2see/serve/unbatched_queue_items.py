"""Work that cannot share a batch: traces, head ablation and streamed translations.

Each request is one item in the same queue as the batched translations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from seq2see.bundle import StartAndEndTokenIds
from seq2see.data.fables import ContrastivePair
from seq2see.engines.base import BatchResult, ProcessorFactory, TargetScores, TokenIds
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, Seq2SeeError
from seq2see.explain.head_ablation import AblationResults, ablate_heads_on_contrastive_pair
from seq2see.explain.tracing import explain, wrap_model_for_explaining
from seq2see.search import SearchConfig, SearchObserver, SentenceSearchInput
from seq2see.search.observer import StepRecord
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import BadRequest, EngineError, ServiceError, TooManyTokens
from seq2see.serve.layout_preserving_translation import find_translatable_spans
from seq2see.serve.model_registry import ServedModel
from seq2see.serve.requests import ExplainRequest, HeadEffectsRequest, build_search_settings
from seq2see.serve.work_queue import RequestContext, UnbatchedTask, WorkQueue
from seq2see.text import TextSpan, Tokenizer, split_sentences
from seq2see.translator import Translation, TranslationOptions, Translator, join_translations

T = TypeVar("T")

PartialTextCallback = Callable[[str], None]
"""Called with the text so far. With a beam, earlier words may change, so it is the full text."""

_TRACE_TOKEN_COST = 20
"""Cost of a token of a trace in tokens of a translation: a trace is not batched, does not use fused
attention, and stores all intermediate values."""


def compute_trace_json(
    queue: WorkQueue,
    context: RequestContext,
    model: ServedModel,
    request: ExplainRequest,
    config: ServeConfig,
) -> str:
    """Return the trace of a translation as JSON.

    Raises:
        BadRequest: The settings or interventions are invalid.
        TooManyTokens: The text is longer than the model accepts.
    """
    try:
        search = SearchConfig().replace(
            **build_search_settings(request, config), n_best=request.n_best
        )
    except ConfigError as error:
        raise BadRequest(f"Invalid request: {error}") from None

    def run() -> str:
        trace = explain(
            model.torch_translator,
            request.text,
            request.translation,
            search=search,
            interventions=request.interventions,
            options=request.trace_options,
            check_cancelled=context.raise_if_canceled,
        )
        return trace.to_json()

    weight = _TRACE_TOKEN_COST * config.token_weight(search.beam_size)
    return run_as_queue_item(queue, context, run, _compute_trace_cost(model, request.text, weight))


def measure_head_effects(
    queue: WorkQueue, context: RequestContext, model: ServedModel, request: HeadEffectsRequest
) -> AblationResults:
    """Return the effect of ablating each attention head on a contrastive pair.

    Raises:
        BadRequest: The translations or interventions are invalid.
        TooManyTokens: The text is longer than the model accepts.
    """
    pair = ContrastivePair(request.text, request.translation, request.contrastive_translation)

    def run() -> AblationResults:
        explained = wrap_model_for_explaining(model.torch_translator, request.text)
        return ablate_heads_on_contrastive_pair(
            explained, pair, request.interventions, context.raise_if_canceled
        )

    cost = _compute_trace_cost(model, request.text, _TRACE_TOKEN_COST)
    return run_as_queue_item(queue, context, run, cost)


def _compute_trace_cost(model: ServedModel, text: str, weight: float) -> int:
    """Return the cost of a trace; raises TooManyTokens if the text is too long."""
    num_tokens = model.compute_costs([text])[0] - 1  # without the end token
    max_tokens = model.torch_translator.max_tokens
    if num_tokens > max_tokens:
        raise TooManyTokens(
            f"Invalid request: the text has {num_tokens} tokens; an explained text "
            f"must be at most {max_tokens}"
        )
    return math.ceil(weight * (num_tokens + 1))


def run_incremental_translation(
    queue: WorkQueue,
    context: RequestContext,
    model: ServedModel,
    text: str,
    options: TranslationOptions,
    on_partial_text: PartialTextCallback,
    config: ServeConfig,
) -> Translation:
    """Translate a text through the queue and report partial translations."""

    def run() -> Translation:
        return translate_and_report_partial_text(
            model.torch_translator, text, options, context, on_partial_text
        )

    weight = config.token_weight(options.search.beam_size)
    return run_as_queue_item(queue, context, run, model.compute_costs([text], weight)[0])


def run_as_queue_item(
    queue: WorkQueue, context: RequestContext, function: Callable[[], T], cost: int
) -> T:
    """Run a function as one item of the queue and return its result.

    Raises:
        BadRequest: The function raised an error of seq2see, which describes invalid input.
        EngineError: The function raised another exception.
        ServiceError: Errors of the queue, and service errors of the function.
    """
    (result,) = queue.submit(context, UnbatchedTask(function), [None], [cost])
    if isinstance(result, ServiceError):
        raise result
    if isinstance(result, Seq2SeeError):
        raise BadRequest(f"Invalid request: {result}") from None
    if isinstance(result, BaseException):
        raise EngineError("the engine failed on this text") from result
    return cast("T", result)


def translate_and_report_partial_text(
    translator: Translator,
    text: str,
    options: TranslationOptions,
    context: RequestContext,
    on_partial_text: PartialTextCallback,
) -> Translation:
    """Translate a text sentence by sentence and report the text so far.

    With the torch engine the text is reported after every step of the search, with other engines
    after every sentence.

    Raises:
        ClientDisconnected, DeadlineExceeded: The request was canceled, or its deadline passed.
    """
    finished_text = ""
    translations: list[Translation] = []

    def report(partial_text: str) -> None:
        context.raise_if_canceled()
        on_partial_text(finished_text + partial_text)

    sentences = list(_find_sentences(text, translator.languages[0]))
    observed = _observe_search(translator, report)
    end = 0
    for sentence in sentences:
        finished_text += text[end : sentence.start]
        translation = observed.translate(
            sentence.text, options.model_copy(update={"split": "long"})
        )
        translations.append(translation)
        report(translation.text)
        finished_text, end = finished_text + translation.text, sentence.end
    return join_translations(text, sentences, translations)


def _find_sentences(text: str, language: str) -> Sequence[TextSpan]:
    return [
        TextSpan(sentence.text, span.start + sentence.start)
        for span in find_translatable_spans(text, language)
        for sentence in split_sentences(span.text, language)
    ]


def _observe_search(translator: Translator, on_partial_text: PartialTextCallback) -> Translator:
    """Return a translator that reports partial translations if it uses the torch engine."""
    if not isinstance(translator.engine, TorchEngine):
        return translator
    return Translator(
        _ObservedEngine(translator.engine, translator.tokenizers.target, on_partial_text),
        translator.tokenizers,
        translator.languages,
        translator.max_tokens,
    )


class _ObservedEngine:
    """The torch engine; reports the best partial hypothesis at every step."""

    def __init__(
        self, engine: TorchEngine, tokenizer: Tokenizer, on_partial_text: PartialTextCallback
    ) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self._on_partial_text = on_partial_text
        self.name = engine.name
        self.special_tokens: StartAndEndTokenIds = engine.special_tokens

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Resolve the defaults of a search config as the engine does."""
        return self._engine.resolve_config(config)

    def search(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[BatchResult]:
        """Search with this object as the observer."""
        assert observer is None
        return self._engine.search(inputs, config, processor_factory, self)

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Score targets as the engine does."""
        return self._engine.score_targets(pairs, attention=attention)

    def step(self, record: StepRecord) -> None:
        """Report the best candidate of the first input."""
        parent = int(record.candidates.parents_BC[0, 0])
        ids: list[Any] = record.beam.emitted_BKE[0, parent].tolist()
        ids.append(int(record.candidates.tokens_BC[0, 0]))
        text_ids = [i for i in ids if i != self.special_tokens.target_eos_id]
        self._on_partial_text(self._tokenizer.decode(text_ids))
