"""LibreTranslate's routes, compatible with its clients.

Its clients send parameters as JSON, as a form or in the query. The messages of errors that
LibreTranslate also has are its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, UploadFile
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse

from seq2see.registries import DOCUMENT_EXTENSIONS
from seq2see.serve.admission import (
    LibreTranslateRoute,
    authenticate,
    is_multipart,
    read_media_type,
)
from seq2see.serve.dependencies import ContextDep, FileContextDep, ServiceDep
from seq2see.serve.errors import BadRequest, EngineError, Forbidden, LimitExceeded
from seq2see.serve.request_translation import TextTranslationOptions
from seq2see.serve.service import RoutedTranslation
from seq2see.serve.uploaded_file_translation import sanitize_filename
from seq2see.text.language_detection import DetectedLanguage
from seq2see.text.languages import language_name
from seq2see.translator import TranslationOptions

_MAX_FIELDS = 20
"""Largest number of fields in a form or a query."""
_TEXT_MEDIA_TYPES = ("application/json", "application/x-www-form-urlencoded")


class _Model(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


def _check_unicode(text: str) -> str:
    text.encode()  # raises a ValueError if it has an unpaired surrogate
    return text


Text = Annotated[str, AfterValidator(_check_unicode)]


class DetectForm(_Model):
    """Parameters of /detect."""

    q: Text
    """Text whose language is detected."""
    api_key: str | None = None
    """Required if the service has API keys."""


class TranslateForm(_Model):
    """Parameters of /translate."""

    q: Text | list[Text]
    """A text, or a list of texts."""
    source: Text
    """Language code, or auto to detect it."""
    target: Text
    """Language code of the translation."""
    format: Literal["text", "html"] = "text"
    """Format of the texts."""
    alternatives: int = Field(default=0, ge=0)
    """Number of alternative translations per text."""
    api_key: str | None = None
    """Required if the service has API keys."""


class TranslateFileForm(_Model):
    """Parameters of /translate_file."""

    file: UploadFile
    """The file, in one of the formats of `supportedFilesFormat`."""
    source: Text
    """Language code, or auto to detect it."""
    target: Text
    """Language code of the translation."""
    api_key: str | None = None
    """Required if the service has API keys."""


class LanguageConfidence(_Model):
    """A detected language."""

    confidence: float
    language: str


class TranslateResponse(_Model):
    """Translation of a text; for a list of texts each field except `via` is a list."""

    translatedText: str | list[str]
    detectedLanguage: LanguageConfidence | list[LanguageConfidence] | None = None
    alternatives: list[str] | list[list[str]] | None = None
    via: list[str] | None = None
    """Pivot languages of the translation."""


class TranslateFileResponse(_Model):
    """URL of a translated file."""

    translatedFileUrl: str
    errors: int | None = None
    """Number of sentences that could not be translated, if any."""


class Language(_Model):
    """A language and the languages that it can be translated to."""

    code: str
    name: str
    targets: list[str]


class Status(_Model):
    """State of the service."""

    status: str


FormModel = TypeVar("FormModel", bound=_Model)


async def _read_parameters(request: Request, service: ServiceDep) -> AsyncIterator[dict[str, Any]]:
    """Read the parameters and check the API key, which may be one of them."""
    try:
        parameters: dict[str, Any] = dict(_parse_query(request.scope["query_string"]))
        media_type = read_media_type(request)
        if media_type == "application/json":
            parameters |= _parse_json(await request.body())
        elif media_type == "application/x-www-form-urlencoded":
            parameters |= _parse_query(await request.body())
        elif is_multipart(request):
            parameters |= await _read_form(request, service.config.limits.body_bytes)
        key = parameters.get("api_key")
        authenticate(request, service, key if isinstance(key, str) else None)
        yield parameters
    finally:
        await request.close()  # deletes uploaded files


Parameters = Annotated[dict[str, Any], Depends(_read_parameters)]


def _parse_json(body: bytes) -> Parameters:
    try:
        # `float`, because Python does not convert integers of more than 4,300 digits.
        data = json.loads(body, parse_int=float)
    except (ValueError, RecursionError):
        raise BadRequest("Invalid request: the body is not JSON") from None
    if not isinstance(data, dict):
        raise BadRequest("Invalid request: the JSON must be an object")
    return data


def _parse_query(encoded: bytes) -> dict[str, str]:
    """Return the fields of a query or of a URL-encoded form."""
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise BadRequest("Invalid request: the form or the query must be UTF-8") from None
    except ValueError:
        raise BadRequest("Invalid request: the form or the query cannot be read") from None
    return dict(pairs)


async def _read_form(request: Request, max_part_size: int) -> Parameters:
    # Starlette decodes fields by any codec of Python, of which some take quadratic time.
    _, options = parse_options_header(request.headers["content-type"])
    if options.get(b"charset", b"utf-8").lower() not in {b"utf-8", b"utf8"}:
        raise BadRequest("Invalid request: the form or the query must be UTF-8")
    try:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=max_part_size)
    except (HTTPException, ValueError):  # a field is too long, or the boundary is invalid
        raise BadRequest("Invalid request: the form cannot be read") from None
    return dict(form)


def _parse_form(form: type[FormModel], parameters: Mapping[str, Any]) -> FormModel:
    """Return the parameters as a form; raises BadRequest with LibreTranslate's message."""
    given = {name: each for name, each in parameters.items() if each not in (None, "", [])}
    try:
        return form.model_validate(given)
    except ValidationError as error:
        name, value = str(error.errors()[0]["loc"][0]), error.errors()[0]["input"]
        kinds = {each["type"] for each in error.errors() if each["loc"][0] == name}
        if "missing" in kinds or name == "file":
            message = f"missing {name} parameter"
        elif "value_error" in kinds:
            message = f"{name} is not valid Unicode"
        elif "literal_error" in kinds:
            shown = value[:40] if isinstance(value, str) else "this"
            raise BadRequest(f"{shown} {name} is not supported") from None
        elif name == "alternatives":
            message = "alternatives must be a number of at least 0"
        else:
            is_text = name == "q" and form is TranslateForm
            message = f"{name} must be a string{' or a list of strings' if is_text else ''}"
        raise BadRequest(f"Invalid request: {message}") from None


