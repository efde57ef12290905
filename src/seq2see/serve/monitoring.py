"""The log (JSON lines) and the Prometheus metrics of the service.

Neither contains the text of a request, an address or a key.
"""

from __future__ import annotations

import json
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from seq2see.serve.work_queue import WorkBatch, WorkQueue

_SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_MAX_FRAMES = 8


class JsonLog:
    """Writes one JSON object per line to a stream; without a stream, nothing.

    The service continues if the stream cannot be written.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def write(self, event: str, **fields: Any) -> None:
        """Write one line with the time, the name of the event and its fields."""
        if self._stream is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        # ensure_ascii escapes line breaks, so that a field cannot forge a line.
        line = json.dumps({"time": time, "event": event, **fields}, ensure_ascii=True)
        with suppress(OSError, ValueError):  # the reader of the log has gone, or the disk is full
            self._stream.write(line + "\n")
            self._stream.flush()

    def write_exception(self, event: str, error: BaseException, **fields: Any) -> None:
        """Write one line with the class and the traceback of an exception.

        The message of the exception is left out, because it may quote the text of a request
        ("… but is 'my secret' instead").
        """
        frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
        locations = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.write(event, **fields, error=type(error).__name__, traceback=locations)


class ServiceMetrics:
    """The Prometheus metrics of one service, in a registry of its own."""

    def __init__(self, queue: WorkQueue) -> None:
        self._registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": "seq2see", "registry": self._registry}
        self._requests = Counter("requests", "Responses.", ["route", "status"], **common)
        self._request_seconds = Histogram(
            "request_duration_seconds",
            "Seconds from request to response.",
            ["route"],
            buckets=_SECONDS_BUCKETS,
            **common,
        )
        self.errors = Counter("errors", "Requests that failed.", ["error_code"], **common)
        self._batch_items = Histogram(
            "batch_items", "Items per batch.", buckets=_SIZE_BUCKETS, **common
        )
        self._batch_seconds = Histogram(
            "batch_duration_seconds", "Seconds per batch.", buckets=_SECONDS_BUCKETS, **common
        )
        self._tokens = Counter(
            "tokens",
            "Source tokens passed to the engine, weighted by beam size; traces weigh more.",
            **common,
        )
        self.reloads = Counter("model_reloads", "Reloads of models.", ["outcome"], **common)
        self.restarts = Counter("worker_restarts", "Worker threads restarted.", **common)
        waiting = Gauge("queue_tokens", "Tokens waiting in the queue.", **common)
        waiting.set_function(lambda: queue.waiting_tokens)
        running = Gauge("running_tokens", "Tokens in the engine.", **common)
        running.set_function(lambda: queue.running_tokens)

    def count_response(self, route: str, status: int, seconds: float) -> None:
        """Count a response and its duration."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def count_batch(self, batch: WorkBatch, seconds: float) -> None:
        """Count a batch, its items, tokens and duration."""
        self._batch_items.observe(len(batch.entries))
        self._batch_seconds.observe(seconds)
        self._tokens.inc(batch.cost)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
