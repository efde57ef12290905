"""JSON responses without NaN and infinity, and responses of server-sent events."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from seq2see.serve.errors import BUG, Bug, Gone, Problem
from seq2see.serve.executor import Desk
from seq2see.serve.unbatched import Emit
from seq2see.serve.work_queue import Call


class Json(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        try:
            return super().render(content)
        except ValueError:  # it is rare, so nothing is looked at before
            return json.dumps(finite(content), ensure_ascii=True).encode()


def finite(node: Any) -> Any:
    """Return the same with null for what is no number."""
    if isinstance(node, float):
        return node if math.isfinite(node) else None
    if isinstance(node, dict):
        return {key: finite(value) for key, value in node.items()}
    return [finite(item) for item in node] if isinstance(node, list | tuple) else node


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
