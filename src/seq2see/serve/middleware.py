"""ASGI middleware between the socket and the routes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import BUG, Bug, Invalid, Problem, Slow, TooLarge, error_body
from seq2see.serve.monitoring import Journal, Metrics

Scope = MutableMapping[str, Any]


Message = MutableMapping[str, Any]


Receive = Callable[[], Awaitable[Message]]


Send = Callable[[Message], Awaitable[None]]


App = Callable[[Scope, Receive, Send], Awaitable[None]]


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


_SECURITY = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


_OPEN = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-max-age": "86400",
}


OPEN_PATHS = (
    *("/translate", "/detect", "/languages", "/translate_file", "/health", "/spec"),
    "/frontend/settings",
)
"""LibreTranslate's routes, which pages of others may call; our own are for our own page."""


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?")


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with an error from where there are no routes."""
    headers = {"content-type": "application/json", **problem.headers}
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": error_body(problem)})


class Recorded:
    """See the module."""

    def __init__(self, app: App, metrics: Metrics, journal: Journal) -> None:
        self._app, self._metrics, self._journal = app, metrics, journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope.setdefault("state", {})["note"] = note = {}
        try:
            await self._app(scope, receive, noting)
        except Problem as problem:
            note["reason"] = problem.reason
            if not status:
                await send_problem(noting, problem)
        except Exception as error:  # the last net
            self._journal.error("error", error)
            note["reason"] = Bug.reason
            if not status:
                await send_problem(noting, Bug(BUG))
        finally:
            self._finish(scope, note, status, time.monotonic() - start)

    def _finish(self, scope: Scope, note: dict[str, Any], status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "page"
        self._metrics.answered(route, status, seconds)
        if reason := note.get("reason"):
            self._metrics.refused(reason)
        self._journal.write(
            "request",
            method=scope["method"][:16],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            **note,
        )


class Sealed:
    """See the module."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        is_open = path in OPEN_PATHS or path.startswith("/download_file/")
        extra = {**_SECURITY, **(_OPEN if is_open else {})}
        extra["cross-origin-resource-policy"] = "cross-origin" if is_open else "same-origin"

        async def sealing(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in extra.items()]
                if b"cache-control" not in given:
                    keeps = b"etag" in given and not is_open  # the page: ask before using it again
                    more.append((b"cache-control", b"no-cache" if keeps else b"no-store"))
                message["headers"] = [*message["headers"], *more]
            await send(message)

        if is_open and scope["method"] == "OPTIONS":  # a browser asks before it sends JSON
            await sealing({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, sealing)


class NamedHost:
    """See the module."""

    def __init__(self, app: App, names: Iterable[str] | None) -> None:
        self._app = app
        self._names = None if names is None else {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            self._check([value for name, value in scope["headers"] if name == b"host"])
        await self._app(scope, receive, send)

    def _check(self, given: list[bytes]) -> None:
        text = given[0].decode("latin-1") if len(given) == 1 else ""
        found = _HOST.fullmatch(text)
        if not found:
            raise Invalid("Invalid request: the header Host is no name of a host")
        if self._names is not None and found[1].lower() not in self._names:
            raise Invalid("Invalid request: unknown host; the operator can name it by --public-url")


class Bodiless:
    """See the module."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def silent(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            await send({**message, "body": b""} if is_body else message)

        # The server and the log go on to see HEAD.
        inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, silent)
        finally:
            scope["route"] = inner.get("route")


class Bounded:
    """See the module."""

    def __init__(self, app: App, limits: LimitsConfig) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, seconds = self._allowed(scope["path"])
        stated = next((v for n, v in scope["headers"] if n == b"content-length"), b"0")
        if not stated.isdigit() or int(stated) > limit:
            raise TooLarge(f"Invalid request: the body must be at most {limit} bytes")
        end = asyncio.get_running_loop().time() + seconds
        size, complete = 0, False

        async def counting() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise Slow("the request did not come in time") from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > limit:
                raise TooLarge(f"Invalid request: the body must be at most {limit} bytes")
            return message

        await self._app(scope, counting, send)

    def _allowed(self, path: str) -> tuple[int, float]:
        """Return the bytes and the seconds that a body may take."""
        limits = self._limits
        if path == "/translate_file":
            return limits.file_bytes + limits.body_bytes, limits.file_seconds
        return limits.body_bytes, limits.seconds
