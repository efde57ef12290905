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
from starlette.requests import Request
from starlette.responses import StreamingResponse

from seq2see.serve.errors import (
    INTERNAL_ERROR_MESSAGE,
    ClientDisconnected,
    InternalError,
    ServiceError,
)
from seq2see.serve.executor import RequestExecutor
from seq2see.serve.partial_translation import PartialTextCallback
from seq2see.serve.work_queue import RequestContext

StreamingFunction = Callable[[RequestContext, PartialTextCallback], Any]
"""Calls its second argument with each partial text and returns the data of the last event."""


class StreamEvent(BaseModel):
    """An event of a stream; its data are JSON."""

    event: Literal["text", "done", "error"]
    data: str


class EventResponse(StreamingResponse):
    """A stream of server-sent events."""

    media_type = "text/event-stream"


class LatestText:
    """Holds the most recent text: set from any thread, read in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._text: str | None = None
        self._is_closed = False

    def set(self, text: str) -> None:
        """Replace the text. Thread-safe."""
        self._loop.call_soon_threadsafe(self._set, text)

    def close(self) -> None:
        """End the sequence of texts."""
        self._is_closed = True
        self._changed.set()

    async def wait(self) -> None:
        """Wait for a text or for the end."""
        while self._text is None and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()

    async def take(self) -> str | None:
        """Wait for a text, remove it and return it; None at the end."""
        await self.wait()
        text, self._text = self._text, None
        return text

    def _set(self, text: str) -> None:
        self._text = text
        self._changed.set()


async def create_event_response(
    request: Request, executor: RequestExecutor, function: StreamingFunction
) -> EventResponse:
    """Run a function in a thread and return a response that streams its texts as events.

    Raises:
        ServiceError: The function failed before its first text.
    """
    latest = LatestText()
    task = asyncio.create_task(
        executor.execute(request, lambda context: function(context, latest.set))
    )
    task.add_done_callback(lambda _: latest.close())
    try:
        await latest.wait()
        if task.done():
            task.result()  # raises if the function failed
    except BaseException:
        task.cancel()
        raise
    return EventResponse(_stream_events(request, task, latest))


async def _stream_events(
    request: Request, task: asyncio.Task[Any], latest: LatestText
) -> AsyncIterator[bytes]:
    try:
        while (text := await latest.take()) is not None:
            yield _format_event("text", {"text": text})
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
