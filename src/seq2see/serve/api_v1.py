"""Routes of /api/v1: translate, stream, explain, head ablation, contrast, lab."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from seq2see.explain.head_ablation import AblationResults
from seq2see.explain.sentence_contrast import SentenceContrast
from seq2see.serve.admission import AuthenticatedRoute
from seq2see.serve.config import LimitsConfig
from seq2see.serve.dependencies import ContextDep, FileContextDep, ServiceDep, StreamContextDep
from seq2see.serve.errors import BadRequest, Forbidden, LimitExceeded, TextTooLong
from seq2see.serve.event_stream import StreamEvent, create_event_response
from seq2see.serve.lab import describe_lab
from seq2see.serve.request_translation import PartialTextCallback
from seq2see.serve.requests import (
    ContrastRequest,
    ExplainRequest,
    HeadEffectsRequest,
    SearchParameters,
    TranslateRequest,
)
from seq2see.serve.service import RoutedTranslation, Service

router = APIRouter(prefix="/api/v1", tags=["seq2see"], route_class=AuthenticatedRoute)


def _example(**parameters: Any) -> dict[str, Any]:
    """Return the OpenAPI entry of an example; `build_openapi` inserts the languages."""
    media = {"example": {"text": "Hello world!", **parameters}}
    return {"requestBody": {"content": {"application/json": media}}}


@router.post(
    "/translate",
    summary="Translate texts; return scores, alignments and flags.",
    openapi_extra=_example(alignment=True),
)
def translate(
    request: Request, body: TranslateRequest, service: ServiceDep, context: ContextDep
) -> dict[str, list[RoutedTranslation]]:
    """Translate texts. Errors of the engine are reported per text."""
    _check_translate_request(request, body, service)
    options = body.to_options(service.config)
    translations = service.translate(
        context, body.texts, body.source, body.target, options, model=body.model
    )
    return {"translations": translations}


@router.post(
    "/stream",
    summary="Translate a text and stream partial results.",
    description="Server-sent events: `text` with the text so far, then `done` with the result "
    "of /api/v1/translate, or `error`. A slow client receives fewer `text` events.",
    responses={
        200: {"content": {"text/event-stream": {"schema": StreamEvent.model_json_schema()}}}
    },
    openapi_extra=_example(),
)
async def stream(
    request: Request, body: TranslateRequest, service: ServiceDep, context: StreamContextDep
) -> Response:
    """Translate a text and send what there is of it at every step."""
    _check_translate_request(request, body, service)
    if len(body.texts) != 1 or body.format != "text":
        raise BadRequest("Invalid request: to be streamed, `text` must be one plain text")
    options = body.to_options(service.config)

    def run(on_partial_text: PartialTextCallback) -> dict[str, Any]:
        return {"translations": [service.stream(context, body, options, on_partial_text)]}

    return await create_event_response(request, run)


@router.post(
    "/explain",
    summary="Translate a text and return the trace of the computation.",
    response_model=dict[str, Any],
    openapi_extra=_example(beam_size=2),
)
def explain(body: ExplainRequest, service: ServiceDep, context: ContextDep) -> Response:
    """Return a trace, which is JSON already."""
    limits = service.config.limits
    _check_explained_length(body.text + (body.translation or ""), limits)
    _check_beam_size(body, limits)
    return Response(service.explain(context, body), media_type="application/json")


@router.post(
    "/head-ablation",
    summary="Measure the effect of each attention head on a contrastive pair.",
    openapi_extra=_example(translation="a", contrastive_translation="b"),
)
def ablate_heads(
    body: HeadEffectsRequest, service: ServiceDep, context: ContextDep
) -> AblationResults:
    """Ablate each head in turn."""
    longest = max(body.translation, body.contrastive_translation, key=len)
    _check_explained_length(body.text + longest, service.config.limits)
    return service.ablate_heads(context, body)


@router.post(
    "/contrast",
    summary="Measure what decides between two words in the translations of two texts.",
    openapi_extra=_example(
        contrastive_text="Hello moon!", translation="a", contrastive_translation="b"
    ),
)
def contrast(body: ContrastRequest, service: ServiceDep, context: ContextDep) -> SentenceContrast:
    """Measure the effects of words and heads."""
    limits = service.config.limits
    _check_explained_length(body.text + body.translation, limits)
    _check_explained_length(body.contrastive_text + body.contrastive_translation, limits)
    return service.contrast_texts(context, body)


@router.get("/lab", summary="List the lab's experiments with their claims and predictions.")
def list_experiments(service: ServiceDep) -> dict[str, Any]:
    """Return the experiments with their topics, and whether they can be run."""
    return {**describe_lab(), "can_run": service.can_run_experiments}


@router.post(
    "/lab/{number}",
    summary="Run an experiment, which takes from a second to minutes.",
    description="Returns numbers, figures and the verdict for the body {}. One runs at a time. "
    "Available only on the local machine or with an API key.",
)
def run_experiment(number: int, service: ServiceDep, context: FileContextDep) -> dict[str, Any]:
    """Run an experiment in a subprocess."""
    if not service.can_run_experiments:
        raise Forbidden("experiments can be run only on the local machine or with an API key")
    return service.lab.run(context, number)


def _check_explained_length(text: str, limits: LimitsConfig) -> None:
    limit = limits.explain_characters
    if len(text) > limit:
        raise TextTooLong(f"an explained text must have at most {limit} characters", limit)


def _check_beam_size(parameters: SearchParameters, limits: LimitsConfig) -> None:
    if max(parameters.beam_size or 1, parameters.n_best) > limits.beam_size:
        raise LimitExceeded(f"`beam_size` must be at most {limits.beam_size}", limits.beam_size)


def _check_translate_request(request: Request, body: TranslateRequest, service: Service) -> None:
    limits = service.config.limits
    service.check_texts(body.texts)
    if body.n_best > (limit := limits.alternatives + 1):
        raise LimitExceeded(f"`n_best` must be at most {limit}", limit)
    _check_beam_size(body, limits)
    request.state.log_fields.update(texts=len(body.texts), characters=sum(map(len, body.texts)))
