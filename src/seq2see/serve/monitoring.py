"""The log (JSON lines) and the Prometheus metrics of the service.

Neither ever contains the text of a request, an address or a key.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from seq2see.serve.work_queue import Batch, WorkQueue


class Journal:
    """Writes what happens; without a stream, to nobody."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    @classmethod
    def standard(cls) -> Journal:
        """Return one that writes to standard error."""
        return cls(sys.stderr)

    def write(self, event: str, **fields: Any) -> None:
        """Add a line."""
        if self._stream is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        # Escapes keep a field from starting a line of its own.
        line = json.dumps({"time": time, "event": event, **fields}, ensure_ascii=True)
        self._stream.write(line + "\n")
        self._stream.flush()

    def error(self, event: str, error: BaseException, **fields: Any) -> None:
        """Add a line on something that should not have been."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.write(event, **fields, error=type(error).__name__, places=places)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The numbers of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        mine: dict[str, Any] = {"namespace": "seq2see", "registry": self._registry}
        self._requests = Counter("requests", "Answers.", ["route", "status"], **mine)
        self._seconds = Histogram(
            "request_seconds", "From request to answer.", ["route"], buckets=_SECONDS, **mine
        )
        self._refusals = Counter("refusals", "Requests without a result.", ["reason"], **mine)
        self._batch_items = Histogram("batch_items", "Items a batch.", buckets=_SIZES, **mine)
        self._batch_seconds = Histogram("batch_seconds", "A batch.", buckets=_SECONDS, **mine)
        self._tokens = Counter(
            "tokens",
            "Source tokens that went to the engine; wide beams and traces weigh more.",
            **mine,
        )
        self._reloads = Counter("model_reloads", "Models read anew.", ["outcome"], **mine)
        self._deaths = Counter("worker_deaths", "Threads that had to be replaced.", **mine)

    def watch(self, queue: WorkQueue) -> None:
        """Show how much waits and runs."""
        for name, text, read in (
            ("queue_tokens", "Tokens that wait.", lambda: queue.waiting),
            ("running_tokens", "Tokens that the engine has.", lambda: queue.running),
        ):
            Gauge(name, text, namespace="seq2see", registry=self._registry).set_function(read)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a request without a result."""
        self._refusals.labels(reason).inc()

    def after_batch(self, batch: Batch, seconds: float) -> None:
        """Count a batch."""
        self._batch_items.observe(len(batch.places))
        self._batch_seconds.observe(seconds)
        self._tokens.inc(batch.cost)

    def reloaded(self, outcome: str) -> None:
        """Count a model that was read anew, or could not be."""
        self._reloads.labels(outcome).inc()

    def died(self, count: int) -> None:
        """Count threads that had to be replaced."""
        self._deaths.inc(count)

    def text(self) -> bytes:
        """Return it all as Prometheus reads it."""
        return generate_latest(self._registry)