def _request_body(
    form: type[_Model], media_types: Iterable[str], example: dict[str, str]
) -> dict[str, Any]:
    """Return the OpenAPI entry of a body that the route reads itself."""
    media = {"schema": form.model_json_schema(), "example": example}
    return {"requestBody": {"required": True, "content": dict.fromkeys(media_types, media)}}


router = APIRouter(tags=["LibreTranslate"], route_class=LibreTranslateRoute)


@router.post(
    "/translate",
    summary="Translate a text or a list of texts.",
    response_model_exclude_none=True,
    openapi_extra=_request_body(TranslateForm, _TEXT_MEDIA_TYPES, {"q": "Hello world!"}),
)
def translate(
    request: Request, parameters: Parameters, service: ServiceDep, context: ContextDep
) -> TranslateResponse:
    """Translate texts as LibreTranslate does."""
    limits = service.config.limits
    form = _parse_form(TranslateForm, parameters)
    texts = form.q if isinstance(form.q, list) else [form.q]
    service.check_texts(texts)
    if form.alternatives > limits.alternatives:
        raise LimitExceeded(
            f"alternatives ({form.alternatives}) exceeds limit ({limits.alternatives})",
            limits.alternatives,
        )
    n_best = form.alternatives + 1
    search = {"beam_size": max(service.config.beam_size, n_best), "n_best": n_best}
    options = TextTranslationOptions(
        TranslationOptions().with_settings(search), form.format == "html"
    )
    request.state.log_fields.update(texts=len(texts), characters=sum(map(len, texts)))
    results = service.translate(context, texts, form.source, form.target, options)
    return _build_response(results, isinstance(form.q, list), form.alternatives)


