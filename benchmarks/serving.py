"""The service beside its own engine: throughput, latency, CPU time a request, memory.

    python -m benchmarks.serving MODEL LINES [--clients 64] [--requests 256] [--soak 10000]

MODEL is a model directory, LINES a text file (.gz too) in its source language. The service runs in
a process of its own; the load comes from this one, over loopback, from so many clients that each
wait for an answer before they send again: bounded in number and in count. The engine's own speed is
taken in this process on the same lines by one call, and the two take turns, so that both share the
cores with the same neighbours. A text has one sentence, as lines of a corpus do.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.machine import seconds
from seq2see.translator import load

BEAM_SIZE = 5
SENTENCES = 16


@dataclass
class Load:
    """What a burst of requests came to."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def p50(self) -> float:
        """The median latency."""
        return median(self.latencies)

    @property
    def p95(self) -> float:
        """What 95 of 100 requests stay below."""
        return quantiles(self.latencies, n=20)[-1]


class Server:
    """`seq2see serve` in a process of its own."""

    def __init__(self, model: Path, engine: str) -> None:
        command = [sys.executable, "-m", "seq2see", "serve", str(model), "--port", "0"]
        command += [
            "--engine",
            engine,
            "--limit",
            "request_seconds=120",
            "--beam-size",
            str(BEAM_SIZE),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().strip().rsplit(":", 1)[1])

    def cpu_seconds(self) -> float:
        """Return the processor time that it has taken."""
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Return the MB that it holds."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else float("nan")

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


@contextmanager
def serving(model: Path, engine: str) -> Iterator[Server]:
    """Give a running service."""
    server = Server(model, engine)
    try:
        yield server
    finally:
        server.stop()


def message(texts: Sequence[str], source: str, target: str) -> bytes:
    """Return a request as it goes over the wire."""
    body = json.dumps({"q": list(texts), "source": source, "target": target}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> int:
    """Send a request, read its answer whole, and return the status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(b" ", 2)[1])


async def client(port: int, requests: Iterator[bytes], load: Load) -> None:
    """Send what is left, one request after the other, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests:
        start = time.perf_counter()
        status = await exchange(reader, writer, request)
        load.latencies.append(time.perf_counter() - start)
        load.statuses[status] = load.statuses.get(status, 0) + 1
    writer.close()
    await writer.wait_closed()


def burst(server: Server, requests: Sequence[bytes], clients: int) -> Load:
    """Let so many clients share the requests, and return what came of it."""
    load, rest = Load(), iter(requests)

    async def run() -> None:
        await asyncio.gather(*(client(server.port, rest, load) for _ in range(clients)))

    before = server.cpu_seconds()
    load.seconds = seconds(lambda: asyncio.run(run()))
    load.cpu_seconds = server.cpu_seconds() - before
    return load


def grouped(lines: Sequence[str], size: int, count: int) -> list[list[str]]:
    """Return so many groups of lines, from the beginning again when they end."""
    rest = cycle(lines)
    return [list(islice(rest, size)) for _ in range(count)]


def batches(args: argparse.Namespace, server: Server, translator: Any) -> None:
    """Print the throughput of requests with many sentences beside the engine's own."""
    groups = grouped(args.text, SENTENCES, args.requests)
    lines = [line for group in groups for line in group]
    requests = [message(group, *translator.languages) for group in groups]
    ratios = []
    print("sentences/s: engine  served  ratio   p50 s   p95 s   CPU ms a sentence: engine  served")
    burst(server, requests[: args.clients], args.clients)
    for _ in range(args.rounds):
        cpu = time.process_time()
        alone = seconds(lambda: translator.translate(lines, beam_size=BEAM_SIZE))
        cpu = time.process_time() - cpu
        load = burst(server, requests, args.clients)
        ratios.append(alone / load.seconds)
        per_line = 1000 / len(lines)
        print(
            f"{len(lines) / alone:>19.0f} {len(lines) / load.seconds:>7.0f} {ratios[-1]:>6.2f} "
            f"{load.p50:>7.2f} {load.p95:>7.2f} {cpu * per_line:>27.2f} "
            f"{load.cpu_seconds * per_line:>7.2f}  {load.statuses}"
        )
    print(f"the ratio's median: {median(ratios):.2f}")


def singles(args: argparse.Namespace, server: Server, languages: tuple[str, str]) -> None:
    """Print latency and CPU time of requests with one sentence."""
    requests = [message(group, *languages) for group in grouped(args.text, 1, args.singles)]
    print("one sentence: clients requests/s  p50 ms  p95 ms  CPU ms a request  statuses")
    for clients in (1, args.clients):
        load = burst(server, requests, clients)
        print(
            f"{clients:>21} {len(requests) / load.seconds:>10.0f} {1000 * load.p50:>7.0f} "
            f"{1000 * load.p95:>7.0f} {1000 * load.cpu_seconds / len(requests):>17.1f}"
            f"  {load.statuses}"
        )


def soak(args: argparse.Namespace, server: Server, languages: tuple[str, str]) -> None:
    """Print how memory goes over many requests."""
    step = max(1, args.soak // 10)
    print("memory: requests      MB")
    for done in range(0, args.soak + 1, step):
        print(f"{done:>16,} {server.memory():>7.0f}")
        if done < args.soak:
            groups = grouped(args.text[done % 500 :], 1, step)
            burst(server, [message(group, *languages) for group in groups], args.clients)


def read(path: str) -> list[str]:
    """Return the lines of a text file."""
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if path.endswith(".gz") else content).decode()
    return [line.strip() for line in text.splitlines() if line.strip()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=read)
    parser.add_argument("--engine", default="ctranslate2")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--singles", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=int, default=10_000)
    args = parser.parse_args()
    translator = load(args.model, engine=args.engine)
    with serving(args.model, args.engine) as server:
        print(f"engine: {translator.engine.name}")
        batches(args, server, translator)
        singles(args, server, translator.languages)
        if args.soak:
            soak(args, server, translator.languages)


if __name__ == "__main__":
    main()
