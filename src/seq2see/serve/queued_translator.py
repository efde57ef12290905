"""Translators whose work goes through the queue, and pivot translation with two of them.

They have the interface of `Translator`. Documents, HTML and plain texts therefore share the same
batches, and a pivot route can be used like a single model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, overload

from seq2see.errors import Seq2SeeError
from seq2see.serve.errors import (
    ENGINE_FAILED_MESSAGE,
    DirectModelRequired,
    EngineError,
    Overloaded,
)
from seq2see.serve.model_registry import LanguageRoute, ServedModel
from seq2see.serve.work_queue import RequestContext, WorkQueue
from seq2see.translator import AlignmentLink, Translation, TranslationOptions, Translator

_WINDOW_LINES = 256
"""Lines of a file that are in the queue at the same time."""

ErrorCallback = Callable[[BaseException], None]
TokenWeightFunction = Callable[[int], float]
"""Returns the cost of a token for a beam size."""


@dataclass(frozen=True, slots=True)
class ModelWithOptions:
    """Translation of lines by one model with the same options."""

    model: ServedModel
    options_key: str
    """The options as JSON, because the options themselves cannot be hashed."""
    options: TranslationOptions = field(compare=False)

    @classmethod
    def from_options(cls, model: ServedModel, options: TranslationOptions) -> ModelWithOptions:
        """Return the task of a model with these options."""
        return cls(model, options.model_dump_json(), options)

    def run(self, items: Sequence[str]) -> Sequence[Translation]:
        """Translate lines with the model's current translator."""
        return self.model.translator.translate(list(items), options=self.options)


class QueuedRequestTranslator:
    """Translates with one model through the queue, for one request."""

    def __init__(
        self,
        model: ServedModel,
        queue: WorkQueue,
        context: RequestContext,
        *,
        retry_when_full: bool = False,
        on_error: ErrorCallback = lambda _: None,
        token_weight: TokenWeightFunction = lambda _: 1.0,
    ) -> None:
        self._model, self._queue, self._context = model, queue, context
        self._retry_when_full, self._on_error = retry_when_full, on_error
        self._token_weight = token_weight

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self._model.translator.languages

    def translate(self, lines: Sequence[str], options: TranslationOptions) -> list[Translation]:
        """Translate lines in order. A line that fails has an error in its translation."""
        task = ModelWithOptions.from_options(self._model, options)
        costs = self._model.compute_costs(lines, self._token_weight(options.search.beam_size))
        if not self._retry_when_full:
            results = self._queue.submit(self._context, task, lines, costs)
            return [self._to_translation(result) for result in results]
        translations: list[Translation] = []
        for start in range(0, len(lines), _WINDOW_LINES):
            window = slice(start, start + _WINDOW_LINES)
            results = self._submit_with_retries(task, lines[window], costs[window])
            translations += [self._to_translation(result) for result in results]
        return translations

    def _submit_with_retries(
        self, task: ModelWithOptions, lines: Sequence[str], costs: Sequence[int]
    ) -> list[Any]:
        """Submit lines again while the queue is full, so that a started file is finished."""
        while True:
            try:
                return self._queue.submit(self._context, task, lines, costs)
            except Overloaded as error:
                pause = min(1.0, error.retry_after or 1.0)
                if self._context.is_canceled or self._context.seconds_left < pause:
                    raise
                time.sleep(pause)

    def _to_translation(self, result: Any) -> Translation:
        if isinstance(result, Translation):
            return result
        if isinstance(result, Seq2SeeError):
            return Translation("", 0.0, 0.0, error=str(result))
        self._on_error(result)
        code = EngineError.error_code
        return Translation("", 0.0, 0.0, error=ENGINE_FAILED_MESSAGE, error_code=code)


class RouteTranslator:
    """Translates with one or more models in sequence, with the interface of `Translator`."""

    def __init__(self, translators: Sequence[QueuedRequestTranslator]) -> None:
        self._translators = translators

    @property
    def languages(self) -> tuple[str, str]:
        """Source language of the first model and target language of the last one."""
        return self._translators[0].languages[0], self._translators[-1].languages[1]

    @overload
    def translate(
        self, lines: str, options: TranslationOptions | None = None, **settings: Any
    ) -> Translation: ...

    @overload
    def translate(
        self, lines: Sequence[str], options: TranslationOptions | None = None, **settings: Any
    ) -> list[Translation]: ...

    def translate(
        self, lines: str | Sequence[str], options: TranslationOptions | None = None, **settings: Any
    ) -> Translation | list[Translation]:
        """Translate lines in order through all pivot languages.

        Raises:
            DirectModelRequired: A glossary is given, and there is a pivot language.
        """
        if isinstance(lines, str):
            return self.translate([lines], options, **settings)[0]
        options = (options or TranslationOptions()).with_settings(settings)
        if options.glossary and len(self._translators) > 1:
            raise DirectModelRequired(
                "a glossary needs a direct model, but this language pair uses a pivot language"
            )
        pivot_options = TranslationOptions(
            alignment=options.alignment, split=options.split
        ).with_settings({"beam_size": options.search.beam_size})
        translations = [Translation(line, 0.0, 0.0) for line in lines]
        for translator in self._translators:
            is_last = translator is self._translators[-1]
            texts = [translation.text for translation in translations]
            results = translator.translate(texts, options if is_last else pivot_options)
            is_first = translator is self._translators[0]
            translations = results if is_first else list(map(_combine, translations, results))
        return translations


def create_request_translator(
    route: LanguageRoute,
    queue: WorkQueue,
    context: RequestContext,
    *,
    retry_when_full: bool = False,
    on_error: ErrorCallback = lambda _: None,
    token_weight: TokenWeightFunction = lambda _: 1.0,
) -> Translator:
    """Return the translator of a route for one request.

    Args:
        route: The models, at least one.
        queue: The queue through which the work goes.
        context: Client and deadline of the request.
        retry_when_full: Whether to wait, up to the deadline, if the queue is full.
        on_error: Called with the exception of each text on which the engine failed.
        token_weight: Cost of a token for a beam size.
    """
    translators = [
        QueuedRequestTranslator(
            model,
            queue,
            context,
            retry_when_full=retry_when_full,
            on_error=on_error,
            token_weight=token_weight,
        )
        for model in route.models
    ]
    return cast("Translator", RouteTranslator(translators))


def _combine(first: Translation, second: Translation) -> Translation:
    """Return the pivot translation of a line from the translations of two models."""
    if first.error:
        return first
    flags = tuple(dict.fromkeys([*first.flags, *second.flags]))
    links = tuple(_compose_alignments(first.alignment, second.alignment))
    return replace(
        second,
        alternatives=tuple(_combine(first, other) for other in second.alternatives),
        alignment=links,
        flags=flags,
        unmet_constraints=(*first.unmet_constraints, *second.unmet_constraints),
        sentences=(),
    )


def _compose_alignments(
    first: Sequence[AlignmentLink], second: Sequence[AlignmentLink]
) -> Iterator[AlignmentLink]:
    """Yield links from source words to target words, joined at overlapping pivot words."""
    weights: dict[tuple[int, int, int, int], float] = {}
    for right in second:
        for left in first:
            if left.target_start < right.source_end and right.source_start < left.target_end:
                key = (left.source_start, left.source_end, right.target_start, right.target_end)
                weights[key] = weights.get(key, 0.0) + left.weight * right.weight
    order = sorted(weights.items(), key=lambda item: (item[0][2], -item[1], item[0][0]))
    yield from (AlignmentLink(*key, min(weight, 1.0)) for key, weight in order)
