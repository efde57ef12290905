"""Routes that accept or reject a request before they read its body.

They check in this order: the headers that state the size of the body, the origin, the API key, the
rate of the client, and how much of other bodies is in memory. A middleware of the application could
check the same, but runs before routing: a rejected request would have no route in the metrics.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from seq2see.serve.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    ClientDisconnected,
    Forbidden,
    LimitExceeded,
    Overloaded,
    ShuttingDown,
    Unauthorized,
)

if TYPE_CHECKING:
    from seq2see.serve.service import Service

MAX_KEYLESS_BODY_BYTES = 64_000
"""Size of a body that is read although its key, if any, is in the body."""
MIN_RESERVED_BYTES = 64_000
"""Memory of a connection that sends a body, however small."""
MAX_JSON_VALUES = 10_000
"""Values in the JSON of a request. A value of 3 bytes takes more than 60 bytes in memory."""
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_JSON_VALUE = re.compile(rb"[,:\[{]")
_RETRY_SECONDS = 1.0


class BufferedBodies:
    """Bounds the bytes of the bodies that are received at the same time."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0

    @contextmanager
    def reserve(self, num_bytes: int) -> Iterator[None]:
        """Reserve memory for a body within the `with` block.

        Raises:
            Overloaded: Other bodies take the memory.
        """
        num_bytes = max(num_bytes, MIN_RESERVED_BYTES)
        if self._num_bytes and self._num_bytes + num_bytes > self._max_bytes:
            raise Overloaded("Slowdown: too many uploads at the moment", _RETRY_SECONDS)
        self._num_bytes += num_bytes
        try:
            yield
        finally:
            self._num_bytes -= num_bytes


class AuthenticatedRoute(APIRoute):
    """A route that needs an API key in the header or the query, if the service has keys.

    Pages of other sites cannot make browsers send a POST request to it.
    """

    accepts_key_in_body = False
    """Whether it is a route of LibreTranslate, which pages of other sites may call."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request if it is accepted."""
        request = Request(scope)
        service: Service = request.app.state.service
        if request.method == "POST" and "POST" in (self.methods or ()):
            with self._accept_body(request, service) as max_bytes:
                received = await _receive_body(request, receive, max_bytes, service)
                await super().handle(scope, received, send)
        else:
            if not self.accepts_key_in_body:
                authenticate(request, service, find_key_outside_body(request))
            await super().handle(scope, receive, send)

    @contextmanager
    def _accept_body(self, request: Request, service: Service) -> Iterator[int]:
        """Reserve memory for the body and return its largest size in bytes."""
        max_bytes = _max_body_bytes(request, service)
        length = _read_content_length(request, max_bytes)
        key = find_key_outside_body(request)
        keyless: AbstractContextManager[None] = nullcontext()
        if key or not service.api_keys.is_required or not self.accepts_key_in_body:
            authenticate(request, service, key)
        else:
            service.rate_limiter.check_rate(_address(request), count=False)
            if length is not None and length > MAX_KEYLESS_BODY_BYTES:
                raise Unauthorized
            max_bytes = min(max_bytes, MAX_KEYLESS_BODY_BYTES)
            keyless = service.keyless_bodies.reserve(max_bytes if length is None else length)
        if not self.accepts_key_in_body:
            _check_sender(request, service)
        # Files count too: they are written to a temporary directory, which may be in memory.
        with keyless, service.bodies.reserve(max_bytes if length is None else length):
            yield max_bytes


class LibreTranslateRoute(AuthenticatedRoute):
    """A route that pages of other sites may call. The key of a POST request may be in its body."""

    accepts_key_in_body = True


