"""Keys, rates, limits, deadlines over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.keys import add_key

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
Serving = Callable[..., TestClient]
Sender = Callable[[TestClient, str, bytes], Any]


def test_a_key_lets_in(serving: Serving, sent: Sender, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(keys=path)
    assert client.post("/translate", json=HELLO).status_code == 403
    wrong = client.post("/translate", json={**HELLO, "api_key": "x"})
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    bearer = {"authorization": f"Bearer {key}"}
    right = [
        client.post("/translate", json={**HELLO, "api_key": key}),
        client.post("/translate", data={**HELLO, "api_key": key}),
        client.post("/translate", params={**HELLO, "api_key": key}),
        client.post("/translate", json=HELLO, headers=bearer),
        client.post("/api/v1/translate", json={"text": "a", "target": "de"}, headers=bearer),
        client.get("/api/v1/models", headers=bearer),
        client.get("/metrics", headers=bearer),
    ]
    assert [answer.status_code for answer in right] == [200] * 7
    closed = [
        "/metrics",
        "/api/v1/models",
        "/api/v1/models/en-de",
        "/api/v1/runs",
        "/api/v1/runs/x",
    ]
    assert [client.get(path).status_code for path in closed] == [403] * 5
    assert client.post("/detect", json={"q": "x"}).status_code == 403
    assert client.post("/api/v1/explain", json={}).status_code == 403
    assert client.post("/api/v1/stream", json={}).status_code == 403
    assert sent(client, "a.txt", b"x").status_code == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_rates_are_429_with_a_time(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    answers = [client.post("/translate", json=HELLO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert answers[2].json() == {"error": "Slowdown: 2 per 1 minute"}


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_an_end(serving: Serving, chunked: bool) -> None:
    client = serving(body_bytes=1000)
    body = json.dumps({**HELLO, "q": "x" * 2000}).encode()

    def chunks() -> Iterator[bytes]:
        yield from (body[i : i + 100] for i in range(0, len(body), 100))

    answer = client.post("/translate", content=chunks() if chunked else body, headers=JSON)
    assert answer.status_code == 413
    assert "1000 bytes" in answer.json()["error"]
    assert client.post("/translate", json=HELLO).status_code == 200


def test_files_may_be_longer_than_other_bodies(serving: Serving, sent: Sender) -> None:
    client = serving(body_bytes=1000, file_bytes=5000)
    assert sent(client, "a.txt", b"word " * 900).status_code == 200
    assert sent(client, "a.txt", b"word " * 2000).status_code == 413


def test_a_deadline_gives_an_error_in_time(serving: Serving) -> None:
    client = serving(fresh=True, seconds=0.3)
    first = next(iter(client.service.models))  # type: ignore[attr-defined]
    first.translator.seconds = 1.0
    start = time.monotonic()
    answer = client.post("/translate", json=HELLO)
    assert answer.status_code == 504
    assert time.monotonic() - start < 0.8


def test_draining_refuses_and_says_so(serving: Serving) -> None:
    client = serving(fresh=True)
    client.service.drain()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    answer = client.post("/translate", json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
