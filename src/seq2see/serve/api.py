"""Routes of /api/v1: translate, stream, explain, head ablation, lab."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from seq2see.errors import ConfigError
from seq2see.serve import openapi, requests, responses
from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import Failed, Forbidden, Impossible, Invalid, TooLong
from seq2see.serve.executor import Desk, require_key
from seq2see.serve.inspection import add_model_routes, add_run_routes
from seq2see.serve.lab_runner import Laboratory, cards, notes
from seq2see.serve.queued_translator import ENGINE_FAILED
from seq2see.serve.requests import ExplainRequest, HeadsRequest, TranslateRequest
from seq2see.serve.responses import Json
from seq2see.serve.service import Answer, Service
from seq2see.serve.text_translation import Manner
from seq2see.serve.unbatched import Emit
from seq2see.serve.work_queue import Call
from seq2see.translator import TranslationOptions
from seq2see.translator.results import NOTHING

_TRANSLATION = openapi.table(
    text=openapi.TEXT,
    score=openapi.NUMBER,
    log_prob=openapi.NUMBER,
    alternatives=openapi.listed({"type": "object"}),
    tokens=openapi.listed({"type": "object"}),
    alignment=openapi.listed({"type": "object"}),
    flags=openapi.listed(openapi.TEXT),
    unmet=openapi.listed(openapi.TEXT),
    error=openapi.either(openapi.TEXT, {"type": "null"}),
    reason=openapi.either(openapi.TEXT, {"type": "null"}),
    sentences=openapi.listed({"type": "object"}),
    source=openapi.TEXT,
    target=openapi.TEXT,
    models=openapi.listed(openapi.TEXT),
    via=openapi.listed(openapi.TEXT),
    detected=openapi.either({"type": "object"}, {"type": "null"}),
)


_EVENT = openapi.table(event={**openapi.TEXT, "enum": ["text", "done", "error"]}, data=openapi.TEXT)


_JSON = ("application/json",)


_REASONS = {ENGINE_FAILED: Failed.reason, NOTHING: Impossible.reason}


def router(service: Service, desk: Desk) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/api/v1", tags=["seq2see"])
    _translation(routes, service, desk)
    _streaming(routes, service, desk)
    _explanation(routes, service, desk)
    add_model_routes(routes, service)
    add_run_routes(routes, service)
    _lab(routes, service, desk)
    return routes


def _translation(routes: APIRouter, service: Service, desk: Desk) -> None:
    @routes.post(
        "/translate",
        summary="Translate texts, and tell all that is known about each.",
        responses=openapi.answers(
            openapi.table(translations=openapi.listed(_TRANSLATION)), *openapi.WORK
        ),
        openapi_extra=openapi.body(
            openapi.config_schema(TranslateRequest), _JSON, _example(service, alignment=True)
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
        responses=openapi.answers(_EVENT, *openapi.WORK, kind="text/event-stream"),
        openapi_extra=openapi.body(
            openapi.config_schema(TranslateRequest), _JSON, _example(service)
        ),
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

        return await responses.answer(request, client, desk, work)


def _explanation(routes: APIRouter, service: Service, desk: Desk) -> None:
    limits = service.config.limits

    @routes.post(
        "/explain",
        summary="Translate a sentence, and show how it came about.",
        responses=openapi.answers({"type": "object"}, *openapi.WORK),
        openapi_extra=openapi.body(
            openapi.config_schema(ExplainRequest), _JSON, _example(service, beam_size=2)
        ),
    )
    async def explain(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await requests.config(request, ExplainRequest)
        _refuse_long(wanted.text + (wanted.translation or ""), limits)
        if max(wanted.beam_size or 1, wanted.n_best) > limits.beam_size:
            raise Invalid(f"Invalid request: `beam_size` must be at most {limits.beam_size}")
        trace = await desk.work(request, client, lambda call: service.explain(call, wanted))
        return Response(trace, media_type="application/json")

    @routes.post(
        "/heads",
        summary="Tell how much a preference for one of two translations owes to each head.",
        responses=openapi.answers(
            openapi.table(preference=openapi.NUMBER, removals=openapi.listed({"type": "object"})),
            *openapi.WORK,
        ),
        openapi_extra=openapi.body(
            openapi.config_schema(HeadsRequest), _JSON, _example(service, one="a", other="b")
        ),
    )
    async def heads(request: Request) -> Response:
        client = desk.admit(request, None)
        wanted = await requests.config(request, HeadsRequest)
        _refuse_long(wanted.text + max(wanted.one, wanted.other, key=len), limits)
        found = await desk.work(request, client, lambda call: service.heads(call, wanted))
        return Json(found.model_dump())


def _refuse_long(text: str, limits: LimitsConfig) -> None:
    if len(text) > limits.explain_characters:
        raise TooLong(
            f"Invalid request: a text that is explained has at most "
            f"{limits.explain_characters} characters"
        )


def _lab(routes: APIRouter, service: Service, desk: Desk) -> None:
    config = service.config
    laboratory = Laboratory()
    may_run = config.is_private or service.keys.required

    @routes.get(
        "/lab",
        summary="List the experiments of the lab: what each claims and predicts.",
        responses=openapi.answers(
            openapi.table(
                experiments=openapi.listed({"type": "object"}),
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
        responses=openapi.answers({"type": "object"}, 404, *openapi.WORK),
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
    wanted = await requests.config(request, TranslateRequest)
    texts = wanted.texts
    requests.refuse_excess(texts, limits)
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
