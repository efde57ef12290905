"""The ASGI application: routes, middleware and the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
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
from seq2see.serve import api, libretranslate, openapi
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import BUG, Bug, Invalid, NotFound, Problem, error_body
from seq2see.serve.executor import Desk
from seq2see.serve.middleware import App, Bodiless, Bounded, NamedHost, Recorded, Sealed
from seq2see.serve.openapi import build_openapi, render_docs_page
from seq2see.serve.service import Service

PAGE = Path(__file__).parent / "page"


_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def create_app(service: Service) -> App:
    """Return the application as a server runs it; the service starts and ends with it."""
    bounded = Bounded(Bodiless(routed(service)), service.config.limits)
    named = NamedHost(bounded, host_names(service.config))
    return Sealed(Recorded(named, service.metrics, service.journal))


def routed(service: Service) -> FastAPI:
    """Return the routes alone."""
    desk = Desk(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        desk.close()
        service.close()

    app = FastAPI(
        title="seq2see",
        version=__version__,
        summary="Translation by LibreTranslate's interface and by our own.",
        lifespan=lifespan,
        docs_url=None,  # both pages of FastAPI would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.include_router(libretranslate.router(service, desk))
    app.include_router(api.router(service, desk))
    _documents(app, service)
    _errors(app)
    app.router.routes.append(_Page(app.router.routes))
    return app


class _Page(Mount):
    """The page's files, where no route is: a route's path by another method is 405, not 404."""

    def __init__(self, others: Sequence[BaseRoute]) -> None:
        super().__init__("/", StaticFiles(directory=PAGE, html=True), name="page")
        self._others = tuple(others)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Take what the others leave."""
        if any(route.matches(scope)[0] is Match.PARTIAL for route in self._others):
            return Match.NONE, {}
        return super().matches(scope)


def host_names(config: ServeConfig) -> list[str] | None:
    """Return the names that the service answers to; None: to any, since others reach it too."""
    if not config.is_local:
        return None
    own = [config.host, f"[{config.host}]", *_LOOPBACK]
    return [*own, urlsplit(config.public_url).hostname or ""] if config.public_url else own


def _documents(app: FastAPI, service: Service) -> None:
    @app.get(
        "/ready",
        summary="Tell whether new work should be sent here.",
        responses=openapi.answers(openapi.table(status=openapi.TEXT), 503),
    )
    async def ready() -> Response:
        if service.is_ready:
            return JSONResponse({"status": "ready"})
        state = "draining" if service.drains else "stalled"
        return JSONResponse({"status": state, "error": f"the service is {state}"}, 503)

    @app.get("/spec", summary="This document.", responses=openapi.answers({"type": "object"}))
    async def document() -> Response:
        return JSONResponse(build_openapi(app))

    @app.get("/docs", include_in_schema=False)
    async def documentation(request: Request) -> Response:
        return HTMLResponse(
            render_docs_page(build_openapi(app), service.config.public_url or str(request.base_url))
        )


def _errors(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        request.state.note["reason"] = error.reason
        return Response(
            error_body(error), error.status, error.headers, media_type="application/json"
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        names = ", ".join(str(detail["loc"][-1]) for detail in error.errors())
        return await problem(request, Invalid(f"Invalid request: {names} cannot be read"))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        is_missing = error.status_code == NotFound.status
        told = (NotFound if is_missing else Invalid)(str(error.detail))
        told.status = error.status_code
        answer = await problem(request, told)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def bug(request: Request, _: Exception) -> Response:  # and `Recorded` writes it down
        return await problem(request, Bug(BUG))
