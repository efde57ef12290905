"""All that the service does, without HTTP: the routes only read requests and write answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from seq2see.errors import Seq2SeeError
from seq2see.explain.head_ablation import Removals
from seq2see.serve import unbatched
from seq2see.serve.auth import ApiKeys, Rates
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import Busy, Failed, Indirect, Invalid, UnknownLanguage
from seq2see.serve.file_translation import (
    FileStore,
    refuse_file,
    suffixes,
    translate_file,
    translated_name,
    words_of_file,
    words_of_page,
)
from seq2see.serve.model_registry import Model, Models, Route
from seq2see.serve.monitoring import Journal, Metrics
from seq2see.serve.queued_translator import chained
from seq2see.serve.requests import ExplainRequest, HeadsRequest
from seq2see.serve.text_translation import Manner, translate_texts
from seq2see.serve.unbatched import Emit
from seq2see.serve.work_queue import Call, Workers, WorkQueue
from seq2see.text.language_detection import Detection, Guess
from seq2see.text.languages import match, name
from seq2see.translator import Translation, TranslationOptions, Translator

T = TypeVar("T")

_FILE_RETRY = 10.0
_STALLED = 4.0
"""So many deadlines with the engine, and a batch will not come back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A text's translation, and the way that it went."""

    translation: Translation
    route: Route
    detected: Guess | None = None


@dataclass(frozen=True, slots=True)
class TranslatedFile:
    """The name by which a file can be fetched, and the sentences in it that stayed as they were."""

    name: str
    errors: int = 0


