"""Routes of /api/v1: translate, stream, explain, head ablation, lab."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from seq2see.errors import ConfigError
from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import (
    BadRequest,
    ConstraintsUnsatisfiable,
    EngineError,
    Forbidden,
    TextTooLong,
)
from seq2see.serve.json_and_event_responses import FiniteJSONResponse, create_event_response
from seq2see.serve.lab_experiment_runner import (
    LabExperimentRunner,
    list_lab_experiments,
    list_lab_note_subjects,
)
from seq2see.serve.layout_preserving_translation import TextTranslationOptions
from seq2see.serve.model_and_run_routes import add_model_routes, add_run_routes
from seq2see.serve.openapi import (
    ENGINE_ERROR_STATUSES,
    NUMBER_SCHEMA,
    STRING_SCHEMA,
    array_schema,
    build_inlined_schema,
    build_openapi_request_body,
    build_openapi_responses,
    object_schema,
    union_schema,
)
from seq2see.serve.queued_translator import ENGINE_FAILED_MESSAGE
from seq2see.serve.request_authentication_and_threads import AuthenticatedExecutor, check_api_key
from seq2see.serve.requests import (
    ExplainRequest,
    HeadEffectsRequest,
    TranslateRequest,
    check_text_limits,
    parse_body,
)
from seq2see.serve.service import RoutedTranslation, Service
from seq2see.serve.unbatched_queue_items import PartialTextCallback
from seq2see.serve.work_queue import RequestContext
from seq2see.translator import TranslationOptions
from seq2see.translator.result_builder import NO_TRANSLATION_MESSAGE

_TRANSLATION_SCHEMA = object_schema(
    text=STRING_SCHEMA,
    score=NUMBER_SCHEMA,
    log_prob=NUMBER_SCHEMA,
    alternatives=array_schema({"type": "object"}),
    tokens=array_schema({"type": "object"}),
    alignment=array_schema({"type": "object"}),
    flags=array_schema(STRING_SCHEMA),
    unmet_constraints=array_schema(STRING_SCHEMA),
    error=union_schema(STRING_SCHEMA, {"type": "null"}),
    error_code=union_schema(STRING_SCHEMA, {"type": "null"}),
    sentences=array_schema({"type": "object"}),
    num_tokens=NUMBER_SCHEMA,
    source=STRING_SCHEMA,
    target=STRING_SCHEMA,
    models=array_schema(STRING_SCHEMA),
    via=array_schema(STRING_SCHEMA),
    detected=union_schema({"type": "object"}, {"type": "null"}),
)
_EVENT_SCHEMA = object_schema(
    event={**STRING_SCHEMA, "enum": ["text", "done", "error"]}, data=STRING_SCHEMA
)
_JSON = ("application/json",)
_ERROR_CODES = {
    ENGINE_FAILED_MESSAGE: EngineError.error_code,
    NO_TRANSLATION_MESSAGE: ConstraintsUnsatisfiable.error_code,
}


def create_router(service: Service, executor: AuthenticatedExecutor) -> APIRouter:
    """Return the router of /api/v1."""
    router = APIRouter(prefix="/api/v1", tags=["seq2see"])
    _add_translation_route(router, service, executor)
    _add_streaming_route(router, service, executor)
    _add_explain_routes(router, service, executor)
    add_model_routes(router, service)
    add_run_routes(router, service)
    _add_lab_routes(router, service, executor)
    return router


def _add_translation_route(
    router: APIRouter, service: Service, executor: AuthenticatedExecutor
) -> None:
    @router.post(
        "/translate",
        summary="Translate texts; return scores, alignments and flags.",
        responses=build_openapi_responses(
            object_schema(translations=array_schema(_TRANSLATION_SCHEMA)), *ENGINE_ERROR_STATUSES
        ),
        openapi_extra=build_openapi_request_body(
            build_inlined_schema(TranslateRequest), _JSON, _example(service, alignment=True)
        ),
    )
    async def translate(request: Request) -> Response:
        client = executor.authenticate(request, None)
        body = await _read_translate_request(request, service)
        options = TextTranslationOptions(
            _translation_options(body, service), body.format == "html", body.keep_numbers
        )

        def run(context: RequestContext) -> list[RoutedTranslation]:
            return service.translate(
                context, body.texts, body.source, body.target, options, model=body.model
            )

        results = await executor.execute(request, client, run)
        return FiniteJSONResponse({"translations": [format_translation(each) for each in results]})


def _add_streaming_route(
    router: APIRouter, service: Service, executor: AuthenticatedExecutor
) -> None:
    @router.post(
        "/stream",
        summary="Translate a text and stream partial results.",
        description="Server-sent events: `text` with the text so far, then `done` with the result "
        "of /api/v1/translate, or `error`. A slow client receives fewer `text` events.",
        responses=build_openapi_responses(
            _EVENT_SCHEMA, *ENGINE_ERROR_STATUSES, media_type="text/event-stream"
        ),
        openapi_extra=build_openapi_request_body(
            build_inlined_schema(TranslateRequest), _JSON, _example(service)
        ),
    )
    async def stream(request: Request) -> Response:
        client = executor.authenticate(request, None)
        body = await _read_translate_request(request, service)
        if len(body.texts) != 1 or body.format != "text":
            raise BadRequest("Invalid request: to be streamed, `text` must be one plain text")
        text = body.texts[0]
        route = service.resolve_route(body.source, body.target, body.model, text)
        options = _translation_options(body, service)

        def run(context: RequestContext, on_partial_text: PartialTextCallback) -> dict[str, Any]:
            result = service.stream(context, text, route, options, on_partial_text)
            return {"translations": [format_translation(result)]}

        return await create_event_response(request, client, executor, run)


def _add_explain_routes(
    router: APIRouter, service: Service, executor: AuthenticatedExecutor
) -> None:
    limits = service.config.limits

    @router.post(
        "/explain",
        summary="Translate a text and return the trace of the computation.",
        responses=build_openapi_responses({"type": "object"}, *ENGINE_ERROR_STATUSES),
        openapi_extra=build_openapi_request_body(
            build_inlined_schema(ExplainRequest), _JSON, _example(service, beam_size=2)
        ),
    )
    async def explain(request: Request) -> Response:
        client = executor.authenticate(request, None)
        body = await parse_body(request, ExplainRequest)
        _check_explained_length(body.text + (body.translation or ""), limits)
        if max(body.beam_size or 1, body.n_best) > limits.beam_size:
            raise BadRequest(f"Invalid request: `beam_size` must be at most {limits.beam_size}")
        trace = await executor.execute(
            request, client, lambda context: service.explain(context, body)
        )
        return Response(trace, media_type="application/json")

    @router.post(
        "/head-ablation",
        summary="Measure the effect of each attention head on a contrastive pair.",
        responses=build_openapi_responses(
            object_schema(
                log_prob_difference=NUMBER_SCHEMA, ablations=array_schema({"type": "object"})
            ),
            *ENGINE_ERROR_STATUSES,
        ),
        openapi_extra=build_openapi_request_body(
            build_inlined_schema(HeadEffectsRequest),
            _JSON,
            _example(service, translation="a", contrastive_translation="b"),
        ),
    )
    async def ablate_heads(request: Request) -> Response:
        client = executor.authenticate(request, None)
        body = await parse_body(request, HeadEffectsRequest)
        longest = max(body.translation, body.contrastive_translation, key=len)
        _check_explained_length(body.text + longest, limits)
        result = await executor.execute(
            request, client, lambda context: service.ablate_heads(context, body)
        )
        return FiniteJSONResponse(result.model_dump())


def _check_explained_length(text: str, limits: LimitsConfig) -> None:
    if len(text) > limits.explain_characters:
        raise TextTooLong(
            f"Invalid request: an explained text must have at most "
            f"{limits.explain_characters} characters"
        )


def _add_lab_routes(router: APIRouter, service: Service, executor: AuthenticatedExecutor) -> None:
    config = service.config
    runner = LabExperimentRunner()
    can_run = config.is_local_only or service.api_keys.is_required

    @router.get(
        "/lab",
        summary="List the lab's experiments with their claims and predictions.",
        responses=build_openapi_responses(
            object_schema(
                experiments=array_schema({"type": "object"}),
                notes={"type": "object"},
                can_run={"type": "boolean"},
            )
        ),
    )
    def experiments(request: Request) -> Response:
        check_api_key(request, service)
        return FiniteJSONResponse(
            {
                "experiments": list_lab_experiments(),
                "notes": list_lab_note_subjects(),
                "can_run": can_run,
            }
        )

    @router.post(
        "/lab/{number}",
        summary="Run an experiment, which takes from a second to minutes.",
        description="Returns numbers, figures and the verdict. One experiment runs at a time. "
        "Available only on the local machine or with an API key.",
        responses=build_openapi_responses({"type": "object"}, 404, *ENGINE_ERROR_STATUSES),
    )
    async def run_experiment(number: int, request: Request) -> Response:
        client = executor.authenticate(request, None)
        if not can_run:
            raise Forbidden("experiments can be run only on the local machine or with an API key")

        def run(context: RequestContext) -> dict[str, Any]:
            return runner.run(context, number)

        result = await executor.execute(request, client, run, config.limits.file_seconds)
        return FiniteJSONResponse(result)


async def _read_translate_request(request: Request, service: Service) -> TranslateRequest:
    limits = service.config.limits
    body = await parse_body(request, TranslateRequest)
    check_text_limits(body.texts, limits)
    if body.n_best > limits.alternatives + 1:
        raise BadRequest(f"Invalid request: `n_best` must be at most {limits.alternatives + 1}")
    if (body.beam_size or 1) > limits.beam_size:
        raise BadRequest(f"Invalid request: `beam_size` must be at most {limits.beam_size}")
    request.state.log_fields.update(texts=len(body.texts), characters=sum(map(len, body.texts)))
    return body


def _translation_options(body: TranslateRequest, service: Service) -> TranslationOptions:
    try:
        return body.to_options(service.config)
    except ConfigError as error:
        raise BadRequest(f"Invalid request: {error}") from None


def format_translation(result: RoutedTranslation) -> dict[str, Any]:
    """Return a translation as a JSON record; an error has its error code."""
    route, error = result.route, result.translation.error
    return {
        **asdict(result.translation),
        "error_code": find_translation_error_code(error) if error else None,
        "source": route.source,
        "target": route.target,
        "models": [model.name for model in route.models],
        "via": route.via,
        "detected": asdict(result.detected) if result.detected else None,
    }


def find_translation_error_code(error: str) -> str:
    """Return the error code that belongs to the error message of a translation."""
    return _ERROR_CODES.get(error, BadRequest.error_code)


def _example(service: Service, **parameters: Any) -> dict[str, Any]:
    model = next(iter(service.models))
    return {"text": "Hello world!", "source": model.source, "target": model.target, **parameters}
