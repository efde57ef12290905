"""The text of server-sent events."""

from __future__ import annotations

import asyncio

from seq2see.serve.event_stream import put_latest


def test_slow_reader_gets_only_the_latest_text() -> None:
    texts: asyncio.Queue[str | None] = asyncio.Queue()
    for number in range(1000):
        put_latest(texts, str(number))
    assert texts.get_nowait() == "999"
    put_latest(texts, "last")
    texts.put_nowait(None)
    assert [texts.get_nowait(), texts.get_nowait()] == ["last", None]
