"""Our own interface: all that a translator tells, traces, models, runs, and tokens as they come."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from seq2see.errors import ConfigError
from seq2see.serve import about, events, reading, spec
from seq2see.serve.config import LimitsConfig
from seq2see.serve.desk import Desk, require_key
from seq2see.serve.laboratory import Laboratory, cards, notes
from seq2see.serve.models import Model
from seq2see.serve.problems import Failed, Forbidden, Impossible, Invalid, NotFound, TooLong
from seq2see.serve.queued import ENGINE_FAILED
from seq2see.serve.requests import ExplainRequest, HeadsRequest, TranslateRequest
from seq2see.serve.responses import Json
from seq2see.serve.runs import Runs
from seq2see.serve.service import Answer, Service
from seq2see.serve.streaming import Emit
from seq2see.serve.texts import Manner
from seq2see.serve.tickets import Call
from seq2see.translator import TranslationOptions
from seq2see.translator.describing import NOTHING

_TRANSLATION = spec.table(
    text=spec.TEXT,
    score=spec.NUMBER,
    log_prob=spec.NUMBER,
    alternatives=spec.listed({"type": "object"}),
    tokens=spec.listed({"type": "object"}),
    alignment=spec.listed({"type": "object"}),
    flags=spec.listed(spec.TEXT),
    unmet=spec.listed(spec.TEXT),
    error=spec.either(spec.TEXT, {"type": "null"}),
    reason=spec.either(spec.TEXT, {"type": "null"}),
    sentences=spec.listed({"type": "object"}),
    source=spec.TEXT,
    target=spec.TEXT,
    models=spec.listed(spec.TEXT),
    via=spec.listed(spec.TEXT),
    detected=spec.either({"type": "object"}, {"type": "null"}),
)
_EVENT = spec.table(event={**spec.TEXT, "enum": ["text", "done", "error"]}, data=spec.TEXT)
_JSON = ("application/json",)
_REASONS = {ENGINE_FAILED: Failed.reason, NOTHING: Impossible.reason}


def router(service: Service, desk: Desk) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/api/v1", tags=["seq2see"])
    _translation(routes, service, desk)
    _streaming(routes, service, desk)
    _explanation(routes, service, desk)
    _models(routes, service)
    _runs(routes, service)
    _lab(routes, service, desk)
    return routes


def _translation(routes: APIRouter, service: Service, desk: Desk) -> None:
    @routes.post(
        "/translate",
        summary="Translate texts, and tell all that is known about each.",
        responses=spec.answers(spec.table(translations=spec.listed(_TRANSLATION)), *spec.WORK),
        openapi_extra=spec.body(
            spec.config_schema(TranslateRequest), _JSON, _example(service, alignment=True)
        ),
    )
    async def translate(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await _wanted(request, service)
        options = _options(wanted, service)
        manner = Manner(options, wanted.format == "html", wanted.keep_numbers)

        def work(call: Call) -> list[Answer]:
            pair = wanted.source, wanted.target
            return service.translate(call, wanted.texts, *pair, manner, model=wanted.model)

        found = await desk.work(request, client, work)
        return Json({"translations": [described(answer) for answer in found]})


def _streaming(routes: APIRouter, service: Service, desk: Desk) -> None:
    @routes.post(
        "/stream",
        summary="Translate a text, and send what there is of it at every step.",
        description="Server-sent events: `text` with the text so far, then `done` with what "
        "/api/v1/translate gives, or `error`. Who reads slowly gets fewer of the former.",
        responses=spec.answers(_EVENT, *spec.WORK, kind="text/event-stream"),
        openapi_extra=spec.body(spec.config_schema(TranslateRequest), _JSON, _example(service)),
    )
    async def stream(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await _wanted(request, service)
        if len(wanted.texts) != 1 or wanted.format != "text":
            raise Invalid("Invalid request: `text` must be one plain text, to be streamed")
        route = service.wanted_route(wanted.source, wanted.target, wanted.model, wanted.texts[0])
        options = _options(wanted, service)

        def work(call: Call, emit: Emit) -> dict[str, Any]:
            found = service.stream(call, wanted.texts[0], route, options, emit)
            return {"translations": [described(found)]}

        return await events.answer(request, client, desk, work)


def _explanation(routes: APIRouter, service: Service, desk: Desk) -> None:
    limits = service.config.limits

    @routes.post(
        "/explain",
        summary="Translate a sentence, and show how it came about.",
        responses=spec.answers({"type": "object"}, *spec.WORK),
        openapi_extra=spec.body(
            spec.config_schema(ExplainRequest), _JSON, _example(service, beam_size=2)
        ),
    )
    async def explain(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await reading.config(request, ExplainRequest)
        _refuse_long(wanted.text + (wanted.translation or ""), limits)
        if max(wanted.beam_size or 1, wanted.n_best) > limits.beam_size:
            raise Invalid(f"Invalid request: `beam_size` must be at most {limits.beam_size}")
        trace = await desk.work(request, client, lambda call: service.explain(call, wanted))
        return Response(trace, media_type="application/json")

    @routes.post(
        "/heads",
        summary="Tell how much a preference for one of two translations owes to each head.",
        responses=spec.answers(
            spec.table(preference=spec.NUMBER, removals=spec.listed({"type": "object"})), *spec.WORK
        ),
        openapi_extra=spec.body(
            spec.config_schema(HeadsRequest), _JSON, _example(service, one="a", other="b")
        ),
    )
    async def heads(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await reading.config(request, HeadsRequest)
        _refuse_long(wanted.text + max(wanted.one, wanted.other, key=len), limits)
        found = await desk.work(request, client, lambda call: service.heads(call, wanted))
        return Json(found.model_dump())


def _refuse_long(text: str, limits: LimitsConfig) -> None:
    if len(text) > limits.explain_characters:
        raise TooLong(
            f"Invalid request: a text that is explained has at most "
            f"{limits.explain_characters} characters"
        )


def _models(routes: APIRouter, service: Service) -> None:
    def named(name: str, request: Request) -> Model:
        require_key(request, service)
        model = service.models.named(name)
        if model is None:
            raise NotFound(f"{name[:40]} is not a model here")
        return model

    @routes.get(
        "/models",
        summary="List the models, and how wide they may search.",
        responses=spec.answers(
            spec.table(models=spec.listed({"type": "object"}), search={"type": "object"})
        ),
    )
    async def models(request: Request) -> Response:
        require_key(request, service)
        found = [about.facts(model) for model in service.models]
        return Json({"models": found, "search": about.bounds(service.config)})

    @routes.get(
        "/models/{name}",
        summary="Show what a model is made of.",
        responses=spec.answers({"type": "object"}, 404),
    )
    def architecture(name: str, request: Request) -> Response:
        return Json(about.architecture(named(name, request)))

    @routes.get(
        "/models/{name}/positions",
        summary="Show the vectors that tell a model where its first tokens stand.",
        responses=spec.answers({"type": "object"}, 404),
    )
    def positions(name: str, request: Request) -> Response:
        return Json(about.positions(named(name, request)))


def _runs(routes: APIRouter, service: Service) -> None:
    runs = Runs(service.runs)

    @routes.get(
        "/runs",
        summary="List the training runs of the folder that the operator named.",
        responses=spec.answers(spec.table(runs=spec.listed({"type": "object"}))),
    )
    def list_runs(request: Request) -> Response:
        require_key(request, service)
        return Json({"runs": runs.names()})

    @routes.get(
        "/runs/{name}",
        summary="Read the log of a run, from where the last answer ended.",
        responses=spec.answers({"type": "object"}, 404),
    )
    def read_run(
        name: str, request: Request, after: Annotated[int, Query(ge=0, le=2**62)] = 0
    ) -> Response:
        require_key(request, service)
        return Json(runs.records(name, after))


def _lab(routes: APIRouter, service: Service, desk: Desk) -> None:
    config = service.config
    laboratory = Laboratory()
    may_run = config.is_private or service.keys.required

    @routes.get(
        "/lab",
        summary="List the experiments of the lab: what each claims and predicts.",
        responses=spec.answers(
            spec.table(
                experiments=spec.listed({"type": "object"}),
                notes={"type": "object"},
                may_run={"type": "boolean"},
            )
        ),
    )
    def experiments(request: Request) -> Response:
        require_key(request, service)
        return Json({"experiments": cards(), "notes": notes(), "may_run": may_run})

    @routes.post(
        "/lab/{number}",
        summary="Run an experiment, which takes from a second to minutes.",
        description="Numbers, pictures and the verdict. One runs at a time. Only for those on this "
        "machine, or with a key.",
        responses=spec.answers({"type": "object"}, 404, *spec.WORK),
    )
    async def run(number: int, request: Request) -> Response:
        client = desk.admit(request, None)
        if not may_run:
            raise Forbidden("Experiments are for those on this machine, or with a key")

        def work(call: Call) -> dict[str, Any]:
            return laboratory.run(call, number)

        return Json(await desk.work(request, client, work, config.limits.file_seconds))


async def _wanted(request: Request, service: Service) -> TranslateRequest:
    limits = service.config.limits
    wanted = await reading.config(request, TranslateRequest)
    texts = wanted.texts
    reading.refuse_excess(texts, limits)
    if wanted.n_best > limits.alternatives + 1:
        raise Invalid(f"Invalid request: `n_best` must be at most {limits.alternatives + 1}")
    if (wanted.beam_size or 1) > limits.beam_size:
        raise Invalid(f"Invalid request: `beam_size` must be at most {limits.beam_size}")
    request.state.note.update(texts=len(texts), characters=sum(map(len, texts)))
    return wanted


def _options(wanted: TranslateRequest, service: Service) -> TranslationOptions:
    try:
        return wanted.options(service.config)
    except ConfigError as error:
        raise Invalid(f"Invalid request: {error}") from None


def described(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON; an error has the reason that X-Reason would have."""
    route, error = answer.route, answer.translation.error
    return {
        **asdict(answer.translation),
        "reason": reason_of(error) if error else None,
        "source": route.source,
        "target": route.target,
        "models": [leg.name for leg in route.legs],
        "via": route.via,
        "detected": asdict(answer.detected) if answer.detected else None,
    }


def reason_of(error: str) -> str:
    """Return the reason of a text's own error."""
    return _REASONS.get(error, Invalid.reason)


def _example(service: Service, **wishes: Any) -> dict[str, Any]:
    first = next(iter(service.models))
    return {"text": "Hello world!", "source": first.source, "target": first.target, **wishes}
