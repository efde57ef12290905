"""The text of server-sent events."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from seq2see.serve.event_stream import LatestText


def test_slow_reader_gets_only_the_latest_text() -> None:
    async def read() -> list[str | None]:
        latest = LatestText()

        def write() -> None:
            for number in range(1000):
                latest.set(str(number))

        await asyncio.to_thread(write)
        first = await latest.take()
        latest.set("last")
        await latest.wait()
        latest.close()
        return [first, await latest.take(), await latest.take()]

    # In a thread, because Playwright leaves an event loop running in the main thread.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, read()).result() == ["999", "last", None]
