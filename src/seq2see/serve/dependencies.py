"""The arguments that routes receive from FastAPI: the service, and the context of their request.

The event loop reads requests and sends responses; routes that work are plain functions, which
FastAPI runs in threads and which can be read and tested without asyncio. A thread mostly waits for
the queue, which costs little. If the client disconnects, the request's context is canceled, which
wakes its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from seq2see.serve.errors import Overloaded
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext

_DEADLINE_FRACTION = 0.95
"""Fraction of the time limit for the work itself; the rest is for sending the response."""


async def _get_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_get_service)]


@asynccontextmanager
async def open_context(
    request: Request, service: Service, time_limit: float | None = None
) -> AsyncIterator[RequestContext]:
    """Yield the context of an authenticated request whose body was read, and count the request.

    Args:
        request: The request. Its context is canceled if the client disconnects.
        service: The service.
        time_limit: Time limit in seconds; by default `limits.request_seconds`.

    Raises:
        Overloaded: Too many requests are active.
    """
    limits, active = service.config.limits, service.active_requests
    if len(active) >= limits.concurrent_requests:
        wait = service.queue.estimate_wait()
        raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))
    seconds = _DEADLINE_FRACTION * (time_limit or limits.request_seconds)
    context = RequestContext.with_timeout(seconds, request.state.client)
    active.add(context)
    watcher = asyncio.create_task(_cancel_on_disconnect(request, context))
    try:
        yield context
    finally:
        context.cancel()  # the event loop may have canceled the route, but not its thread
        active.discard(context)
        watcher.cancel()


async def _cancel_on_disconnect(request: Request, context: RequestContext) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    context.cancel()


async def _get_context(request: Request, service: ServiceDep) -> AsyncIterator[RequestContext]:
    async with open_context(request, service) as context:
        yield context


async def _get_file_context(request: Request, service: ServiceDep) -> AsyncIterator[RequestContext]:
    async with open_context(request, service, service.config.limits.file_seconds) as context:
        yield context


# With this scope, a client that is slow to read its response is no longer an active request.
ContextDep = Annotated[RequestContext, Depends(_get_context, scope="function")]
"""Context of a request; it comes after the argument that reads the body."""
FileContextDep = Annotated[RequestContext, Depends(_get_file_context, scope="function")]
"""The same with the time limit of file translations and lab experiments."""