def find_key_outside_body(request: Request) -> str | None:
    """Return the API key in the header or else in the query of a request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    is_bearer = scheme.lower() == "bearer"
    return token.strip() if is_bearer else request.query_params.get("api_key")


def authenticate(request: Request, service: Service, api_key: str | None) -> None:
    """Set `request.state.client` by the API key or else by the address, if it is not set yet.

    Raises:
        Forbidden: A key is required, but it is missing or wrong.
        RateLimited: The client has exceeded its rate. Only requests with the method POST count,
            also those with a wrong key.
        ShuttingDown: The service is shutting down, and the method is POST.
    """
    if hasattr(request.state, "client"):
        return
    is_post = request.method == "POST"
    client, rate = _address(request), None
    try:
        if match := service.api_keys.find_key(api_key):
            client, rate = f"key {match[0]}", match[1].requests_per_minute
            request.state.log_fields["key"] = match[0]
    finally:
        if is_post:
            service.rate_limiter.check_rate(client, rate)
    if is_post and service.is_draining:
        raise ShuttingDown("the service is shutting down")
    request.state.client = client


def is_multipart(request: Request) -> bool:
    """Return whether the body is a form that may contain files."""
    return read_media_type(request) == "multipart/form-data"


def read_media_type(request: Request) -> str:
    """Return the media type of the body."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _address(request: Request) -> str:
    return f"address {request.client.host if request.client else ''}"


def _max_body_bytes(request: Request, service: Service) -> int:
    limits = service.config.limits
    has_file = request.url.path == "/translate_file" and is_multipart(request)
    return limits.body_bytes + (limits.file_bytes if has_file else 0)


def _read_content_length(request: Request, max_bytes: int) -> int | None:
    """Return the size of the body that the header states, if any.

    Raises:
        BadRequest: The headers contradict each other, so that a proxy may read another body.
        BodyTooLarge: The size is invalid or too large.
    """
    lengths = request.headers.getlist("content-length")
    is_chunked = "transfer-encoding" in request.headers
    if len(lengths) + is_chunked > 1:
        raise BadRequest("Invalid request: Content-Length and Transfer-Encoding exclude each other")
    if not lengths:
        return None if is_chunked else 0
    length = lengths[0]
    if not (length.isascii() and length.isdigit()) or int(length) > max_bytes:
        raise BodyTooLarge(f"the body must be at most {max_bytes} bytes", max_bytes)
    return int(length)


def _check_sender(request: Request, service: Service) -> None:
    """Raise Forbidden if a browser sends the request for a page of another site.

    Raise BadRequest if the body is not JSON, which such pages cannot send without permission.
    """
    origin = request.headers.get("origin")
    own = {request.headers.get("host"), urlsplit(service.config.public_url or "").netloc or None}
    is_cross_site = request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}
    if is_cross_site or (origin is not None and (urlsplit(origin).netloc or "null") not in own):
        raise Forbidden("pages of other sites cannot use this route")
    if read_media_type(request) != "application/json":
        raise BadRequest("Invalid request: the body must be an object, as application/json")


async def _receive_body(
    request: Request, receive: Receive, max_bytes: int, service: Service
) -> Receive:
    """Return a function that receives the body, which has been read unless it may contain files."""
    limits = service.config.limits
    has_file = max_bytes > limits.body_bytes
    seconds = limits.file_seconds if has_file else limits.request_seconds
    bounded = _bound_body(receive, max_bytes, seconds)
    if is_multipart(request):
        return bounded
    body, is_complete = bytearray(), False
    while not is_complete:
        message = await bounded()
        body += message.get("body", b"")
        is_complete = not message.get("more_body", False)
    if read_media_type(request).endswith("json"):
        _check_num_json_values(body)
    messages: list[Message] = [{"type": "http.request", "body": bytes(body)}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _bound_body(receive: Receive, max_bytes: int, seconds: float) -> Receive:
    """Return a function that receives a body of limited size in limited time."""
    end = asyncio.get_running_loop().time() + seconds
    size, is_complete = 0, False

    async def receive_within_limits() -> Message:
        nonlocal size, is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise BodyTimeout(
                f"the request body did not arrive within {seconds:g} seconds"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected("client disconnected")
        size += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if size > max_bytes:
            if max_bytes == MAX_KEYLESS_BODY_BYTES:
                raise Unauthorized
            raise BodyTooLarge(f"the body must be at most {max_bytes} bytes", max_bytes)
        return message

    return receive_within_limits


def _check_num_json_values(body: bytearray) -> None:
    """Raise LimitExceeded if JSON has too many values, without parsing it."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_JSON_VALUES:
        num_values = sum(1 for _ in _JSON_VALUE.finditer(_JSON_STRING.sub(b"", body)))
        if num_values > MAX_JSON_VALUES:
            raise LimitExceeded(
                f"the JSON must have at most {MAX_JSON_VALUES:,} values, but has {num_values:,}",
                MAX_JSON_VALUES,
            )
