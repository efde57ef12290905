"""LibreTranslate's routes, compatible with its clients.

The messages of errors that LibreTranslate also has are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from seq2see.serve.errors import BadRequest, EngineError, Forbidden
from seq2see.serve.layout_preserving_translation import TextTranslationOptions
from seq2see.serve.log_and_metrics import METRICS_CONTENT_TYPE
from seq2see.serve.openapi import (
    COUNT_SCHEMA,
    ENGINE_ERROR_STATUSES,
    NUMBER_SCHEMA,
    STRING_SCHEMA,
    array_schema,
    build_openapi_request_body,
    build_openapi_responses,
    object_schema,
    union_schema,
)
from seq2see.serve.queued_translator import ENGINE_FAILED_MESSAGE
from seq2see.serve.request_authentication_and_threads import AuthenticatedExecutor, check_api_key
from seq2see.serve.requests import (
    check_text_limits,
    get_api_key_parameter,
    get_choice,
    get_required_string,
    get_texts_to_translate,
    get_uploaded_file,
    parse_count_parameter,
    read_parameters,
)
from seq2see.serve.service import RoutedTranslation, Service, TranslatedFileInfo
from seq2see.serve.uploaded_file_translation import format_content_disposition, sanitize_filename
from seq2see.serve.work_queue import RequestContext
from seq2see.text.language_detection import DetectedLanguage
from seq2see.text.languages import language_name
from seq2see.translator import TranslationOptions

_TEXT_MEDIA_TYPES = ("application/json", "application/x-www-form-urlencoded")
_FILE_MEDIA_TYPE = "multipart/form-data"
_API_KEY_SCHEMA = {**STRING_SCHEMA, "description": "Required if the service has API keys."}
_LANGUAGE_SCHEMA = object_schema(confidence=NUMBER_SCHEMA, language=STRING_SCHEMA)
_TRANSLATION_SCHEMA = object_schema(
    ["translatedText"],
    translatedText=union_schema(STRING_SCHEMA, array_schema(STRING_SCHEMA)),
    detectedLanguage=union_schema(_LANGUAGE_SCHEMA, array_schema(_LANGUAGE_SCHEMA)),
    alternatives=array_schema(union_schema(STRING_SCHEMA, array_schema(STRING_SCHEMA))),
    via={**array_schema(STRING_SCHEMA), "description": "Pivot languages of the translation."},
)
_FILE_SCHEMA = object_schema(
    ["translatedFileUrl"],
    translatedFileUrl=STRING_SCHEMA,
    errors={
        **COUNT_SCHEMA,
        "description": "Number of sentences that could not be translated, if any.",
    },
)
_SETTINGS_SCHEMA = object_schema(
    apiKeys={"type": "boolean"},
    charLimit=NUMBER_SCHEMA,
    filesTranslation={"type": "boolean"},
    frontendTimeout=NUMBER_SCHEMA,
    keyRequired={"type": "boolean"},
    language={"type": "object"},
    suggestions={"type": "boolean"},
    supportedFilesFormat=array_schema(STRING_SCHEMA),
)


def create_router(service: Service, executor: AuthenticatedExecutor) -> APIRouter:
    """Return the router of LibreTranslate's routes."""
    router = APIRouter(tags=["LibreTranslate"])
    _add_translate_route(router, service, executor)
    _add_detect_route(router, service, executor)
    _add_file_routes(router, service, executor)
    _add_information_routes(router, service)
    return router


def _add_translate_route(
    router: APIRouter, service: Service, executor: AuthenticatedExecutor
) -> None:
    limits = service.config.limits
    source, target = _first_language_pair(service)

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts.",
        responses=build_openapi_responses(_TRANSLATION_SCHEMA, *ENGINE_ERROR_STATUSES),
        openapi_extra=build_openapi_request_body(
            object_schema(
                ["q", "source", "target"],
                q=union_schema(STRING_SCHEMA, array_schema(STRING_SCHEMA)),
                source={**STRING_SCHEMA, "description": "Language code, or auto to detect it."},
                target=STRING_SCHEMA,
                format={"type": "string", "enum": ["text", "html"]},
                alternatives=COUNT_SCHEMA,
                api_key=_API_KEY_SCHEMA,
            ),
            _TEXT_MEDIA_TYPES,
            {"q": "Hello world!", "source": source, "target": target},
        ),
    )
    async def translate(request: Request) -> Response:
        parameters = await read_parameters(request, limits)
        client = executor.authenticate(request, get_api_key_parameter(parameters))
        texts, is_list = get_texts_to_translate(parameters, limits)
        source, target = (
            get_required_string(parameters, "source"),
            get_required_string(parameters, "target"),
        )
        alternatives = parse_count_parameter(parameters, "alternatives", limits.alternatives)
        is_html = get_choice(parameters, "format", ("text", "html")) == "html"
        options = TextTranslationOptions(_translation_options(service, alternatives), is_html)
        request.state.log_fields.update(texts=len(texts), characters=sum(map(len, texts)))

        def run(context: RequestContext) -> list[RoutedTranslation]:
            return service.translate(context, texts, source, target, options)

        results = await executor.execute(request, client, run)
        return JSONResponse(_format_translations(results, is_list, alternatives))


def _add_detect_route(router: APIRouter, service: Service, executor: AuthenticatedExecutor) -> None:
    limits = service.config.limits

    @router.post(
        "/detect",
        summary="Detect the language of a text.",
        responses=build_openapi_responses(array_schema(_LANGUAGE_SCHEMA), *ENGINE_ERROR_STATUSES),
        openapi_extra=build_openapi_request_body(
            object_schema(["q"], q=STRING_SCHEMA, api_key=_API_KEY_SCHEMA),
            _TEXT_MEDIA_TYPES,
            {"q": "Hello world!"},
        ),
    )
    async def detect(request: Request) -> Response:
        parameters = await read_parameters(request, limits)
        client = executor.authenticate(request, get_api_key_parameter(parameters))
        text = get_required_string(parameters, "q")
        check_text_limits([text], limits)
        languages = await executor.execute(
            request, client, lambda _: service.detect_languages(text)
        )
        return JSONResponse([_format_language(each) for each in languages])


