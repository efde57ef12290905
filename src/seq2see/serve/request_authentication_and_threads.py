"""Runs the work of each request in a thread.

The event loop reads requests and sends responses; everything else is plain synchronous code, which
can be read and tested without asyncio. A thread mostly waits for the queue, which costs little. If
the client disconnects, the request's context is canceled, which wakes its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from seq2see.serve.errors import Forbidden, Overloaded, ShuttingDown
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext

T = TypeVar("T")

_DEADLINE_FRACTION = 0.95
"""Fraction of the time limit for the work itself; the rest is for sending the response."""


class AuthenticatedExecutor:
    """Authenticates requests and runs a limited number of them at the same time."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._max_requests = service.config.limits.concurrent_requests
        self._threads = ThreadPoolExecutor(self._max_requests, thread_name_prefix="seq2see-request")
        self._num_running = 0

    def authenticate(self, request: Request, api_key: str | None) -> str:
        """Return the client of a request, by its API key or else by its address.

        Args:
            request: The request; its Authorization header is used if `api_key` is None.
            api_key: Key from the body or the query.

        Raises:
            Forbidden: A key is required, but it is missing or wrong.
            RateLimited: The client has exceeded its rate. Requests with a wrong key count too.
            ShuttingDown: The service is shutting down.
        """
        client = _client_address(request)
        try:
            key = self.service.api_keys.find_key(api_key or read_bearer_token(request))
        except Forbidden:
            self.service.rate_limiter.check_rate(client)
            raise
        rate = None
        if key:
            client, rate = f"key {key[0]}", key[1].requests_per_minute
            request.state.log_fields["key"] = key[0]
        self.service.rate_limiter.check_rate(client, rate)
        if self.service.is_draining:
            raise ShuttingDown("the service is shutting down")
        return client

    async def execute(
        self,
        request: Request,
        client: str,
        function: Callable[[RequestContext], T],
        timeout: float | None = None,
    ) -> T:
        """Run a function in a thread and return its result.

        Args:
            request: The request; its context is canceled if the client disconnects.
            client: The result of `authenticate`.
            function: Called with the context of the request.
            timeout: Time limit in seconds; by default `limits.request_seconds`.

        Raises:
            Overloaded: Too many requests are running.
        """
        if self._num_running >= self._max_requests:
            wait = self.service.queue.estimate_wait()
            raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))
        limits = self.service.config.limits
        seconds = _DEADLINE_FRACTION * (timeout or limits.request_seconds)
        context = RequestContext.with_timeout(seconds, client)
        self._num_running += 1
        watcher = asyncio.create_task(_cancel_on_disconnect(request, context))
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, function, context
            )
        except asyncio.CancelledError:
            context.cancel()
            raise
        finally:
            self._num_running -= 1
            watcher.cancel()

    def close(self) -> None:
        """Stop accepting work; does not wait for running threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _cancel_on_disconnect(request: Request, context: RequestContext) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    context.cancel()


def read_bearer_token(request: Request) -> str | None:
    """Return the token of the header `Authorization: Bearer …`, or None."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def check_api_key(request: Request, service: Service) -> None:
    """Raise Forbidden if a key is required, but missing or wrong. Not rate-limited."""
    try:
        service.api_keys.find_key(read_bearer_token(request) or request.query_params.get("api_key"))
    except Forbidden:
        request.state.log_fields["error_code"] = Forbidden.error_code
        raise


def _client_address(request: Request) -> str:
    return f"address {request.client.host if request.client else ''}"
