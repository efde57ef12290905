"""ASGI middleware between the socket and the routes.

ResponseHeadersMiddleware  adds security and CORS headers
AccessLogMiddleware        counts and logs every response; returns errors as JSON
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2see.serve.errors import (
    INTERNAL_ERROR_MESSAGE,
    InternalError,
    ServiceError,
    StorageError,
)
from seq2see.serve.monitoring import JsonLog, ServiceMetrics

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_CORS_HEADERS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-max-age": "86400",
}
CORS_PATHS = (
    *("/translate", "/detect", "/languages", "/translate_file", "/health", "/spec"),
    "/frontend/settings",
)
"""LibreTranslate's routes, which pages of other sites may call, unlike /api/v1."""

_STORAGE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENOENT, errno.EROFS})


class AccessLogMiddleware:
    """Counts and logs every response, and returns errors as JSON.

    Routes add their own fields to the log line through `request.state.log_fields`.
    """

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, log: JsonLog) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request and log its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def send_and_record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        log_fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log_fields"] = log_fields
        # Routes answer HEAD like GET; the server still sees HEAD and leaves out the body.
        routed = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            await self._app(routed, receive, send_and_record_status)
        except Exception as exception:
            error = exception
            if not isinstance(error, ServiceError):
                self._log.write_exception("error", exception)
                error = _to_service_error(exception)
            log_fields["error_code"] = error.error_code
            if not status:
                response = Response(error.body, error.status, error.headers, "application/json")
                await response(scope, receive, send_and_record_status)
        finally:
            seconds = time.monotonic() - start
            route = getattr(routed.get("route"), "path", None) or "page"
            self._metrics.count_response(route, status, seconds)
            if error_code := log_fields.get("error_code"):
                self._metrics.errors.labels(error_code).inc()
            fields = {"method": scope["method"][:16], "route": route, "status": status}
            self._log.write("request", **fields, ms=round(seconds * 1000, 1), **log_fields)


def _to_service_error(error: Exception) -> ServiceError:
    """Return the error that the client receives instead of another exception."""
    if isinstance(error, OSError) and error.errno in _STORAGE_ERRNOS:
        return StorageError(f"a file cannot be stored: {os.strerror(error.errno)}")
    return InternalError(INTERNAL_ERROR_MESSAGE)


class ResponseHeadersMiddleware:
    """Adds security headers to every response, and CORS headers on LibreTranslate's routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request and add headers to its response; answer CORS preflight requests."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        allows_cors = path in CORS_PATHS or path.startswith("/download_file/")
        extra = {**_SECURITY_HEADERS, **(_CORS_HEADERS if allows_cors else {})}
        extra["cross-origin-resource-policy"] = "cross-origin" if allows_cors else "same-origin"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                added = [(k.encode(), v.encode()) for k, v in extra.items()]
                if b"cache-control" not in names:
                    # The files of the page have an ETag: browsers revalidate them.
                    revalidates = b"etag" in names and not allows_cors
                    added.append((b"cache-control", b"no-cache" if revalidates else b"no-store"))
                message["headers"] = [*message["headers"], *added]
            await send(message)

        if allows_cors and scope["method"] == "OPTIONS":  # preflight request
            await send_with_headers({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, send_with_headers)