@router.post(
    "/detect",
    summary="Detect the language of a text.",
    openapi_extra=_request_body(DetectForm, _TEXT_MEDIA_TYPES, {"q": "Hello world!"}),
)
def detect(parameters: Parameters, service: ServiceDep, _: ContextDep) -> list[LanguageConfidence]:
    """Return the possible languages of a text, most likely first."""
    text = _parse_form(DetectForm, parameters).q
    service.check_texts([text])
    return [_format_language(each) for each in service.detect_languages(text)]


@router.post(
    "/translate_file",
    summary="Translate a file and return the URL of the result.",
    response_model_exclude_none=True,
    openapi_extra=_request_body(
        TranslateFileForm, ["multipart/form-data"], {"file": "Hello world!"}
    ),
)
def translate_file(
    request: Request, parameters: Parameters, service: ServiceDep, context: FileContextDep
) -> TranslateFileResponse:
    """Translate an uploaded file and store the result."""
    config = service.config
    if not config.files:
        raise Forbidden("Files translation are disabled on this server.")
    form = _parse_form(TranslateFileForm, parameters)
    name = sanitize_filename(form.file.filename) if form.file.filename else ""
    request.state.log_fields.update(bytes=form.file.size)
    download_name, num_errors = service.translate_file(
        context, form.file.file, name, form.source, form.target
    )
    base = (config.public_url or str(request.base_url)).rstrip("/")
    url = f"{base}/download_file/{download_name}"
    return TranslateFileResponse(translatedFileUrl=url, errors=num_errors or None)


@router.get(
    "/download_file/{name}",
    summary="Download a translated file, for a limited time.",
    response_class=FileResponse,
)
def download_file(name: str, service: ServiceDep) -> FileResponse:
    """Return a stored file. Not a coroutine, because it looks up files on disk."""
    stored = service.downloads.find(name)
    media_type = "application/octet-stream"
    return FileResponse(stored.path, media_type=media_type, filename=stored.filename)


@router.get("/languages", summary="List the languages and the possible targets of each.")
async def languages(service: ServiceDep) -> list[Language]:
    """Return the languages of the loaded models."""
    models = service.models
    return [
        Language(code=code, name=language_name(code), targets=models.find_targets(code))
        for code in models.languages
    ]


@router.get("/frontend/settings", summary="Return the settings that a page needs.")
async def settings(service: ServiceDep) -> dict[str, Any]:
    """Return the limits of the service and its default languages."""
    pair = {"source": service.models.first.source, "target": service.models.first.target}
    return {
        "apiKeys": service.api_keys.is_required,
        "charLimit": service.config.limits.characters,
        "filesTranslation": service.config.files,
        "frontendTimeout": 500,
        "keyRequired": service.api_keys.is_required,
        "language": {
            side: {"code": code, "name": language_name(code)} for side, code in pair.items()
        },
        "suggestions": False,
        "supportedFilesFormat": list(DOCUMENT_EXTENSIONS) if service.config.files else [],
    }


@router.get("/health", summary="Return 200 while the process is running.")
async def health() -> Status:
    """Return a constant."""
    return Status(status="ok")


def _build_response(
    results: Sequence[RoutedTranslation], is_list: bool, alternatives: int
) -> TranslateResponse:
    for result in results:
        if result.error_code == EngineError.error_code:
            raise EngineError("Cannot translate text: the engine failed on it")
        if result.error:
            raise BadRequest(f"Cannot translate text: {result.error}")
    fields: dict[str, list[Any]] = {"translatedText": [each.text for each in results]}
    detected = [each.detected for each in results if each.detected]
    if len(detected) == len(results):
        fields["detectedLanguage"] = [_format_language(language) for language in detected]
    if alternatives:
        fields["alternatives"] = [[other.text for other in each.alternatives] for each in results]
    body: dict[str, Any] = fields if is_list else {key: value[0] for key, value in fields.items()}
    via = list(dict.fromkeys(code for result in results for code in result.via))
    return TranslateResponse(**body, via=via or None)


def _format_language(language: DetectedLanguage) -> LanguageConfidence:
    confidence = round(100 * language.confidence, 1)
    return LanguageConfidence(confidence=confidence, language=language.language)
