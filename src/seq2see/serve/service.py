"""The service without HTTP: the routes only read requests and write responses."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from seq2see.cancellation import cancellable_by
from seq2see.data.fables import ContrastivePair
from seq2see.documents import Document, parse_html
from seq2see.errors import Seq2SeeError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.head_ablation import AblationResults, ablate_heads_on_contrastive_pair
from seq2see.explain.sentence_contrast import (
    SentenceContrast,
    contrast_sentences,
    find_preference,
)
from seq2see.explain.tracing import explain
from seq2see.search import SearchConfig
from seq2see.serve.admission import BufferedBodies
from seq2see.serve.authentication import ApiKeyStore, RateLimiter
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import (
    ENGINE_FAILED_MESSAGE,
    BadRequest,
    DirectModelRequired,
    EngineError,
    LimitExceeded,
    Overloaded,
    ServiceError,
    TextTooLong,
    TooManyTokens,
)
from seq2see.serve.lab import LabExperimentRunner
from seq2see.serve.model_registry import LanguageRoute, ModelRegistry, ServedModel, is_auto
from seq2see.serve.monitoring import JsonLog, ServiceMetrics
from seq2see.serve.request_cost import TraceCost, check_search_cost
from seq2see.serve.request_translation import (
    PartialTextCallback,
    QueuedTranslator,
    TextTranslationOptions,
    estimate_segment_costs,
    translate_and_report_partial_text,
    translate_texts,
)
from seq2see.serve.requests import (
    ContrastRequest,
    ExplainRequest,
    HeadEffectsRequest,
    ModelSelectionParameters,
    TranslateRequest,
)
from seq2see.serve.uploaded_file_translation import (
    DownloadStore,
    find_text_by_language,
    join_unit_texts,
    parse_file,
    translate_uploaded_file,
)
from seq2see.serve.work_queue import (
    RequestContext,
    UnbatchedTask,
    WorkerThreads,
    WorkItem,
    WorkQueue,
)
from seq2see.text import TextSpan
from seq2see.text.language_detection import DetectedLanguage, LanguageIdentifier
from seq2see.text.languages import match_language
from seq2see.translator import SourceSegment, Translation, TranslationOptions

T = TypeVar("T")

_TRACE_TOKEN_COST = 20
"""Cost of a token of a trace in tokens of a translation: a trace is not batched, does not use fused
attention, and stores all intermediate values."""
_TRACE_STEPS = 20
"""Attributions may need this many times the token-steps of a translation: they are not batched with
other requests, and end at the deadline."""
_MAX_BODIES_BYTES = 64_000_000
"""Bytes of all bodies, also of files, that are received and processed at the same time."""
_MAX_KEYLESS_BODIES_BYTES = 16_000_000
"""The same of the bodies whose key has not been checked, because it is in the body."""
_FILE_RETRY_SECONDS = 10.0
_STALLED_DEADLINES = 4.0
"""A batch that runs for this many request deadlines counts as stalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTranslation(Translation):
    """The translation of a text and the models that made it."""

    source: str
    target: str
    models: list[str]
    via: list[str]
    """Pivot languages."""
    detected: DetectedLanguage | None
    """The detected source language, if it was detected."""

    @classmethod
    def from_translation(
        cls,
        translation: Translation,
        route: LanguageRoute,
        detected: DetectedLanguage | None = None,
    ) -> RoutedTranslation:
        """Return a translation with its route. Every error gets a code."""
        if translation.error and not translation.error_code:
            translation = replace(translation, error_code=BadRequest.error_code)
        return cls(
            **{each.name: getattr(translation, each.name) for each in fields(translation)},
            source=route.source,
            target=route.target,
            models=[model.name for model in route.models],
            via=route.via,
            detected=detected,
        )


