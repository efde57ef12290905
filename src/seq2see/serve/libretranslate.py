"""LibreTranslate's interface, so that its clients work with us unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from seq2see.serve import monitoring, openapi, requests
from seq2see.serve.errors import Failed, Forbidden, Invalid
from seq2see.serve.executor import Desk, require_key
from seq2see.serve.file_translation import disposition, safe_name
from seq2see.serve.queued_translator import ENGINE_FAILED
from seq2see.serve.service import Answer, Service, TranslatedFile
from seq2see.serve.text_translation import Manner
from seq2see.serve.work_queue import Call
from seq2see.text.language_detection import Guess
from seq2see.text.languages import name
from seq2see.translator import TranslationOptions

_FORMS = ("application/json", "application/x-www-form-urlencoded")
_FILE = "multipart/form-data"
_KEY = {**openapi.TEXT, "description": "If the service needs one."}
_LANGUAGE = openapi.table(confidence=openapi.NUMBER, language=openapi.TEXT)
_TRANSLATED = openapi.table(
    ["translatedText"],
    translatedText=openapi.either(openapi.TEXT, openapi.listed(openapi.TEXT)),
    detectedLanguage=openapi.either(_LANGUAGE, openapi.listed(_LANGUAGE)),
    alternatives=openapi.listed(openapi.either(openapi.TEXT, openapi.listed(openapi.TEXT))),
    via={**openapi.listed(openapi.TEXT), "description": "Languages that the text went through."},
)
_TRANSLATED_FILE = openapi.table(
    ["translatedFileUrl"],
    translatedFileUrl=openapi.TEXT,
    errors={
        **openapi.COUNT,
        "description": "Sentences that stayed as they were, if there are any.",
    },
)
_SETTINGS = openapi.table(
    apiKeys={"type": "boolean"},
    charLimit=openapi.NUMBER,
    filesTranslation={"type": "boolean"},
    frontendTimeout=openapi.NUMBER,
    keyRequired={"type": "boolean"},
    language={"type": "object"},
    suggestions={"type": "boolean"},
    supportedFilesFormat=openapi.listed(openapi.TEXT),
)


def router(service: Service, desk: Desk) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["LibreTranslate"])
    _texts(routes, service, desk)
    _files(routes, service, desk)
    _facts(routes, service)
    return routes


def _texts(routes: APIRouter, service: Service, desk: Desk) -> None:
    limits = service.config.limits
    source, target = _pair(service)

    @routes.post(
        "/translate",
        summary="Translate a text or a list of texts.",
        responses=openapi.answers(_TRANSLATED, *openapi.WORK),
        openapi_extra=openapi.body(
            openapi.table(
                ["q", "source", "target"],
                q=openapi.either(openapi.TEXT, openapi.listed(openapi.TEXT)),
                source={**openapi.TEXT, "description": "A code, or auto."},
                target=openapi.TEXT,
                format={"type": "string", "enum": ["text", "html"]},
                alternatives=openapi.COUNT,
                api_key=_KEY,
            ),
            _FORMS,
            {"q": "Hello world!", "source": source, "target": target},
        ),
    )
    async def translate(request: Request) -> Response:
        values = await requests.parameters(request, limits)
        client = desk.admit(request, requests.key(values))
        texts, many = requests.texts(values, limits)
        pair = requests.text(values, "source"), requests.text(values, "target")
        alternatives = requests.count(values, "alternatives", limits.alternatives)
        html = requests.choice(values, "format", ("text", "html")) == "html"
        manner = Manner(_options(service, alternatives), html)
        request.state.note.update(texts=len(texts), characters=sum(map(len, texts)))

        def work(call: Call) -> list[Answer]:
            return service.translate(call, texts, *pair, manner)

        found = await desk.work(request, client, work)
        return JSONResponse(_translated(found, many, alternatives))

    @routes.post(
        "/detect",
        summary="Tell the language of a text.",
        responses=openapi.answers(openapi.listed(_LANGUAGE), *openapi.WORK),
        openapi_extra=openapi.body(
            openapi.table(["q"], q=openapi.TEXT, api_key=_KEY), _FORMS, {"q": "Hello world!"}
        ),
    )
    async def detect(request: Request) -> Response:
        values = await requests.parameters(request, limits)
        client = desk.admit(request, requests.key(values))
        text = requests.text(values, "q")
        requests.refuse_excess([text], limits)
        guesses = await desk.work(request, client, lambda _: service.detect(text))
        return JSONResponse([_guess(guess) for guess in guesses])


def _files(routes: APIRouter, service: Service, desk: Desk) -> None:
    config = service.config
    source, target = _pair(service)

    @routes.post(
        "/translate_file",
        summary="Translate a file; the answer says where to fetch it.",
        responses=openapi.answers(_TRANSLATED_FILE, *openapi.WORK),
        openapi_extra=openapi.body(
            openapi.table(
                ["file", "source", "target"],
                file={"type": "string", "format": "binary"},
                source=openapi.TEXT,
                target=openapi.TEXT,
                api_key=_KEY,
            ),
            [_FILE],
            {"file": "Hello world!", "source": source, "target": target},
        ),
    )
    async def translate_file(request: Request) -> Response:
        values = await requests.parameters(request, config.limits)
        client = desk.admit(request, requests.key(values))
        if not config.files:
            raise Forbidden("Files translation are disabled on this server.")
        pair = requests.text(values, "source"), requests.text(values, "target")
        file = requests.upload(values)
        request.state.note.update(bytes=len(file.content))

        def work(call: Call) -> TranslatedFile:
            return service.translate_file(call, file.content, safe_name(file.name), *pair)

        found = await desk.work(request, client, work, config.limits.file_seconds)
        base = (config.public_url or str(request.base_url)).rstrip("/")
        body: dict[str, Any] = {"translatedFileUrl": f"{base}/download_file/{found.name}"}
        return JSONResponse({**body, "errors": found.errors} if found.errors else body)

    @routes.get(
        "/download_file/{name}",
        summary="Fetch a translated file, for some time.",
        responses=openapi.answers({}, 404, kind="application/octet-stream"),
    )
    async def download_file(name: str) -> Response:
        result = service.files.find(name)
        return FileResponse(
            result.path,
            media_type="application/octet-stream",
            headers={"content-disposition": disposition(result.shown_name)},
        )


def _facts(routes: APIRouter, service: Service) -> None:
    config = service.config

    @routes.get(
        "/languages",
        summary="List the languages, and what each can become.",
        responses=openapi.answers(
            openapi.listed(
                openapi.table(
                    code=openapi.TEXT, name=openapi.TEXT, targets=openapi.listed(openapi.TEXT)
                )
            )
        ),
    )
    async def languages() -> Response:
        models = service.models
        return JSONResponse(
            [
                {"code": code, "name": name(code), "targets": models.targets(code)}
                for code in models.languages
            ]
        )

    @routes.get(
        "/frontend/settings",
        summary="Tell a page what it may offer.",
        responses=openapi.answers(_SETTINGS),
    )
    async def settings() -> Response:
        source, target = _pair(service)
        return JSONResponse(
            {
                "apiKeys": service.keys.required,
                "charLimit": config.limits.characters,
                "filesTranslation": config.files,
                "frontendTimeout": 500,
                "keyRequired": service.keys.required,
                "language": {
                    "source": {"code": source, "name": name(source)},
                    "target": {"code": target, "name": name(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": service.file_suffixes,
            }
        )

    @routes.get(
        "/health",
        summary="Tell whether the process lives.",
        responses=openapi.answers(openapi.table(status=openapi.TEXT)),
    )
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @routes.get(
        "/metrics",
        summary="Numbers for Prometheus.",
        responses=openapi.answers(openapi.TEXT, kind="text/plain"),
    )
    async def numbers(request: Request) -> Response:
        require_key(request, service)
        return Response(service.metrics.text(), media_type=monitoring.CONTENT_TYPE)


def _pair(service: Service) -> tuple[str, str]:
    first = next(iter(service.models))
    return first.source, first.target


def _options(service: Service, alternatives: int) -> TranslationOptions:
    beam_size = max(service.config.beam_size, alternatives + 1)
    search = {"beam_size": beam_size, "n_best": alternatives + 1}
    return TranslationOptions(split="always").changed(search)


def _translated(answers: Sequence[Answer], many: bool, alternatives: int) -> dict[str, Any]:
    """Return the answer; with a list, each part is a list."""
    for answer in answers:
        if answer.translation.error == ENGINE_FAILED:
            raise Failed("Cannot translate text: the engine failed on it")
        if answer.translation.error:
            raise Invalid(f"Cannot translate text: {answer.translation.error}")
    body: dict[str, list[Any]] = {"translatedText": [a.translation.text for a in answers]}
    if all(answer.detected for answer in answers):
        body["detectedLanguage"] = [_guess(a.detected) for a in answers if a.detected]
    if alternatives:
        body["alternatives"] = [[o.text for o in a.translation.alternatives] for a in answers]
    result: dict[str, Any] = body if many else {key: value[0] for key, value in body.items()}
    if via := list(dict.fromkeys(code for answer in answers for code in answer.route.via)):
        result["via"] = via
    return result


def _guess(guess: Guess) -> dict[str, Any]:
    return {"confidence": round(100 * guess.confidence, 1), "language": guess.language}
