"""Measure the HTTP service: throughput, latency, CPU time per request and memory.

    python -m benchmarks.serving MODEL LINES [--clients 64] [--requests 256] [--soak 10000]

MODEL is a model directory, LINES a text file (.gz too) in its source language. The service runs in
a separate process. This process sends the requests over loopback with a fixed number of clients,
each of which waits for a response before it sends the next request. The speed of the engine without
the service is measured in this process on the same lines, alternating with the service. Each text
of a request is one line.
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
    """Result of a burst of requests."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def p50(self) -> float:
        """Median latency in seconds."""
        return median(self.latencies)

    @property
    def p95(self) -> float:
        """95th percentile of the latency in seconds."""
        return quantiles(self.latencies, n=20)[-1]


class Server:
    """`seq2see serve` in a separate process."""

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
        """Return the CPU time of the service in seconds."""
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Return the resident memory of the service in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        match = re.search(r"VmRSS:\s+(\d+)", status)
        return int(match[1]) / 1024 if match else float("nan")

    def stop(self) -> None:
        """Stop the service."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


@contextmanager
def serving(model: Path, engine: str) -> Iterator[Server]:
    """Run the service within the context."""
    server = Server(model, engine)
    try:
        yield server
    finally:
        server.stop()


def message(texts: Sequence[str], source: str, target: str) -> bytes:
    """Return the bytes of an HTTP request."""
    body = json.dumps({"q": list(texts), "source": source, "target": target}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> int:
    """Send a request, read the complete response and return its status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(b" ", 2)[1])


async def client(port: int, requests: Iterator[bytes], load: Load) -> None:
    """Send the remaining requests one after another on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests:
        start = time.perf_counter()
        status = await exchange(reader, writer, request)
        load.latencies.append(time.perf_counter() - start)
        load.statuses[status] = load.statuses.get(status, 0) + 1
    writer.close()
    await writer.wait_closed()


def burst(server: Server, requests: Sequence[bytes], clients: int) -> Load:
    """Send the requests with a number of clients and return the result."""
    load, remaining = Load(), iter(requests)

    async def run() -> None:
        await asyncio.gather(*(client(server.port, remaining, load) for _ in range(clients)))

    before = server.cpu_seconds()
    load.seconds = seconds(lambda: asyncio.run(run()))
    load.cpu_seconds = server.cpu_seconds() - before
    return load


def group_lines(lines: Sequence[str], size: int, num_groups: int) -> list[list[str]]:
    """Return groups of `size` lines, which repeat when all lines are used."""
    repeated = cycle(lines)
    return [list(islice(repeated, size)) for _ in range(num_groups)]


def measure_batches(args: argparse.Namespace, server: Server, translator: Any) -> None:
    """Print the throughput of requests with many sentences, and of the engine without service."""
    groups = group_lines(args.text, SENTENCES, args.requests)
    lines = [line for group in groups for line in group]
    requests = [message(group, *translator.languages) for group in groups]
    ratios = []
    print(
        f"requests of {SENTENCES} sentences, {args.clients} clients\n\n"
        "| engine, sentences/s | service, sentences/s | ratio | p50, s | p95, s "
        "| engine, CPU ms per sentence | service, CPU ms per sentence | statuses |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    burst(server, requests[: args.clients], args.clients)
    for _ in range(args.rounds):
        cpu = time.process_time()
        engine_seconds = seconds(lambda: translator.translate(lines, beam_size=BEAM_SIZE))
        cpu = time.process_time() - cpu
        load = burst(server, requests, args.clients)
        ratios.append(engine_seconds / load.seconds)
        per_line = 1000 / len(lines)
        speeds = [len(lines) / spent for spent in (engine_seconds, load.seconds)]
        print(
            f"| {speeds[0]:.0f} | {speeds[1]:.0f} | {ratios[-1]:.2f} "
            f"| {load.p50:.2f} | {load.p95:.2f} | {cpu * per_line:.2f} "
            f"| {load.cpu_seconds * per_line:.2f} | {load.statuses} |"
        )
    print(f"\nmedian ratio: {median(ratios):.2f}")


def measure_single_sentences(
    args: argparse.Namespace, server: Server, languages: tuple[str, str]
) -> None:
    """Print latency and CPU time of requests with one sentence."""
    requests = [message(group, *languages) for group in group_lines(args.text, 1, args.singles)]
    print(
        "\nrequests of one sentence\n\n"
        "| clients | requests/s | p50, ms | p95, ms | CPU ms per request | statuses |\n"
        "|---|---|---|---|---|---|"
    )
    for clients in (1, args.clients):
        load = burst(server, requests, clients)
        print(
            f"| {clients} | {len(requests) / load.seconds:.0f} | {1000 * load.p50:.0f} "
            f"| {1000 * load.p95:.0f} | {1000 * load.cpu_seconds / len(requests):.1f} "
            f"| {load.statuses} |"
        )


def measure_memory(args: argparse.Namespace, server: Server, languages: tuple[str, str]) -> None:
    """Print the memory of the service after increasing numbers of requests."""
    step = max(1, args.soak // 10)
    print("\nmemory of the service\n\n| requests | MB |\n|---|---|")
    for done in range(0, args.soak + 1, step):
        print(f"| {done:,} | {server.memory():.0f} |")
        if done < args.soak:
            groups = group_lines(args.text[done % 500 :], 1, step)
            burst(server, [message(group, *languages) for group in groups], args.clients)


def read_text(path: str) -> list[str]:
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
    parser.add_argument("text", type=read_text)
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
        measure_batches(args, server, translator)
        measure_single_sentences(args, server, translator.languages)
        if args.soak:
            measure_memory(args, server, translator.languages)


if __name__ == "__main__":
    main()