class Service:
    """Models, queue, worker threads, keys, metrics and stored files of a running service."""

    def __init__(
        self,
        config: ServeConfig,
        models: ModelRegistry,
        api_keys: ApiKeyStore | None = None,
        log: JsonLog | None = None,
        runs_directory: Path | None = None,
    ) -> None:
        """Create a service, which does no work before `start`.

        Args:
            config: Settings and limits.
            models: The loaded models.
            api_keys: Accepted API keys; by default no key is required.
            log: The log; by default nothing is logged.
            runs_directory: Directory of training runs for /api/v1/runs.
        """
        self.config, self.models, self.runs_directory = config, models, runs_directory
        self.api_keys, self.log = api_keys or ApiKeyStore(), log or JsonLog()
        self.rate_limiter = RateLimiter(config.limits.requests_per_minute)
        self.bodies = BufferedBodies(_MAX_BODIES_BYTES)
        self.keyless_bodies = BufferedBodies(_MAX_KEYLESS_BODIES_BYTES)
        self.queue = WorkQueue(
            config.limits.queue_tokens, config.limits.batch_tokens, config.worker_threads
        )
        self.metrics = ServiceMetrics(self.queue)
        self.lab = LabExperimentRunner()
        self.can_run_experiments = config.is_local_only or self.api_keys.is_required
        self.downloads = DownloadStore(config.download_seconds, 20 * config.limits.file_bytes)
        self.active_requests: set[RequestContext] = set()
        self.is_draining = False
        self.has_running_batch = False
        """Whether a batch was still running when the service was closed."""
        self._file_slots = threading.Semaphore(config.limits.concurrent_files)
        self._workers: WorkerThreads | None = None
        self._is_closed = threading.Event()
        self._get_identifier = lru_cache(1)(LanguageIdentifier)  # until other models are loaded

    def start(self) -> None:
        """Start the worker threads and the maintenance thread."""
        self._workers = WorkerThreads(
            self.queue, self.config.worker_threads, self.metrics.count_batch
        )
        threading.Thread(target=self._maintain, name="seq2see-maintenance", daemon=True).start()

    def warm_up(self) -> None:
        """Detect a language and translate once with each model, so that no request has to wait."""
        self.detect_languages("Hello!")
        for model in self.models:
            model.translator.translate("a", beam_size=self.config.beam_size)

    def drain(self) -> None:
        """Reject new requests and limit the time of running ones to `shutdown_seconds`."""
        self.is_draining = True
        for context in list(self.active_requests):
            context.limit_time(max(0.5, self.config.shutdown_seconds - 1))
        self.log.write("shutting_down")

    def close(self) -> None:
        """Stop the threads and delete the stored files."""
        self._is_closed.set()
        if self._workers:
            self.has_running_batch = not self._workers.stop(1.0)
        self.downloads.close()

    @property
    def is_ready(self) -> bool:
        """Whether the service accepts new work."""
        if self.is_draining or self._workers is None:
            return False
        max_seconds = _STALLED_DEADLINES * self.config.limits.request_seconds
        return self._workers.longest_batch_seconds < max_seconds

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise an error if a request has too many texts or characters.

        Raises:
            LimitExceeded: Too many texts.
            TextTooLong: Too many characters.
        """
        limits, num_characters = self.config.limits, sum(map(len, texts))
        for number, limit, error in (
            (len(texts), limits.texts_per_request, LimitExceeded),
            (num_characters, limits.characters, TextTooLong),
        ):
            if number > limit:
                raise error(f"request ({number}) exceeds text limit ({limit})", limit)

    def detect_languages(self, text: str) -> list[DetectedLanguage]:
        """Return the possible languages of a text among the loaded ones, most likely first."""
        return self._get_identifier(tuple(self.models.languages)).rank_languages(text)

    def translate(
        self,
        context: RequestContext,
        texts: Sequence[str],
        source: str,
        target: str,
        options: TextTranslationOptions,
        *,
        model: str | None = None,
    ) -> list[RoutedTranslation]:
        """Translate texts; with "auto" as source the language of each text is detected."""
        with cancellable_by(context.raise_if_canceled):
            return self._translate(context, texts, source, target, options, model)

    def _translate(
        self,
        context: RequestContext,
        texts: Sequence[str],
        source: str,
        target: str,
        options: TextTranslationOptions,
        model: str | None,
    ) -> list[RoutedTranslation]:
        detected: list[DetectedLanguage | None] = [None] * len(texts)
        if is_auto(source) and not model:
            plain_texts = [
                join_unit_texts(parse_html(text).units) if options.is_html else text
                for text in texts
            ]
            detected = [self.detect_languages(text)[0] for text in plain_texts]
        sources = [each.language if each else source for each in detected]
        results: dict[int, RoutedTranslation] = {}
        for language in dict.fromkeys(sources):
            route = self.models.find_route(language, target, model)
            indices = [index for index, each in enumerate(sources) if each == language]
            selected = [texts[index] for index in indices]
            if route.models:
                translator = self.create_translator(route, context)
                translations = translate_texts(translator, selected, options)
            else:
                translations = [Translation(text, 0.0, 0.0) for text in selected]
            for index, each in zip(indices, translations, strict=True):
                results[index] = RoutedTranslation.from_translation(each, route, detected[index])
        return [results[index] for index in range(len(texts))]

    def explain(self, context: RequestContext, request: ExplainRequest) -> str:
        """Return the trace of a translation as JSON.

        Raises:
            BadRequest: The settings or interventions are invalid.
            DirectModelRequired: The route does not consist of one model.
            TooManyTokens: The text is longer than the model accepts.
        """
        search = SearchConfig().replace(**request.search_settings(self.config))
        model = self._find_single_model(request, request.text).models[0]
        queue_cost = _compute_trace_cost(model, request.text, self._token_weight(search.beam_size))
        forced = request.translation
        cost = TraceCost.estimate(
            model.translator.bundle.config,
            model.count_tokens(request.text),
            None if forced is None else model.count_tokens(forced),
            model.torch_translator.engine.resolve_config(search),
            request.trace_options,
        )
        cost.check(self.config.limits.trace_bytes, _TRACE_STEPS * self.config.limits.token_steps)
        return self._run_unbatched(
            context,
            queue_cost,
            lambda: explain(
                model.torch_translator,
                request.text,
                request.translation,
                search=search,
                interventions=request.interventions,
                options=request.trace_options,
            ).to_json(),
        )

    def ablate_heads(self, context: RequestContext, request: HeadEffectsRequest) -> AblationResults:
        """Return the effect of ablating each attention head on a contrastive pair.

        Raises the same errors as `explain`.
        """
        pair = ContrastivePair(request.text, request.translation, request.contrastive_translation)
        model = self._find_single_model(request, request.text).models[0]
        return self._run_unbatched(
            context,
            _compute_trace_cost(model, request.text),
            lambda: ablate_heads_on_contrastive_pair(
                ExplainedModel(model.torch_translator),
                pair,
                request.interventions,
            ),
        )

    def contrast_texts(self, context: RequestContext, request: ContrastRequest) -> SentenceContrast:
        """Return what decides between two words in the translations of two texts.

        Raises the same errors as `explain`.
        """
        texts = [request.text, request.contrastive_text]
        model = self._find_single_model(request, request.text).models[0]

        def measure() -> SentenceContrast:
            explained = ExplainedModel(model.torch_translator)
            pair = request.translation, request.contrastive_translation
            preference = find_preference(explained, *pair)
            return contrast_sentences(explained, texts, preference, request.word)

        cost = max(_compute_trace_cost(model, text) for text in texts)
        return self._run_unbatched(context, cost, measure)

    def stream(
        self,
        context: RequestContext,
        request: TranslateRequest,
        options: TextTranslationOptions,
        on_partial_text: PartialTextCallback,
    ) -> RoutedTranslation:
        """Translate a text and report partial translations; raises without a direct model."""
        (text,) = request.texts
        route = self._find_single_model(request, text)
        search = options.translation_options.search
        model, weight = route.models[0], self._token_weight(search.beam_size)
        segment = SourceSegment(TextSpan(text, 0), [0] * model.count_tokens(text), request.prefix)
        (cost,) = estimate_segment_costs(model.translator, [segment], options.translation_options)
        check_search_cost([cost], search, self.config.limits.token_steps)
        translation = self._run_unbatched(
            context,
            math.ceil(weight * cost.num_tokens),
            lambda: translate_and_report_partial_text(
                model.torch_translator, text, options, context, on_partial_text
            ),
        )
        return RoutedTranslation.from_translation(translation, route)

    def _find_single_model(self, selection: ModelSelectionParameters, text: str) -> LanguageRoute:
        """Return the route of a text, which consists of a single model."""
        source = selection.source
        if is_auto(source) and not selection.model:
            source = self.detect_languages(text)[0].language
        route = self.models.find_route(source, selection.target, selection.model)
        if len(route.models) != 1:
            reason = f"goes through {', '.join(route.via)}" if route.via else "has no model"
            raise DirectModelRequired(
                "Invalid request: this request needs a direct model, but "
                f"{route.source} to {route.target} {reason}"
            )
        return route

    def _run_unbatched(self, context: RequestContext, cost: int, function: Callable[[], T]) -> T:
        """Run a function as one item of the queue and return its result.

        Raises:
            BadRequest: The function raised an error of seq2see, which describes invalid input.
            EngineError: The function raised another exception.
            ServiceError: Errors of the queue, and service errors of the function.
        """
        work_item = WorkItem(context, UnbatchedTask(function), [None], [cost])
        (result,) = self.queue.submit(work_item)
        if isinstance(result, ServiceError):
            raise result
        if isinstance(result, Seq2SeeError):
            raise BadRequest(f"Invalid request: {result}") from None
        if isinstance(result, BaseException):
            self._log_engine_error(result)
            raise EngineError(ENGINE_FAILED_MESSAGE) from result
        return cast("T", result)

    def translate_file(
        self, context: RequestContext, file: BinaryIO, filename: str, source: str, target: str
    ) -> tuple[str, int]:
        """Translate a file and add it to the download store.

        The file is read only when it is its turn, because it may be large.

        Returns:
            The name for the download, and the number of sentences that could not be translated and
            were copied.

        Raises:
            BadRequest: The file is empty.
            Overloaded: Too many files are being translated.
            UnsupportedFileFormat: The file format is not supported.
            Seq2SeeError: The file cannot be read.
        """
        if not self._file_slots.acquire(blocking=False):
            raise Overloaded("Slowdown: too many files at the moment", _FILE_RETRY_SECONDS)
        limits, num_errors = self.config.limits, 0
        try:
            content = file.read()
            if not filename or not content:
                raise BadRequest("Invalid request: empty file")
            with cancellable_by(context.raise_if_canceled):
                document = parse_file(content, filename, limits)
                if is_auto(source):
                    source = self._detect_document_language(document, target)
                route = self.models.find_route(source, target)
                if route.models:
                    settings = {"beam_size": self.config.beam_size}
                    content, num_errors = translate_uploaded_file(
                        self.create_translator(route, context, retry_when_full=True),
                        document,
                        TranslationOptions().with_settings(settings),
                        limits.paragraph_characters,
                    )
        finally:
            self._file_slots.release()
        path = Path(filename)
        translated_name = f"{path.stem}_{route.target}{path.suffix}"  # as LibreTranslate names it
        return self.downloads.add(content, translated_name), num_errors

    def _detect_document_language(self, document: Document, target: str) -> str:
        """Return the most likely of the languages in which a document can be read."""
        languages = self.models.languages
        target = match_language(target, languages) or target
        texts = find_text_by_language(document, languages, target)
        first = next(iter(texts))
        detected = self.detect_languages(texts[first])
        return next((each.language for each in detected if each.language in texts), first)

    def create_translator(
        self, route: LanguageRoute, context: RequestContext, *, retry_when_full: bool = False
    ) -> QueuedTranslator:
        """Return the translator of a route for one request."""
        return QueuedTranslator(
            [model.translator for model in route.models],
            self.queue,
            context,
            retry_when_full=retry_when_full,
            max_steps=None if retry_when_full else self.config.limits.token_steps,
            on_error=self._log_engine_error,
            token_weight=self._token_weight,
        )

    def _token_weight(self, beam_size: int) -> float:
        """Return the cost of a token with this beam size: above 1 for beams over the default."""
        return max(1.0, beam_size / self.config.beam_size)

    def _log_engine_error(self, error: BaseException) -> None:
        self.log.write_exception("engine_failed", error)

    def _maintain(self) -> None:
        """Run the maintenance at regular intervals until the service is closed."""
        while not self._is_closed.wait(self.config.reload_seconds):
            try:
                self.run_maintenance()
            except Exception as error:  # the next run may succeed
                self.log.write_exception("maintenance_failed", error)

    def run_maintenance(self) -> None:
        """Reload changed keys and models, restart dead threads, remove expired files."""
        try:
            self.api_keys.reload_if_changed()
        except Seq2SeeError as error:  # the previous keys stay valid
            self.log.write("keys_unreadable", problem=str(error))
        self.downloads.remove_expired()
        if self._workers and (count := self._workers.restart_dead_threads()):
            self.metrics.restarts.inc(count)
            self.log.write("workers_restarted", count=count)
        for model, outcome in self.models.reload_changed():
            self.metrics.reloads.labels(outcome).inc()
            self.log.write(
                "model", model=model.name, outcome=outcome, reload_error=model.reload_error
            )


def _compute_trace_cost(model: ServedModel, text: str, weight: float = 1.0) -> int:
    """Return the cost of a trace; raises TooManyTokens if the text is too long."""
    num_tokens, max_tokens = model.count_tokens(text), model.torch_translator.max_tokens
    if num_tokens > max_tokens:
        raise TooManyTokens(
            f"the text has {num_tokens} tokens; an explained text must be at most {max_tokens}",
            max_tokens,
        )
    return math.ceil(_TRACE_TOKEN_COST * weight * (num_tokens + 1))
