"""Work that no batch can share: a trace, a text that is streamed. It waits in the same queue."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

from seq2see.data.fables import Contrast
from seq2see.errors import ConfigError, Seq2SeeError
from seq2see.explain.contrasts import Removals, removals
from seq2see.explain.explainer import explain as traced, subject_of
from seq2see.search import SearchConfig
from seq2see.serve.config import ServeConfig
from seq2see.serve.models import Model
from seq2see.serve.problems import Failed, Invalid, Problem, TooManyTokens
from seq2see.serve.queue import WorkQueue
from seq2see.serve.requests import ExplainRequest, HeadsRequest, searched
from seq2see.serve.streaming import Emit, stream as streamed
from seq2see.serve.tickets import Alone, Call
from seq2see.translator import Translation, TranslationOptions

T = TypeVar("T")

_TRACE_COST = 20
"""What a token of a trace costs, in tokens of a translation: no batch, no fused attention, and all
of it written down."""


def explain(
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
    return alone(queue, call, work, _cost(model, wanted.text, weight))


def heads(queue: WorkQueue, call: Call, model: Model, wanted: HeadsRequest) -> Removals:
    """Return what is left of a preference without each head."""
    pair = Contrast(wanted.text, wanted.one, wanted.other)

    def work() -> Removals:
        subject = subject_of(model.glass, wanted.text)
        return removals(subject, pair, wanted.interventions, call.still_wanted)

    return alone(queue, call, work, _cost(model, wanted.text, _TRACE_COST))


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


def stream(
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
        return streamed(model.glass, text, options, call, emit)

    weight = config.weight(options.search.beam_size)
    return alone(queue, call, work, model.costs([text], weight)[0])


def alone(queue: WorkQueue, call: Call, work: Callable[[], T], cost: int) -> T:
    """Do one thing in its turn; what goes wrong becomes a `Problem`."""
    (outcome,) = queue.submit(call, Alone(work), [None], [cost])
    if isinstance(outcome, Problem):
        raise outcome
    if isinstance(outcome, Seq2SeeError):
        raise Invalid(f"Invalid request: {outcome}") from None
    if isinstance(outcome, BaseException):
        raise Failed("the engine failed on this text") from outcome
    return cast("T", outcome)