def _add_file_routes(router: APIRouter, service: Service, executor: AuthenticatedExecutor) -> None:
    config = service.config
    source, target = _first_language_pair(service)

    @router.post(
        "/translate_file",
        summary="Translate a file and return the URL of the result.",
        responses=build_openapi_responses(_FILE_SCHEMA, *ENGINE_ERROR_STATUSES),
        openapi_extra=build_openapi_request_body(
            object_schema(
                ["file", "source", "target"],
                file={"type": "string", "format": "binary"},
                source=STRING_SCHEMA,
                target=STRING_SCHEMA,
                api_key=_API_KEY_SCHEMA,
            ),
            [_FILE_MEDIA_TYPE],
            {"file": "Hello world!", "source": source, "target": target},
        ),
    )
    async def translate_file(request: Request) -> Response:
        parameters = await read_parameters(request, config.limits)
        client = executor.authenticate(request, get_api_key_parameter(parameters))
        if not config.files:
            raise Forbidden("Files translation are disabled on this server.")
        source, target = (
            get_required_string(parameters, "source"),
            get_required_string(parameters, "target"),
        )
        file = get_uploaded_file(parameters)
        request.state.log_fields.update(bytes=len(file.content))

        def run(context: RequestContext) -> TranslatedFileInfo:
            filename = sanitize_filename(file.name)
            return service.translate_file(context, file.content, filename, source, target)

        result = await executor.execute(request, client, run, config.limits.file_seconds)
        base = (config.public_url or str(request.base_url)).rstrip("/")
        body: dict[str, Any] = {"translatedFileUrl": f"{base}/download_file/{result.download_name}"}
        return JSONResponse({**body, "errors": result.num_errors} if result.num_errors else body)

    @router.get(
        "/download_file/{name}",
        summary="Download a translated file, for a limited time.",
        responses=build_openapi_responses({}, 404, media_type="application/octet-stream"),
    )
    async def download_file(name: str) -> Response:
        stored = service.downloads.find(name)
        return FileResponse(
            stored.path,
            media_type="application/octet-stream",
            headers={"content-disposition": format_content_disposition(stored.filename)},
        )


def _add_information_routes(router: APIRouter, service: Service) -> None:
    @router.get(
        "/languages",
        summary="List the languages and the possible targets of each.",
        responses=build_openapi_responses(
            array_schema(
                object_schema(
                    code=STRING_SCHEMA, name=STRING_SCHEMA, targets=array_schema(STRING_SCHEMA)
                )
            )
        ),
    )
    async def languages() -> Response:
        models = service.models
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": models.find_targets(code)}
                for code in models.languages
            ]
        )

    @router.get(
        "/frontend/settings",
        summary="Return the settings that a page needs.",
        responses=build_openapi_responses(_SETTINGS_SCHEMA),
    )
    async def settings() -> Response:
        return JSONResponse(_format_settings(service))

    @router.get(
        "/health",
        summary="Return 200 while the process is running.",
        responses=build_openapi_responses(object_schema(status=STRING_SCHEMA)),
    )
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @router.get(
        "/metrics",
        summary="Return the metrics in the Prometheus text format.",
        responses=build_openapi_responses(STRING_SCHEMA, media_type="text/plain"),
    )
    async def metrics(request: Request) -> Response:
        check_api_key(request, service)
        return Response(service.metrics.render(), media_type=METRICS_CONTENT_TYPE)


def _format_settings(service: Service) -> dict[str, Any]:
    source, target = _first_language_pair(service)
    return {
        "apiKeys": service.api_keys.is_required,
        "charLimit": service.config.limits.characters,
        "filesTranslation": service.config.files,
        "frontendTimeout": 500,
        "keyRequired": service.api_keys.is_required,
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
        "suggestions": False,
        "supportedFilesFormat": service.file_extensions,
    }


def _first_language_pair(service: Service) -> tuple[str, str]:
    model = next(iter(service.models))
    return model.source, model.target


def _translation_options(service: Service, alternatives: int) -> TranslationOptions:
    beam_size = max(service.config.beam_size, alternatives + 1)
    search = {"beam_size": beam_size, "n_best": alternatives + 1}
    return TranslationOptions(split="always").with_settings(search)


def _format_translations(
    results: Sequence[RoutedTranslation], is_list: bool, alternatives: int
) -> dict[str, Any]:
    """Return the JSON body; for a list of texts each field except `via` is a list."""
    for result in results:
        if result.translation.error == ENGINE_FAILED_MESSAGE:
            raise EngineError("Cannot translate text: the engine failed on it")
        if result.translation.error:
            raise BadRequest(f"Cannot translate text: {result.translation.error}")
    fields: dict[str, list[Any]] = {"translatedText": [each.translation.text for each in results]}
    detected = [each.detected for each in results if each.detected]
    if len(detected) == len(results):
        fields["detectedLanguage"] = [_format_language(language) for language in detected]
    if alternatives:
        fields["alternatives"] = [
            [other.text for other in each.translation.alternatives] for each in results
        ]
    body: dict[str, Any] = fields if is_list else {key: value[0] for key, value in fields.items()}
    if via := list(dict.fromkeys(code for result in results for code in result.route.via)):
        body["via"] = via
    return body


def _format_language(language: DetectedLanguage) -> dict[str, Any]:
    return {"confidence": round(100 * language.confidence, 1), "language": language.language}
