"""The arguments that routes receive from FastAPI: the service, and the context of their request.

The event loop reads requests and sends responses; routes that work are plain functions, which
FastAPI runs in threads and which can be read and tested without asyncio. A thread mostly waits for
the queue, which costs little. If the client disconnects, the request's context is canceled, which
wakes its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

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


def _depend_on_context(
    time_limit: Literal["request_seconds", "file_seconds"], scope: Literal["function", "request"]
) -> Any:
    """Return a dependency that yields the context of an authenticated request.

    The request is counted, and its context is canceled if the client disconnects. The argument of
    the route must come after the one that reads the body.

    Args:
        time_limit: Name of the limit of the request's time.
        scope: Until when the request is active: the end of the route, or that of the response.
    """

    async def open_context(request: Request, service: ServiceDep) -> AsyncIterator[RequestContext]:
        limits, active = service.config.limits, service.active_requests
        if len(active) >= limits.concurrent_requests:
            wait = service.queue.estimate_wait()
            raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))
        seconds = _DEADLINE_FRACTION * getattr(limits, time_limit)
        context = RequestContext.with_timeout(seconds, request.state.client)
        active.add(context)
        watcher = asyncio.create_task(_cancel_on_disconnect(request, context))
        try:
            yield context
        finally:
            context.cancel()  # the event loop may have canceled the route, but not its thread
            active.discard(context)
            watcher.cancel()

    return Depends(open_context, scope=scope)


async def _cancel_on_disconnect(request: Request, context: RequestContext) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    context.cancel()


# Unless it streams, a client that is slow to read its response is no longer an active request.
ContextDep = Annotated[RequestContext, _depend_on_context("request_seconds", "function")]
FileContextDep = Annotated[RequestContext, _depend_on_context("file_seconds", "function")]
StreamContextDep = Annotated[RequestContext, _depend_on_context("request_seconds", "request")]
