"""Runs the work of each request in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from seq2see.serve.errors import Busy, Draining, Forbidden
from seq2see.serve.service import Service
from seq2see.serve.work_queue import Call

T = TypeVar("T")


_MARGIN = 0.95
"""The part of the deadline after which the engine's answer is too late to be sent in time."""


class Desk:
    """Takes requests in, so many at a time."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._limit = service.config.limits.requests
        self._threads = ThreadPoolExecutor(self._limit, thread_name_prefix="seq2see-request")
        self._in_flight = 0

    def admit(self, request: Request, key: str | None) -> str:
        """Return who asks, or refuse: by key, rate and state."""
        client = _address(request)
        try:
            owner = self.service.keys.owner(key or bearer(request))
        except Forbidden:  # who tries keys out has a rate, too
            self.service.rates.spend(client)
            raise
        rate = None
        if owner:
            client, rate = f"key {owner[0]}", owner[1].requests_per_minute
            request.state.note["key"] = owner[0]
        self.service.rates.spend(client, rate)
        if self.service.drains:
            raise Draining("the service is about to end")
        return client

    async def work(
        self, request: Request, client: str, work: Callable[[Call], T], seconds: float | None = None
    ) -> T:
        """Run something in a thread, for as long as the client waits."""
        if self._in_flight >= self._limit:
            wait = self.service.queue.estimated_wait()
            raise Busy("Slowdown: too many requests at the moment", max(1.0, wait / 2))
        limits = self.service.config.limits
        call = Call.within(_MARGIN * (seconds or limits.seconds), client)
        self._in_flight += 1
        watch = asyncio.create_task(_cancel_when_gone(request, call))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, call)
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            self._in_flight -= 1
            watch.cancel()

    def close(self) -> None:
        """End; nobody is waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _cancel_when_gone(request: Request, call: Call) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    call.cancel()


def bearer(request: Request) -> str | None:
    """Return the key of the header, as most interfaces have it."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else None


def require_key(request: Request, service: Service) -> None:
    """Refuse whoever has none, on a route that costs nothing and counts for no rate."""
    try:
        service.keys.owner(bearer(request) or request.query_params.get("api_key"))
    except Forbidden:
        request.state.note["reason"] = Forbidden.reason
        raise


def _address(request: Request) -> str:
    return f"address {request.client.host if request.client else ''}"
