"""The JSON log."""

from __future__ import annotations

import io
import json

from seq2see.serve.monitoring import JsonLog


def test_log_has_one_line_per_event_without_texts() -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    try:
        int("my secret")
    except ValueError as error:
        log.write_exception("error", error, key='a\n{"event": "forged"}')
    (line,) = stream.getvalue().splitlines()
    assert "secret" not in line
    assert json.loads(line)["error"] == "ValueError"
    assert "test_monitoring.py" in json.loads(line)["traceback"][0]


class _BrokenStream(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_closed_log_does_not_stop_the_service() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (_BrokenStream(), closed):
        JsonLog(stream).write("event")
