"""Responses of server-sent events.

The response of a stream starts with the first event, so an error before it has its own HTTP status.
Each text event replaces the previous one: a slow client skips some, and nothing accumulates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from seq2see.serve.errors import (
    INTERNAL_ERROR_MESSAGE,
    ClientDisconnected,
    InternalError,
    ServiceError,
)
from seq2see.serve.request_translation import PartialTextCallback

StreamingFunction = Callable[[PartialTextCallback], Any]
"""Calls its argument with each partial text and returns the data of the last event."""


class StreamEvent(BaseModel):
    """An event of a stream; its data are JSON."""

    event: Literal["text", "done", "error"]
    data: str


def put_latest(queue: asyncio.Queue[str | None], text: str) -> None:
    """Replace the content of a queue: a slow reader gets the most recent text only."""
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(text)


async def create_event_response(request: Request, function: StreamingFunction) -> StreamingResponse:
    """Run a function in a thread and return a response that streams its texts as events.

    Raises:
        ServiceError: The function failed before its first text.
    """
    texts: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def report(text: str) -> None:  # called in the thread of the function
        loop.call_soon_threadsafe(put_latest, texts, text)

    task = asyncio.create_task(run_in_threadpool(function, report))
    task.add_done_callback(lambda _: texts.put_nowait(None))
    try:
        first = await texts.get()
        if task.done():
            task.result()  # raises if the function failed
    except BaseException:
        task.cancel()
        raise
    events = _stream_events(request, task, first, texts)
    return StreamingResponse(events, media_type="text/event-stream")


async def _stream_events(
    request: Request,
    task: asyncio.Task[Any],
    text: str | None,
    texts: asyncio.Queue[str | None],
) -> AsyncIterator[bytes]:
    try:
        while text is not None:
            yield _format_event("text", {"text": text})
            text = await texts.get()
        yield _format_event("done", await task)
    except ServiceError as error:
        request.state.log_fields["error_code"] = error.error_code
        yield _format_error(error)
    except asyncio.CancelledError:  # the status is already sent, so only the log can record it
        request.state.log_fields["error_code"] = ClientDisconnected.error_code
        raise
    except Exception:
        yield _format_error(InternalError(INTERNAL_ERROR_MESSAGE))
        raise  # for the log
    finally:
        task.cancel()


def _format_error(error: ServiceError) -> bytes:
    return _format_event("error", {"error": str(error), "error_code": error.error_code})


def _format_event(kind: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), to_json(data, inf_nan_mode="null"))
