"""The ASGI application: routes, middleware and the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from seq2see import __version__
from seq2see.serve import api_v1_routes, libretranslate
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import (
    INTERNAL_ERROR_MESSAGE,
    BadRequest,
    InternalError,
    NotFound,
    ServiceError,
    encode_error,
)
from seq2see.serve.middleware import (
    AccessLogMiddleware,
    AsgiApp,
    BodyLimitMiddleware,
    HeadRequestMiddleware,
    HostCheckMiddleware,
    ResponseHeadersMiddleware,
)
from seq2see.serve.openapi import (
    STRING_SCHEMA,
    build_openapi,
    build_openapi_responses,
    object_schema,
    render_docs_page,
)
from seq2see.serve.request_authentication_and_threads import AuthenticatedExecutor
from seq2see.serve.service import Service
from seq2see.web import STATIC_DIRECTORY, build_single_page

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def create_app(service: Service) -> AsgiApp:
    """Return the complete ASGI application; it starts and closes the service."""
    app = HeadRequestMiddleware(create_fastapi_app(service))
    limited = BodyLimitMiddleware(app, service.config.limits)
    checked = HostCheckMiddleware(limited, list_allowed_hosts(service.config))
    return ResponseHeadersMiddleware(AccessLogMiddleware(checked, service.metrics, service.log))


def create_fastapi_app(service: Service) -> FastAPI:
    """Return the FastAPI application with all routes, without the middleware."""
    executor = AuthenticatedExecutor(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        executor.close()
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
    )
    app.include_router(libretranslate.create_router(service, executor))
    app.include_router(api_v1_routes.create_router(service, executor))
    _add_service_routes(app, service)
    _add_exception_handlers(app)
    app.router.routes.append(_PageMount(app.router.routes))
    return app


class _PageMount(Mount):
    """Serves the files of the web page at paths without a route.

    A known path with a wrong method must return 405, which a plain Mount would turn into 404.
    """

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        super().__init__("/", StaticFiles(directory=STATIC_DIRECTORY, html=True), name="page")
        self._routes = tuple(routes)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match unless a route has this path with another method."""
        if any(route.matches(scope)[0] is Match.PARTIAL for route in self._routes):
            return Match.NONE, {}
        return super().matches(scope)


def list_allowed_hosts(config: ServeConfig) -> list[str] | None:
    """Return the allowed values of the Host header; None allows all.

    A service on a public address allows all hosts, because it may have any name.
    """
    if not config.is_loopback:
        return None
    hosts = [config.host, f"[{config.host}]", *_LOOPBACK_HOSTS]
    return [*hosts, urlsplit(config.public_url).hostname or ""] if config.public_url else hosts


def _add_service_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/ready",
        summary="Return 200 if the service accepts new work, else 503.",
        responses=build_openapi_responses(object_schema(status=STRING_SCHEMA), 503),
    )
    async def ready() -> Response:
        if service.is_ready:
            return JSONResponse({"status": "ready"})
        status = "shutting_down" if service.is_draining else "stalled"
        message = f"the service is {status.replace('_', ' ')}"
        return JSONResponse({"status": status, "error": message}, 503)

    @app.get(
        "/spec",
        summary="Return the OpenAPI document.",
        responses=build_openapi_responses({"type": "object"}),
    )
    async def spec() -> Response:
        return JSONResponse(build_openapi(app))

    @app.get("/page.html", include_in_schema=False)
    async def page() -> Response:
        headers = {"Content-Disposition": "attachment"}  # the page inserts data and saves the file
        return HTMLResponse(build_single_page("main.js", "seq2see"), headers=headers)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        url = service.config.public_url or str(request.base_url)
        return HTMLResponse(render_docs_page(build_openapi(app), url))


def _add_exception_handlers(app: FastAPI) -> None:
    @app.exception_handler(ServiceError)
    async def handle_service_error(request: Request, error: ServiceError) -> Response:
        request.state.log_fields["error_code"] = error.error_code
        return Response(
            encode_error(error), error.status, error.headers, media_type="application/json"
        )

    @app.exception_handler(RequestValidationError)
    async def handle_validation_error(request: Request, error: RequestValidationError) -> Response:
        names = ", ".join(str(detail["loc"][-1]) for detail in error.errors())
        message = f"Invalid request: {names} cannot be read"
        return await handle_service_error(request, BadRequest(message))

    @app.exception_handler(HTTPException)
    async def handle_http_exception(request: Request, error: HTTPException) -> Response:
        is_missing = error.status_code == NotFound.status
        service_error = (NotFound if is_missing else BadRequest)(str(error.detail))
        service_error.status = error.status_code
        response = await handle_service_error(request, service_error)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def handle_unexpected_error(request: Request, _: Exception) -> Response:
        # AccessLogMiddleware logs the exception, which Starlette raises again.
        return await handle_service_error(request, InternalError(INTERNAL_ERROR_MESSAGE))
