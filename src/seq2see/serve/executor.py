"""Runs the work of each request in a thread.

The event loop reads requests and sends responses; everything else is plain synchronous code, which
can be read and tested without asyncio. A thread mostly waits for the queue, which costs little. If
the client disconnects, the request's context is canceled, which wakes its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.requests import Request

from seq2see.serve.errors import Overloaded
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext

T = TypeVar("T")

_DEADLINE_FRACTION = 0.95
"""Fraction of the time limit for the work itself; the rest is for sending the response."""


class RequestExecutor:
    """Runs a limited number of requests at the same time."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._max_requests = service.config.limits.concurrent_requests
        self._threads = ThreadPoolExecutor(self._max_requests, thread_name_prefix="seq2see-request")
        self._num_running = 0

    async def execute(
        self,
        request: Request,
        function: Callable[[RequestContext], T],
        timeout: float | None = None,
    ) -> T:
        """Run a function in a thread and return its result.

        Args:
            request: An authenticated request whose body was read. Its context is canceled if the
                client disconnects.
            function: Called with the context of the request.
            timeout: Time limit in seconds; by default `limits.request_seconds`.

        Raises:
            Overloaded: Too many requests are running.
        """
        if self._num_running >= self._max_requests:
            wait = self.service.queue.estimate_wait()
            raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))
        seconds = timeout or self.service.config.limits.request_seconds
        context = RequestContext.with_timeout(_DEADLINE_FRACTION * seconds, request.state.client)
        self._num_running += 1
        watcher = asyncio.create_task(_cancel_on_disconnect(request, context))
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, function, context)
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


async def _get_executor(request: Request) -> RequestExecutor:
    executor: RequestExecutor = request.app.state.executor
    return executor


Executor = Annotated[RequestExecutor, Depends(_get_executor)]
"""Type of a route's argument that receives the executor, which has the service."""
