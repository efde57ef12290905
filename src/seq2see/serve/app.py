"""The ASGI application: routes, middleware and the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from seq2see.serve.docs_page import build_openapi, render_docs_page
from seq2see.serve.errors import BadRequest, ErrorBody, HttpError
from seq2see.serve.middleware import (
    AccessLogMiddleware,
    BodyLimitMiddleware,
    ResponseHeadersMiddleware,
)
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
            Middleware(BodyLimitMiddleware, config.limits),
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
