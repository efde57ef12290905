"""Translators whose work goes through the queue, and pivot translation with two of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, overload

from seq2see.errors import Seq2SeeError
from seq2see.serve.errors import Busy, Indirect
from seq2see.serve.model_registry import Model, Route
from seq2see.serve.work_queue import Call, WorkQueue
from seq2see.translator import Link, Translation, TranslationOptions, Translator

ENGINE_FAILED = "the engine failed on this text"
"""The error of a text that broke the engine; those beside it were translated."""


_WINDOW = 256
"""Lines of a file that wait at a time."""


OnError = Callable[[BaseException], None]


Weigh = Callable[[int], float]
"""Tells what a token costs with a beam of this size."""


@dataclass(frozen=True, slots=True)
class TranslateTask:
    """Lines for one model, by the same options."""

    model: Model
    wishes: str
    """The options as a text, since they cannot be hashed."""
    options: TranslationOptions = field(compare=False)

    @classmethod
    def of(cls, model: Model, options: TranslationOptions) -> TranslateTask:
        """Make one."""
        return cls(model, options.model_dump_json(), options)

    def run(self, items: Sequence[str]) -> Sequence[Translation]:
        """Translate, by whichever translator the model has now."""
        return self.model.translator.translate(list(items), options=self.options)


class QueuedTranslator:
    """A model behind the queue, for one call."""

    def __init__(
        self,
        model: Model,
        queue: WorkQueue,
        call: Call,
        *,
        patient: bool = False,
        on_error: OnError = lambda _: None,
        weigh: Weigh = lambda _: 1.0,
    ) -> None:
        self._model, self._queue, self._call = model, queue, call
        self._patient, self._on_error, self._weigh = patient, on_error, weigh

    @property
    def languages(self) -> tuple[str, str]:
        """From which language to which."""
        return self._model.translator.languages

    def translate(self, lines: Sequence[str], options: TranslationOptions) -> list[Translation]:
        """Translate lines in their order; one that has no translation says why."""
        task = TranslateTask.of(self._model, options)
        costs = self._model.costs(lines, self._weigh(options.search.beam_size))
        if not self._patient:
            return self._sorted_out(self._queue.submit(self._call, task, lines, costs))
        results: list[Translation] = []
        for start in range(0, len(lines), _WINDOW):
            window = slice(start, start + _WINDOW)
            results += self._sorted_out(self._persist(task, lines[window], costs[window]))
        return results

    def _persist(
        self, task: TranslateTask, lines: Sequence[str], costs: Sequence[int]
    ) -> list[Any]:
        """Try again while the queue is full: a file in the middle is not given up."""
        while True:
            try:
                return self._queue.submit(self._call, task, lines, costs)
            except Busy as busy:
                pause = min(1.0, busy.retry_after or 1.0)
                if self._call.is_cancelled or self._call.left < pause:
                    raise
                time.sleep(pause)

    def _sorted_out(self, outcomes: Sequence[Any]) -> list[Translation]:
        return [self._translation(outcome) for outcome in outcomes]

    def _translation(self, outcome: Any) -> Translation:
        if isinstance(outcome, Translation):
            return outcome
        if isinstance(outcome, Seq2SeeError):
            return Translation("", 0.0, 0.0, error=str(outcome))
        self._on_error(outcome)
        return Translation("", 0.0, 0.0, error=ENGINE_FAILED)


class Chain:
    """Models of which each reads what the one before it wrote; at least one.

    To those who use it, it is a `Translator`.
    """

    def __init__(self, legs: Sequence[QueuedTranslator]) -> None:
        self._legs = legs

    @property
    def languages(self) -> tuple[str, str]:
        """From which language to which, in the end."""
        return self._legs[0].languages[0], self._legs[-1].languages[1]

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
        """Translate lines in their order, through every language on the way."""
        if isinstance(lines, str):
            return self.translate([lines], options, **settings)[0]
        options = (options or TranslationOptions()).changed(settings)
        if options.glossary and len(self._legs) > 1:
            raise Indirect("a glossary needs a direct model, and this pair goes through another")
        on_the_way = TranslationOptions(alignment=options.alignment, split=options.split).changed(
            {"beam_size": options.search.beam_size}
        )
        results = [Translation(line, 0.0, 0.0) for line in lines]
        for leg in self._legs:
            last = leg is self._legs[-1]
            texts = [result.text for result in results]
            found = leg.translate(texts, options if last else on_the_way)
            first = leg is self._legs[0]
            results = found if first else list(map(_joined, results, found))
        return results


def chained(
    route: Route,
    queue: WorkQueue,
    call: Call,
    *,
    patient: bool = False,
    on_error: OnError = lambda _: None,
    weigh: Weigh = lambda _: 1.0,
) -> Translator:
    """Return the translator of a route."""
    legs = [
        QueuedTranslator(leg, queue, call, patient=patient, on_error=on_error, weigh=weigh)
        for leg in route.legs
    ]
    return cast("Translator", Chain(legs))


def _joined(first: Translation, second: Translation) -> Translation:
    """Return what two models made of a line, as if one had."""
    if first.error:
        return first
    flags = tuple(dict.fromkeys([*first.flags, *second.flags]))
    links = tuple(_composed(first.alignment, second.alignment))
    return replace(
        second,
        alternatives=tuple(_joined(first, other) for other in second.alternatives),
        alignment=links,
        flags=flags,
        unmet=(*first.unmet, *second.unmet),
        sentences=(),
    )


def _composed(first: Sequence[Link], second: Sequence[Link]) -> Iterator[Link]:
    """Yield from target words to source words, through the words in between."""
    weights: dict[tuple[int, int, int, int], float] = {}
    for far in second:
        for near in first:
            if near.target_start < far.source_end and far.source_start < near.target_end:
                span = (near.source_start, near.source_end, far.target_start, far.target_end)
                weights[span] = weights.get(span, 0.0) + near.weight * far.weight
    order = sorted(weights.items(), key=lambda item: (item[0][2], -item[1], item[0][0]))
    yield from (Link(*span, min(weight, 1.0)) for span, weight in order)
