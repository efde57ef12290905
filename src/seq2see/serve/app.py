"""The ASGI application: routes, middleware, the web page, and the documentation at /docs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import escape
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from seq2see import __version__
from seq2see.errors import ConfigError, Seq2SeeError
from seq2see.serve import api_v1, inspection, libretranslate
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import BadRequest, ErrorBody, HttpError
from seq2see.serve.middleware import AccessLogMiddleware, ResponseHeadersMiddleware
from seq2see.serve.service import Service
from seq2see.web import STATIC_DIRECTORY, build_single_page

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request cannot be processed.", "model": ErrorBody},
    "5XX": {"description": "The service failed or is shutting down.", "model": ErrorBody},
}


def create_app(service: Service) -> FastAPI:
    """Return the complete ASGI application; it starts and closes the service."""
    config = service.config

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Each active request has a thread; the previous number remains for files and uploads.
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens += config.limits.concurrent_requests
        service.start()
        yield
        service.close()

    app = FastAPI(
        title="seq2see",
        version=__version__,
        summary="Translation with LibreTranslate's interface and with the interface of seq2see.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from a CDN
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=_ERROR_RESPONSES,
        middleware=[
            Middleware(ResponseHeadersMiddleware),
            Middleware(AccessLogMiddleware, service.metrics, service.log),
            Middleware(TrustedHostMiddleware, list_allowed_hosts(config), www_redirect=False),
        ],
    )
    app.state.service = service
    for router in (libretranslate.router, api_v1.router, inspection.router):
        app.include_router(router)
    _add_service_routes(app, service)
    _add_exception_handlers(app)
    app.frontend("/", directory=STATIC_DIRECTORY, fallback=None)
    return app


def list_allowed_hosts(config: ServeConfig) -> list[str]:
    """Return the allowed values of the Host header, against DNS rebinding; "*" allows all.

    In DNS rebinding a page of another site reaches a local service through a host name of its own.
    A service on a public address allows all hosts, because it may have any name.
    """
    if not config.is_loopback:
        return ["*"]
    hosts = [config.host, urlsplit(config.public_url or "").hostname or ""]
    return [*(f"[{host}]" if ":" in host else host for host in hosts), *_LOOPBACK_HOSTS]


def _add_service_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/ready",
        summary="Return 200 if the service accepts new work, else 503.",
        response_model=libretranslate.Status,
    )
    async def ready() -> Response:
        if service.is_ready:
            return JSONResponse({"status": "ready"})
        status = "shutting_down" if service.is_draining else "stalled"
        message = f"the service is {status.replace('_', ' ')}"
        return JSONResponse({"status": status, "error": message}, 503)

    def build_document() -> dict[str, Any]:
        model = service.models.first
        return build_openapi(app, model.source, model.target)

    @app.get("/spec", summary="Return the OpenAPI document.")
    async def spec() -> dict[str, Any]:
        return build_document()

    @app.get("/page.html", include_in_schema=False)
    async def page() -> HTMLResponse:
        headers = {"Content-Disposition": "attachment"}  # the page inserts data and saves the file
        return HTMLResponse(build_single_page("main.js", "seq2see"), headers=headers)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        url = service.config.public_url or str(request.base_url)
        return HTMLResponse(render_docs_page(build_document(), url))


def _add_exception_handlers(app: FastAPI) -> None:
    """Convert exceptions to service errors, which AccessLogMiddleware sends."""

    @app.exception_handler(RequestValidationError)
    async def convert_validation_error(request: Request, error: RequestValidationError) -> Response:
        if field := request.scope["route"].body_field:
            if not isinstance(error.body, dict):
                raise BadRequest("Invalid request: the body must be an object, as application/json")
            try:
                field.field_info.annotation.model_validate(error.body)
            except ConfigError as problems:
                raise BadRequest(f"Invalid request: {problems}") from None
        names = ", ".join(str(detail["loc"][-1]) for detail in error.errors())
        raise BadRequest(f"Invalid request: {names} cannot be read")

    @app.exception_handler(Seq2SeeError)
    async def convert_input_error(_: Request, error: Seq2SeeError) -> Response:
        raise BadRequest(f"Invalid request: {error}") from None

    @app.exception_handler(HTTPException)
    async def convert_http_exception(_: Request, error: HTTPException) -> Response:
        raise HttpError(error.status_code, str(error.detail), error.headers)


def build_openapi(app: FastAPI, source: str, target: str) -> dict[str, Any]:
    """Return the OpenAPI document; its examples use the given languages, so that they succeed."""
    document = app.openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                if "source" in _resolve(document, media["schema"])["properties"]:
                    media["example"] |= {"source": source, "target": target}
    return document


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema, or the one that it refers to."""
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return document["components"]["schemas"][name] if name else schema


def render_docs_page(document: dict[str, Any], url: str) -> str:
    """Return the HTML page at /docs, with a curl example per route.

    It has no script; FastAPI's own pages load scripts from a CDN.

    Args:
        document: The OpenAPI document.
        url: Base URL of the service in the examples.
    """
    routes = "".join(_render_routes(document, url.rstrip("/")))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="favicon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="css/docs.css">'
        f"<title>{title}</title></head><body><h1>{title}</h1>"
        f"<p>{escape(document['info'].get('summary', ''))} "
        f'Machine-readable: <a href="spec">OpenAPI</a>.</p>{routes}</body></html>'
    )


def _render_routes(document: dict[str, Any], url: str) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))} "
            yield f"{escape(operation.get('description', ''))}</p>"
            content = operation.get("requestBody", {}).get("content", {})
            if "{" not in path:
                yield f"<pre>{escape(_curl_command(url + path, content))}</pre>"
            for media in list(content.values())[:1]:  # the other media types have the same fields
                fields = _render_fields(_resolve(document, media["schema"]))
                yield f"<dl>{''.join(fields)}</dl>"


def _curl_command(url: str, content: dict[str, Any]) -> str:
    if form := content.get("multipart/form-data"):
        fields = {**form["example"], "file": "@letter.txt"}
        return " ".join([f"curl {url}", *(f"-F {name}={value}" for name, value in fields.items())])
    if not content:
        return f"curl {url}"
    example = content["application/json"]["example"]
    body = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
    return f"curl {url} \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _render_fields(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        suffix = " (required)" if name in required else ""
        yield f"<dt><code>{escape(name)}</code>{suffix}</dt>"
        yield f"<dd>{escape(field.get('description', ''))}</dd>"