class Service:
    """The parts of a running service."""

    def __init__(
        self,
        config: ServeConfig,
        models: Models,
        keys: ApiKeys | None = None,
        journal: Journal | None = None,
        runs: Path | None = None,
    ) -> None:
        self.config, self.models, self.runs = config, models, runs
        self.keys, self.journal = keys or ApiKeys(), journal or Journal()
        self.rates = Rates(config.limits.requests_per_minute)
        self.metrics = Metrics()
        self.queue = WorkQueue(
            config.limits.queue_tokens, config.limits.batch_tokens, config.workers
        )
        self.metrics.watch(self.queue)
        self.files = FileStore(config.keep_file_seconds, 20 * config.limits.file_bytes)
        self.drains = False
        self.is_stuck = False
        """Whether a batch was still with the engine at the end."""
        self._file_desks = threading.Semaphore(config.limits.files)
        self._workers: Workers | None = None
        self._ended = threading.Event()
        self._detection: tuple[tuple[str, ...], Detection] | None = None

    def start(self) -> None:
        """Let the workers and the watch begin."""
        self._workers = Workers(self.queue, self.config.workers, self.metrics.after_batch)
        threading.Thread(target=self._watch, name="seq2see-watch", daemon=True).start()

    def warm_up(self) -> None:
        """Do everything once, so that the first who asks does not wait for it."""
        self.detect("Hello!")
        for model in self.models:
            model.translator.translate("1", beam_size=self.config.beam_size)

    def drain(self) -> None:
        """Take nothing new; finish what is here in time."""
        self.drains = True
        self.queue.drain(max(0.5, self.config.drain_seconds - 1))
        self.journal.write("draining")

    def close(self) -> None:
        """End."""
        self._ended.set()
        if self._workers:
            self.is_stuck = not self._workers.stop(1.0)
        self.files.close()

    @property
    def is_ready(self) -> bool:
        """Whether new work should be sent here."""
        stalled = _STALLED * self.config.limits.seconds
        return not self.drains and self._workers is not None and self._workers.longest < stalled

    def detect(self, text: str) -> list[Guess]:
        """Return the languages that a text may be in, of those that are loaded."""
        languages = tuple(self.models.languages)
        if self._detection is None or self._detection[0] != languages:
            self._detection = (languages, Detection(languages))
        return self._detection[1].guesses(text)

    def route(self, source: str, target: str) -> Route:
        """Return the way from one language to another, or raise `Invalid`."""
        for code in (source, target):
            if match(code, self.models.languages) is None:
                raise UnknownLanguage(f"{code[:40]} is not supported")
        if route := self.models.route(source, target):
            return route
        raise UnknownLanguage(
            f"{name(target)} ({target}) is not available as a target language "
            f"from {name(source)} ({source})"
        )

    def translate(
        self,
        call: Call,
        texts: Sequence[str],
        source: str,
        target: str,
        manner: Manner,
        *,
        model: str | None = None,
    ) -> list[Answer]:
        """Translate texts, each from its own language if the source is "auto"."""
        if source.strip().lower() == "auto" and model is None:
            return self._detected(call, texts, target, manner)
        route = self.named_route(model, source, target) if model else self.route(source, target)
        found = self._along(route, call, texts, manner)
        return [Answer(translation, route) for translation in found]

    def explain(self, call: Call, wanted: ExplainRequest) -> str:
        """Return a trace as JSON; only one model can be seen through at a time."""
        route = self.wanted_route(wanted.source, wanted.target, wanted.model, wanted.text)
        return self._guarded(
            lambda: unbatched.explain_text(self.queue, call, _single(route), wanted, self.config)
        )

    def heads(self, call: Call, wanted: HeadsRequest) -> Removals:
        """Return what is left of a preference without each head."""
        route = self.wanted_route(wanted.source, wanted.target, wanted.model, wanted.text)
        return self._guarded(
            lambda: unbatched.ablate_heads(self.queue, call, _single(route), wanted)
        )

    def stream(
        self, call: Call, text: str, route: Route, options: TranslationOptions, emit: Emit
    ) -> Answer:
        """Translate a text and emit it while it grows."""
        leg = _single(route)
        found = self._guarded(
            lambda: unbatched.stream_translation(
                self.queue, call, leg, text, options, emit, self.config
            )
        )
        return Answer(found, route)

    def wanted_route(self, source: str, target: str, model: str | None, text: str) -> Route:
        """Return the way of one text."""
        if model:
            return self.named_route(model, source, target)
        if source.strip().lower() == "auto":
            source = self.detect(text)[0].language
        return self.route(source, target)

    def _detected(
        self, call: Call, texts: Sequence[str], target: str, manner: Manner
    ) -> list[Answer]:
        read = words_of_page if manner.html else str
        guesses = [self.detect(read(text))[0] for text in texts]
        answers: dict[int, Answer] = {}
        for language in dict.fromkeys(guess.language for guess in guesses):
            route = self.route(language, target)
            places = [place for place, guess in enumerate(guesses) if guess.language == language]
            found = self._along(route, call, [texts[place] for place in places], manner)
            for place, translation in zip(places, found, strict=True):
                answers[place] = Answer(translation, route, guesses[place])
        return [answers[place] for place in range(len(texts))]

    def _along(
        self, route: Route, call: Call, texts: Sequence[str], manner: Manner
    ) -> list[Translation]:
        if not route.legs:
            return [Translation(text, 0.0, 0.0) for text in texts]
        return translate_texts(self.translator(route, call), texts, manner)

    def translate_file(
        self, call: Call, content: bytes, shown_name: str, source: str, target: str
    ) -> TranslatedFile:
        """Translate a file, and keep it to be fetched."""
        if not self._file_desks.acquire(blocking=False):
            raise Busy("Slowdown: too many files at the moment", _FILE_RETRY)
        try:
            return self._translated_file(call, content, shown_name, source, target)
        finally:
            self._file_desks.release()

    def _translated_file(
        self, call: Call, content: bytes, shown_name: str, source: str, target: str
    ) -> TranslatedFile:
        refuse_file(content, shown_name, self.config.limits.unpacked_bytes)
        if source.strip().lower() == "auto":
            source = self._language_of_file(content, shown_name, target)
        route = self.route(source, target)
        errors = 0
        if route.legs:
            options = TranslationOptions().changed({"beam_size": self.config.beam_size})
            translator = self.translator(route, call, patient=True)
            content, errors = translate_file(translator, content, shown_name, options)
        kept = self.files.keep(content, translated_name(shown_name, route.target))
        return TranslatedFile(kept, errors)

    def _language_of_file(self, content: bytes, shown_name: str, target: str) -> str:
        """Return the likeliest of the languages in which the file can be read."""
        known = self.models.languages
        words = words_of_file(content, shown_name, known, match(target, known) or target)
        first = next(iter(words))
        guesses = self.detect(words[first])
        return next((guess.language for guess in guesses if guess.language in words), first)

    @property
    def file_suffixes(self) -> list[str]:
        """The kinds of files that can be translated."""
        return suffixes() if self.config.files else []

    def translator(self, route: Route, call: Call, *, patient: bool = False) -> Translator:
        """Return the translator of a route, for one call."""
        return chained(
            route,
            self.queue,
            call,
            patient=patient,
            on_error=self._engine_failed,
            weigh=self.config.weight,
        )

    def named_route(self, model: str, source: str, target: str) -> Route:
        """Return the way through a model that was named, if it leads as the languages say."""
        found = self.models.named(model)
        if found is None:
            raise Invalid(f"{model[:40]} is not a model here")
        start = "" if source.strip().lower() == "auto" else source.strip()
        given = (start, found.source), (target.strip(), found.target)
        if any(code and match(code, [own]) is None for code, own in given):
            raise UnknownLanguage(
                f"{found.name} translates from {found.source} to {found.target}: "
                "`source` and `target` must be these, or be left out"
            )
        return Route(found.source, found.target, (found,))

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Failed as failed:
            self._engine_failed(failed.__cause__ or failed)
            raise

    def _engine_failed(self, error: BaseException) -> None:
        self.journal.error("engine_failed", error)

    def _watch(self) -> None:
        """Look after models, keys, threads and files, until the end."""
        while not self._ended.wait(self.config.reload_seconds):
            try:
                self.look_after()
            except Exception as error:  # the next look may succeed
                self.journal.error("watch_failed", error)

    def look_after(self) -> None:
        """Look once."""
        for model, outcome in self.models.refresh():
            self.metrics.reloaded(outcome)
            self.journal.write("model", model=model.name, outcome=outcome, problem=model.problem)
        if self._workers and (count := self._workers.revive()):
            self.metrics.died(count)
            self.journal.write("workers_replaced", count=count)
        try:
            self.keys.refresh()
        except Seq2SeeError as error:  # the keys of before stay
            self.journal.write("keys_unreadable", problem=str(error))
        self.files.sweep()


def _single(route: Route) -> Model:
    """Return the one model of a route."""
    if len(route.legs) != 1:
        raise Indirect("Invalid request: this needs one model that leads directly to the target")
    return route.legs[0]
