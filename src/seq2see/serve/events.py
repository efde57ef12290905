"""Server-sent events: what a thread tells on its way, and what it returns in the end.

The answer begins with the first event, so that what is refused before has its own status. Each text
replaces the one before it: a client that reads slowly misses some, and nothing piles up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from seq2see.serve.desk import Desk
from seq2see.serve.guards import BUG
from seq2see.serve.problems import Bug, Gone, Problem
from seq2see.serve.responses import finite
from seq2see.serve.streaming import Emit
from seq2see.serve.tickets import Call

Work = Callable[[Call, Emit], dict[str, Any]]


class Latest:
    """A place for the newest text; written from any thread, read in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._text: str | None = None
        self._is_over = False

    def put(self, text: str) -> None:
        """Replace what is there."""
        self._loop.call_soon_threadsafe(self._set, text)

    def close(self) -> None:
        """Say that there will be no more."""
        self._is_over = True
        self._changed.set()

    async def wait(self) -> None:
        """Wait for a text or for the end."""
        while self._text is None and not self._is_over:
            self._changed.clear()
            await self._changed.wait()

    async def take(self) -> str | None:
        """Wait for a text, and take it; None at the end."""
        await self.wait()
        text, self._text = self._text, None
        return text

    def _set(self, text: str) -> None:
        self._text = text
        self._changed.set()


async def answer(request: Request, client: str, desk: Desk, work: Work) -> Response:
    """Run something in a thread, and return a response with what it emits, as events."""
    latest = Latest()
    task = asyncio.create_task(desk.work(request, client, lambda call: work(call, latest.put)))
    task.add_done_callback(lambda _: latest.close())
    try:
        await latest.wait()
        if task.done():
            task.result()  # or why there is none
    except BaseException:
        task.cancel()
        raise
    return StreamingResponse(_events(request, task, latest), media_type="text/event-stream")


async def _events(
    request: Request, task: asyncio.Task[dict[str, Any]], latest: Latest
) -> AsyncIterator[bytes]:
    try:
        while (text := await latest.take()) is not None:
            yield _event("text", {"text": text})
        yield _event("done", await task)
    except Problem as problem:
        request.state.note["reason"] = problem.reason
        yield _failure(problem)
    except asyncio.CancelledError:  # the status has been sent; the log can still tell
        request.state.note["reason"] = Gone.reason
        raise
    except Exception:
        yield _failure(Bug(BUG))
        raise  # for the log
    finally:
        task.cancel()


def _failure(problem: Problem) -> bytes:
    return _event("error", {"error": str(problem), "reason": problem.reason})


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(finite(data), ensure_ascii=True)}\n\n".encode()
